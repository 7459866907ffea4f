//! Cache lines that point to one another in random order.

use std::time::Duration;

use quaver_bench_common::clock::monotonic_ns;

/// So many hops between two looks at the time: well below a microsecond while lines are in a cache.
const HOPS_PER_LOOK: u64 = 32;

/// One cycle through all lines of a piece of memory.
pub struct Ring(Box<[Line]>);

#[repr(align(64))]
struct Line {
    next: u32,
}

impl Ring {
    /// One of `bytes`, at least two lines; `seed` decides its order.
    pub fn new(bytes: usize, seed: u64) -> Ring {
        let lines = (bytes / size_of::<Line>()).max(2);
        let mut order: Vec<u32> = (0..lines as u32).collect();
        let mut random = seed;
        // Sattolo's shuffle: the result, as a map from place to place, is one cycle.
        for last in (1..lines).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(last, (random >> 33) as usize % last);
        }
        Ring(order.into_iter().map(|next| Line { next }).collect())
    }

    /// Follows `hops` pointers and calls `at_end` whenever a quantum has passed. Returns the last
    /// line and how many quanta ended. The same code for all, or the compiler would decide.
    #[inline(never)]
    pub fn chase(&self, hops: u64, quantum: Duration, at_end: &dyn Fn()) -> (u32, u64) {
        let (mut at, mut ended) = (0, 0);
        let quantum = quantum.as_nanos() as u64;
        let mut end = monotonic_ns() + quantum;
        for _ in 0..hops.div_ceil(HOPS_PER_LOOK) {
            for _ in 0..HOPS_PER_LOOK {
                at = self.0[at as usize].next;
            }
            if monotonic_ns() >= end {
                at_end();
                ended += 1;
                end = monotonic_ns() + quantum;
            }
        }
        (std::hint::black_box(at), ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_on_one_cycle() {
        for lines in [2, 3, 64, 1000] {
            let ring = Ring::new(lines * 64, 7);
            let next = |&at: &u32| Some(ring.0[at as usize].next).filter(|&next| next != 0);
            assert_eq!(std::iter::successors(Some(0), next).count(), lines);
        }
    }

    #[test]
    fn quanta_end() {
        let (_, ended) = Ring::new(4096, 1).chase(320, Duration::ZERO, &|| {});
        assert_eq!(ended, 10);
    }
}
