//! Compute loops: work without memory, system calls or library code, whose speed depends on nothing
//! but the core.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::clock::thread_cpu_ns;

/// Which loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Integer mixing in general registers: what a thread without vector state does.
    Scalar,
    /// Multiplication and fused multiply-add of 8 × f32 in AVX registers: the upper halves of the
    /// vector registers are live all the time, so whoever interrupts the thread must save and
    /// restore them.
    Avx,
}

impl Loop {
    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Loop::Scalar => "scalar",
            Loop::Avx => "avx",
        }
    }

    /// Can this processor run the loop?
    pub fn available(self) -> bool {
        match self {
            Loop::Scalar => true,
            Loop::Avx => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        }
    }

    /// Runs `iterations` of the loop from `seed`. The result depends on both, and on nothing else:
    /// whoever interrupts the loop and restores its registers wrongly changes it.
    ///
    /// # Panics
    ///
    /// If the loop is not [`available`](Self::available).
    pub fn run(self, seed: u64, iterations: u64) -> u64 {
        match self {
            Loop::Scalar => scalar(seed, iterations),
            Loop::Avx => {
                assert!(self.available(), "this processor has no AVX2 and FMA");
                // SAFETY: the features that the function needs were just found.
                unsafe { avx(seed, iterations) }
            }
        }
    }
}

/// `iterations` rounds of a 64-bit mixing function: a dependent chain of one multiplication and two
/// shifts with exclusive or.
pub fn scalar(seed: u64, iterations: u64) -> u64 {
    let mut state = seed | 1;
    for _ in 0..iterations {
        state ^= state >> 29;
        state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        // Keeps the compiler from finding a closed form; costs no instruction.
        state = black_box(state) ^ (state >> 32);
    }
    state
}

/// `iterations` rounds of the map x := 1 - 1.9 x² on four independent vectors of 8 × f32. The map
/// is chaotic, so a wrong bit is never forgotten, and stays in [-1, 1], so that no special numbers
/// change the speed.
#[target_feature(enable = "avx2,fma")]
fn avx(seed: u64, iterations: u64) -> u64 {
    use std::arch::x86_64::{
        _mm256_castps_si256, _mm256_extract_epi64, _mm256_fnmadd_ps, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_setr_ps, _mm256_xor_ps,
    };
    let start = (seed % 1000) as f32 / 1009.0;
    let base = _mm256_setr_ps(
        start,
        start * 0.9,
        start * 0.8,
        start * 0.7,
        start - 0.1,
        start - 0.2,
        start - 0.3,
        start - 0.4,
    );
    let one = _mm256_set1_ps(1.0);
    let factor = _mm256_set1_ps(1.9);
    let half = _mm256_set1_ps(0.5);
    let mut x = [base, _mm256_mul_ps(base, base), one, _mm256_mul_ps(base, half)];
    for _ in 0..iterations {
        for vector in &mut x {
            *vector = _mm256_fnmadd_ps(factor, _mm256_mul_ps(*vector, *vector), one);
        }
    }
    let mixed = _mm256_xor_ps(_mm256_xor_ps(x[0], x[1]), _mm256_xor_ps(x[2], x[3]));
    let bits = _mm256_castps_si256(mixed);
    (_mm256_extract_epi64::<0>(bits) ^ _mm256_extract_epi64::<3>(bits).rotate_left(7)) as u64
}

/// How many rounds of [`scalar`] take so many nanoseconds of CPU time: of several tries the
/// fastest, which the machine has disturbed least.
pub fn scalar_iterations(ns: u64) -> u64 {
    const ROUNDS: u64 = 1_000_000;
    let time = |_| {
        let start = thread_cpu_ns();
        black_box(scalar(1, ROUNDS));
        thread_cpu_ns() - start
    };
    let fastest = (0..5).map(time).min().unwrap_or(1).max(1);
    (ROUNDS * ns / fastest).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_functions_of_seed_and_length() {
        for kind in [Loop::Scalar, Loop::Avx].into_iter().filter(|kind| kind.available()) {
            assert_eq!(kind.run(7, 1000), kind.run(7, 1000));
            assert_ne!(kind.run(7, 1000), kind.run(8, 1000));
            assert_ne!(kind.run(7, 1000), kind.run(7, 1001));
        }
    }
}
