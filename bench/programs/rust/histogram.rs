//! Histograms of a picture's three colours, while it gets brighter from pass to pass.
mod common;
use common::{Rng, at_least, fail, finish, mix, start};

const PASSES: usize = 60;
const STEP: u8 = 7;

type Histogram = [[u32; 256]; 3];

fn count_colors(pixels: &[u8]) -> Histogram {
    let mut count = [[0; 256]; 3];
    for pixel in pixels.chunks_exact(3) {
        for (colour, &value) in count.iter_mut().zip(pixel) {
            colour[usize::from(value)] += 1;
        }
    }
    count
}

fn brighten(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = byte.wrapping_add(STEP);
    }
}

fn main() {
    let pixels = at_least(100, 10000000.0 * start());
    let mut picture = vec![0u8; 3 * pixels];
    let mut rng = Rng(12);
    for four in picture.chunks_mut(4) {
        let mut bits = rng.next();
        for byte in four {
            *byte = (((bits & 255) + (bits >> 8 & 255)) / 2) as u8;
            bits >>= 16;
        }
    }
    let first = count_colors(&picture);
    let mut now = first;
    for c in 0..3 {
        let direct: u64 = picture.iter().skip(c).step_by(3).map(|&value| u64::from(value)).sum();
        let counted: u64 = (0..).zip(first[c]).map(|(v, n): (u64, u32)| v * u64::from(n)).sum();
        if counted != direct {
            fail!("colour {c}: a sum of {counted} instead of {direct}");
        }
    }
    for pass in 1..=PASSES {
        brighten(&mut picture);
        now = count_colors(&picture);
        for c in 0..3 {
            for v in 0..256 {
                if now[c][(v + pass * usize::from(STEP)) & 255] != first[c][v] {
                    fail!("pass {pass}: colour {c}, value {v} is not where it should be");
                }
            }
            if now[c].iter().map(|&n| n as usize).sum::<usize>() != pixels {
                fail!("pass {pass}: not all of {pixels} pixels counted");
            }
        }
    }
    finish("histogram", now.iter().flatten().fold(0, |sum, &n| mix(sum, u64::from(n))));
}
