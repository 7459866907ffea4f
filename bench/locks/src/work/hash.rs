//! A hash table of 100 buckets, each with a lock. Keys follow Zipf's law; which keys are the
//! frequent ones changes every 10 ms, so that other locks are contended. (FlexGuard 5.2, Figure
//! 3a-d.)
//!
//! Four of five operations look a value up, one adds to it.

use std::cell::UnsafeCell;
use std::hint::black_box;

use super::crew::{Crew, Done, pause};
use super::random::{Random, Zipf};
use super::shared::BETWEEN;
use crate::locks::{BenchLock, Use, cycles};

/// As in the paper.
const BUCKETS: usize = 100;
/// In all buckets.
const KEYS: usize = 1000;
/// Zipf's exponent; the paper does not say its own.
const SKEW: f64 = 0.99;
/// Keys that a thread has drawn before it begins; then they repeat.
const DRAWN: usize = 4096;

/// A lock and the entries that it protects: keys and values.
#[repr(align(128))]
struct Bucket<L> {
    lock: L,
    entries: UnsafeCell<Vec<(u64, u64)>>,
}

// SAFETY: entries are used under the lock only.
unsafe impl<L: Sync> Sync for Bucket<L> {}

/// The benchmark.
pub struct HashTable {
    /// The threads.
    pub crew: Crew,
    /// Cycles of the TSC between two changes of the frequent keys.
    pub shift_every: u64,
}

impl Use for HashTable {
    /// And how many additions are missing.
    type Out = (Done, u64);

    fn with<L: BenchLock>(self) -> (Done, u64) {
        let mut table: Vec<Bucket<L>> = Vec::new();
        table.resize_with(BUCKETS, || Bucket {
            lock: L::create(),
            entries: UnsafeCell::new(Vec::new()),
        });
        for key in 0..KEYS as u64 {
            table[bucket(key)].entries.get_mut().push((key, 0));
        }
        let zipf = Zipf::new(KEYS, SKEW);
        let (begun, every) = (cycles(), self.shift_every);
        let added = std::sync::atomic::AtomicU64::new(0);
        let done = self.crew.run(|index| {
            let mut random = Random::new(index as u64 + 1);
            let drawn: Vec<u64> = (0..DRAWN).map(|_| zipf.draw(&mut random) as u64).collect();
            let (table, added) = (&table, Added { sum: 0, total: &added });
            let (mut node, mut next, mut added) = (L::Node::default(), 0, added);
            move |tally| {
                let shift = (cycles() - begun) / every * 137;
                let key = (drawn[next % DRAWN] + shift) % KEYS as u64;
                let adds = next.is_multiple_of(5);
                next += 1;
                let bucket = &table[bucket(key)];
                tally.begin();
                let spins = bucket.lock.lock(&mut node);
                // SAFETY: under the lock.
                let entries = unsafe { &mut *bucket.entries.get() };
                let entry = entries.iter_mut().find(|entry| entry.0 == key);
                let entry = entry.expect("all keys are there");
                if adds {
                    entry.1 += 1;
                } else {
                    black_box(entry.1);
                }
                // SAFETY: taken above, with this node.
                unsafe { bucket.lock.unlock(&mut node) };
                tally.end(spins);
                added.note(adds);
                pause(BETWEEN);
            }
        });
        let there: u64 =
            table.into_iter().flat_map(|bucket| bucket.entries.into_inner()).map(|e| e.1).sum();
        (done, there.abs_diff(added.into_inner()))
    }
}

fn bucket(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % BUCKETS
}

/// A thread's additions; the total is right when all have ended.
struct Added<'a> {
    sum: u64,
    total: &'a std::sync::atomic::AtomicU64,
}

impl Added<'_> {
    /// As a method, so that a closure takes all of it.
    fn note(&mut self, adds: bool) {
        self.sum += u64::from(adds);
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        self.total.fetch_add(self.sum, std::sync::atomic::Ordering::Relaxed);
    }
}
