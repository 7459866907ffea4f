//! After PiBench: a B+-tree in memory whose leaves have a lock each, 16 million of them at full
//! size. Threads read and write, half and half, at keys of a self-similar distribution of skew 0.2,
//! so that few locks are contended. (FlexGuard 5.3, Figure 3e-h.)
//!
//! The tree does not grow: its inner levels are written once, and read without locks.

use super::{Locked, Ran, Size};
use crate::locks::{BenchLock, Use};
use crate::work::random::{Random, self_similar};

/// The locks at full size.
pub const LEAVES: usize = 16 << 20;
/// Keys in a leaf, and children of an inner node.
const WIDTH: usize = 8;
const OPS: u64 = 4_000_000;

/// The program.
pub struct Index {
    /// How it runs.
    pub size: Size,
    /// How many leaves.
    pub leaves: usize,
}

/// Levels of smallest keys: the leaves' own first, the root last.
struct Inner(Vec<Vec<u64>>);

impl Inner {
    fn over(leaves: usize) -> Self {
        let mut levels: Vec<Vec<u64>> =
            vec![(0..leaves).map(|leaf| (leaf * WIDTH) as u64).collect()];
        while levels.last().expect("one").len() > WIDTH {
            let below = levels.last().expect("one");
            levels.push(below.iter().copied().step_by(WIDTH).collect());
        }
        Self(levels)
    }

    /// The leaf of a key.
    fn find(&self, key: u64) -> usize {
        let mut at = 0;
        for level in self.0.iter().rev() {
            let children = &level[at * WIDTH..((at + 1) * WIDTH).min(level.len())];
            at = at * WIDTH + children.partition_point(|&first| first <= key) - 1;
        }
        at
    }
}

impl Use for Index {
    type Out = Ran;

    fn with<L: BenchLock>(self) -> Ran {
        let inner = Inner::over(self.leaves);
        let mut leaves: Vec<Locked<L, [u32; WIDTH]>> = Vec::new();
        leaves.resize_with(self.leaves, || Locked::new([0; WIDTH]));
        let keys = (self.leaves * WIDTH) as u64;
        let each = self.size.of(OPS) / self.size.threads as u64 + 1;
        let (written, took) = self.size.run(|index| {
            let (mut random, mut node) = (Random::new(index as u64 + 1), L::Node::default());
            let (mut written, mut read) = (0u64, 0u64);
            for _ in 0..each {
                // Frequent keys are not neighbours: an odd factor moves them apart.
                let rank = self_similar(keys, 0.2, &mut random);
                let key = rank.wrapping_mul(0x9e37_79b9) % keys;
                let slot = key as usize % WIDTH;
                let leaf = &leaves[inner.find(key)];
                if random.number().is_multiple_of(2) {
                    leaf.with(&mut node, |values| values[slot] += 1);
                    written += 1;
                } else {
                    read += leaf.with(&mut node, |values| u64::from(values[slot]));
                }
            }
            std::hint::black_box(read);
            written
        });
        let wanted: u64 = written.iter().sum();
        let values = leaves.into_iter().flat_map(Locked::into_inner);
        let there: u64 = values.map(u64::from).sum();
        let wrong = (there != wanted).then(|| format!("{there} of {wanted} writes are there"));
        Ran { ops: each * self.size.threads as u64, took, wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_found_in_their_leaves() {
        for leaves in [1, 7, 8, 9, 64, 1000] {
            let inner = Inner::over(leaves);
            for key in 0..leaves * WIDTH {
                assert_eq!(inner.find(key as u64), key / WIDTH, "{key} among {leaves} leaves");
            }
        }
    }
}
