//! What the programs share: their argument, random input, checksums, the line they print
//! (as `../common.h`).

// No program uses all of it.
#![allow(dead_code)]

/// Says on stderr what is wrong and exits with 1.
macro_rules! fail {
    ($($what:tt)*) => {{
        eprintln!($($what)*);
        std::process::exit(1)
    }};
}
pub(crate) use fail;

/// The scale, by which the work grows: the first argument, 1 without one. Exits with 2 where it is
/// none.
pub fn start() -> f64 {
    let Some(text) = std::env::args().nth(1) else { return 1.0 };
    match text.parse() {
        Ok(scale) if (0.001..=100.0).contains(&scale) => scale,
        _ => {
            eprintln!("scale {text:?} is not a number from 0.001 to 100");
            std::process::exit(2)
        }
    }
}

/// `amount` rounded, but not less than `least`.
pub fn at_least(least: usize, amount: f64) -> usize {
    least.max((amount + 0.5) as usize)
}

/// splitmix64 with this state.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d049bb133111eb);
        z ^ z >> 31
    }

    /// From 0 to n - 1.
    pub fn below(&mut self, n: u32) -> u32 {
        ((self.next() >> 32) * u64::from(n) >> 32) as u32
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// A checksum in which the order counts.
pub fn mix(sum: u64, value: u64) -> u64 {
    let sum = (sum ^ value).wrapping_mul(0x9e3779b97f4a7c15);
    sum ^ sum >> 29
}

pub fn mix_double(sum: u64, value: f64) -> u64 {
    mix(sum, value.to_bits())
}

/// The program's line.
pub fn finish(name: &str, checksum: u64) {
    println!("{name} {checksum:016x}");
}
