//! Barriers in four words: how many are awaited, how many have come, which round it is, and how many are inside.

use super::futex::{self, Limits};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// See the module documentation.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Barrier {
    awaited: AtomicU32,
    come: AtomicU32,
    round: AtomicU32,
    /// Threads that may still look at the words.
    inside: AtomicU32,
}

impl Barrier {
    /// A barrier for `n` threads, at least 1.
    pub const fn new(n: u32) -> Barrier {
        Barrier {
            awaited: AtomicU32::new(n),
            come: AtomicU32::new(0),
            round: AtomicU32::new(0),
            inside: AtomicU32::new(0),
        }
    }

    /// Waits until all have come. `true` for one of them.
    pub fn wait(&self) -> bool {
        self.inside.fetch_add(1, Relaxed);
        let round = self.round.load(Acquire);
        let last = self.come.fetch_add(1, AcqRel) + 1 == self.awaited.load(Relaxed);
        if last {
            self.come.store(0, Relaxed);
            self.round.fetch_add(1, SeqCst);
            futex::wake(&self.round, u32::MAX);
        } else {
            while self.round.load(Acquire) == round {
                futex::wait(&self.round, round, &Limits::NONE);
            }
        }
        let word = &raw const self.inside;
        if self.inside.fetch_sub(1, Release) == 1 + QUIESCING {
            futex::wake(word, u32::MAX);
        }
        last
    }

    /// Waits until those that have passed have left the words alone.
    pub fn quiesce(&self) {
        let mut inside = self.inside.fetch_or(QUIESCING, SeqCst) | QUIESCING;
        while inside != QUIESCING {
            futex::wait(&self.inside, inside, &Limits::NONE);
            inside = self.inside.load(Acquire);
        }
        self.inside.store(0, Relaxed);
    }
}

/// Somebody waits for the last one to leave.
const QUIESCING: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn one_of_each_round_is_told() {
        let (b, told) = (Barrier::new(3), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..200 {
                        told.fetch_add(usize::from(b.wait()), Relaxed);
                    }
                });
            }
        });
        b.quiesce();
        assert_eq!(told.into_inner(), 200);
    }
}
