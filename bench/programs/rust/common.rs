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

/// The program's line, for results that are the same to the last bit with every compiler.
pub fn finish(name: &str, checksum: u64) {
    println!("{name} {checksum:016x}");
}

/// The program's line, for results that depend on the last bits of libm: nine digits, as C's `%.9g`
/// of numbers from 0.0001 to 10^9.
pub fn finish_rounded(name: &str, result: f64) {
    let scientific = format!("{result:.8e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    let Some(exponent @ -4..=8) = exponent else { fail!("{name}: {result} is out of range") };
    let fixed = format!("{result:.*}", (8 - exponent) as usize);
    let short =
        if exponent < 8 { fixed.trim_end_matches('0').trim_end_matches('.') } else { &fixed };
    println!("{name} {short}");
}

/// The complementary error function, right to 1e-14: a series without cancellation.
pub fn erfc(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return if x > 0.0 { 0.0 } else { 2.0 };
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    1.0 - std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}
