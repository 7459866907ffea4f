//! Loops, recursion and generic code.

/// Computes for as long as there are rounds.
pub fn spin(seed: u64, rounds: u64) -> u64 {
    let mut x = seed;
    for _ in 0..rounds {
        x = (x ^ x >> 29).wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    }
    x
}

/// Compiled in the crate that calls it.
///
/// ```
/// assert_eq!(sample_work::mix(&[1u8, 2]), 5);
/// ```
pub fn mix<T: Copy + Into<u64>>(values: &[T]) -> u64 {
    values.iter().zip(1..).map(|(&value, weight)| value.into() * weight).sum()
}

struct Noisy(u32);

impl Drop for Noisy {
    fn drop(&mut self) {
        if self.0 % 20 == 0 {
            println!("dropped {}", self.0);
        }
    }
}

/// Panics at the end of a recursion, with something to drop at each step.
#[inline(never)]
pub fn deep(depth: u32) -> u32 {
    let noisy = Noisy(depth);
    if depth == 0 {
        panic!("at the bottom");
    }
    deep(depth - 1) + noisy.0
}

#[cfg(test)]
mod tests {
    #[test]
    fn sums() {
        assert_eq!(super::mix(&[1u8, 2]), 5);
        assert_eq!(super::spin(7, 0), 7);
    }
}
