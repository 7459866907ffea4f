//! Counts the words of a book, chapter by chapter, in a hash table, then lists the most frequent.
mod common;
use common::{Rng, at_least, fail, finish, mix, start};
use std::cmp::Ordering;

const TOP: usize = 10;
const CHAPTER: usize = 100000;
const DIFFERENT: usize = 8000;

struct Entry {
    /// The number of another one.
    next: Option<usize>,
    hash: u64,
    count: u64,
    /// In lower case.
    word: Vec<u8>,
}

/// Chains of entries; the number of slots is a power of two.
struct Table {
    slots: Vec<Option<usize>>,
    entries: Vec<Entry>,
}

fn compare(a: &[u8], b: &[u8]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x.to_ascii_lowercase(), y.to_ascii_lowercase());
        if x != y {
            return x.cmp(&y);
        }
    }
    a.len().cmp(&b.len())
}

impl Table {
    fn slot(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        self.slots = vec![None; 2 * self.slots.len()];
        for number in 0..self.entries.len() {
            let slot = self.slot(self.entries[number].hash);
            self.entries[number].next = self.slots[slot].replace(number);
        }
    }

    fn find(&mut self, word: &[u8], hash: u64) -> &mut Entry {
        let mut next = self.slots[self.slot(hash)];
        while let Some(number) = next {
            let entry = &self.entries[number];
            if entry.hash == hash && compare(&entry.word, word).is_eq() {
                return &mut self.entries[number];
            }
            next = entry.next;
        }
        if self.entries.len() >= self.slots.len() {
            self.grow();
        }
        let (slot, number) = (self.slot(hash), self.entries.len());
        let next = self.slots[slot].replace(number);
        self.entries.push(Entry { next, hash, count: 0, word: word.to_ascii_lowercase() });
        &mut self.entries[number]
    }
}

/// The next word and its hash (FNV-1a); leaves what follows it in `rest`.
fn next_word<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], u64)> {
    let from = rest.iter().position(u8::is_ascii_alphabetic)?;
    let (mut length, mut h) = (0, 0xcbf29ce484222325u64);
    for letter in rest[from..].iter().take_while(|letter| letter.is_ascii_alphabetic()) {
        h = (h ^ u64::from(letter.to_ascii_lowercase())).wrapping_mul(0x100000001b3);
        length += 1;
    }
    let (word, after) = rest[from..].split_at(length);
    *rest = after;
    Some((word, h ^ h >> 32))
}

/// Spells a number in syllables, each number differently.
fn spell(out: &mut Vec<u8>, mut number: usize) {
    loop {
        out.push(b"bcdfgklmnprstvwz"[number % 80 / 5]);
        out.push(b"aeiou"[number % 5]);
        number /= 80;
        if number == 0 {
            return;
        }
    }
}

fn write_chapter(text: &mut Vec<u8>, rng: &mut Rng, used: &mut [u64]) {
    text.clear();
    // Few words often, many seldom.
    for i in 0..CHAPTER {
        let u = rng.between(0.0, 1.0);
        let number = (u * u * u * u * used.len() as f64) as usize;
        used[number] += 1;
        let first = text.len();
        spell(text, number);
        if i % 13 == 0 {
            text[first].make_ascii_uppercase();
        }
        if i % 17 == 0 {
            text.push(b'.');
        }
        text.push(if i % 11 == 10 { b'\n' } else { b' ' });
    }
}

fn main() {
    let chapters = at_least(1, 285.0 * start());
    let (mut used, mut text) = (vec![0; DIFFERENT], Vec::new());
    let (mut rng, mut counted, mut sum) = (Rng(16), 0, 0);
    let mut table = Table { slots: vec![None; 1024], entries: Vec::new() };
    for _ in 0..chapters {
        write_chapter(&mut text, &mut rng, &mut used);
        let mut rest = &text[..];
        while let Some((word, hash)) = next_word(&mut rest) {
            table.find(word, hash).count += 1;
            counted += 1;
        }
    }
    if counted != chapters * CHAPTER {
        fail!("{counted} of {} words counted", chapters * CHAPTER);
    }
    let mut all: Vec<&Entry> = table.entries.iter().collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| compare(&a.word, &b.word)));
    for entry in all.iter().take(TOP) {
        sum = mix(mix(sum, entry.hash), entry.count);
    }

    let mut entries = table.entries.len();
    for (n, &used) in used.iter().enumerate().filter(|(_, used)| **used > 0) {
        text.clear();
        spell(&mut text, n);
        entries -= 1;
        let Some((word, hash)) = next_word(&mut &text[..]) else { fail!("no word for {n}") };
        if table.find(word, hash).count != used {
            fail!("{} was not counted {used} times", String::from_utf8_lossy(word));
        }
    }
    if entries > 0 {
        fail!("{entries} words that are not in the text");
    }
    finish("word_count", sum);
}
