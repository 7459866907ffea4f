//! Which words of a text are among a few that are known only scrambled: scrambles each and
//! compares, for many salts.
mod common;
use common::{Rng, at_least, fail, finish, mix, start};

const SALTS: u8 = 56;
const WIDTH: usize = 16;
const KEYS: [&[u8]; 4] = [b"helloworld", b"howareyou", b"ferrari", b"whotheman"];

fn scramble(word: &[u8], salt: u8) -> [u8; WIDTH] {
    let (mut out, mut last) = ([0; WIDTH], salt);
    for (out, letter) in out.iter_mut().zip(word) {
        last = last.rotate_left(3) ^ letter.wrapping_add(salt);
        *out = last;
    }
    out
}

fn count_keys(text: &[u8], salt: u8) -> [u64; KEYS.len()] {
    let secret = KEYS.map(|key| scramble(key, salt));
    let mut found = [0; KEYS.len()];
    let mut rest = text;
    while let Some(length) = rest.iter().position(|&letter| letter == b'\n') {
        if length <= WIDTH {
            let scrambled = scramble(&rest[..length], salt);
            for (found, secret) in found.iter_mut().zip(&secret) {
                *found += u64::from(scrambled == *secret);
            }
        }
        rest = &rest[length + 1..];
    }
    found
}

fn main() {
    let length = at_least(200, 11000000.0 * start());
    let mut text = Vec::with_capacity(length + 2 * WIDTH);
    let (mut rng, mut planted, mut sum) = (Rng(14), [0; KEYS.len()], 0);
    while text.len() < length {
        let kind = rng.below(64) as usize;
        if let Some(key) = KEYS.get(kind) {
            planted[kind] += 1;
            text.extend_from_slice(key);
        } else {
            // Capitals, so never a key; some are almost one, some too long.
            let mut bits = rng.next();
            if kind >= 60 {
                let key = KEYS[kind - 60];
                text.extend_from_slice(&key[..key.len() - 1]);
                text.push(b'!');
            } else {
                for _ in 0..3 + kind % 15 {
                    text.push(b'A' + (bits % 26) as u8);
                    bits = bits.rotate_right(3);
                }
            }
        }
        text.push(b'\n');
    }
    for salt in 1..=SALTS {
        let found = count_keys(&text, salt.wrapping_mul(5));
        if found != planted {
            fail!("salt {salt}: {found:?} instead of {planted:?}");
        }
        sum = found.iter().fold(sum, |sum, &n| mix(sum, n));
    }
    finish("string_match", sum);
}
