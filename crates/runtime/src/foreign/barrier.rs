//! Barriers: how many are awaited, how many have come and which round it is, and how many are
//! inside.
//!
//! # Protocol
//!
//! The count of those who have come and the number of the round are one word, changed as one: an
//! arrival moves `(round, count)` to `(round, count + 1)`, or, if it is the last that the round
//! awaits, to `(round + 1, 0)`. So every arrival belongs to exactly one round, also when more
//! threads come than the barrier awaits and the next round begins before anybody has left the last.
//! Who is not the last sleeps on the half with the round until that has changed.
//!
//! A thread's last access is the decrement of `inside`, so [`Barrier::quiesce`] tells when the
//! words may be reused.

#[cfg(not(loom))]
use super::futex::{self, End, Limits};
use crate::park::shim::{AtomicU32, AtomicU64, const_unless_loom};
use core::sync::atomic::Ordering::*;

/// See the module documentation.
#[derive(Debug)]
#[repr(C)]
pub struct Barrier {
    awaited: AtomicU32,
    /// Threads that may still look at the words.
    inside: AtomicU32,
    /// The low half counts those who have come, the high one the rounds.
    arrivals: AtomicU64,
    #[cfg(loom)]
    sleepers: model::Sleepers,
}

/// Somebody waits for the last one to leave.
const QUIESCING: u32 = 1 << 31;

fn round_of(arrivals: u64) -> u32 {
    (arrivals >> 32) as u32
}

impl Barrier {
    const_unless_loom! {
        /// A barrier for `n` threads, at least 1.
        pub fn new(n: u32) -> Barrier {
            Barrier {
                awaited: AtomicU32::new(n),
                inside: AtomicU32::new(0),
                arrivals: AtomicU64::new(0),
                #[cfg(loom)]
                sleepers: model::Sleepers::new(),
            }
        }
    }

    /// Waits until all have come. `true` for one of them.
    pub fn wait(&self) -> bool {
        self.inside.fetch_add(1, Relaxed);
        let (round, last) = self.arrive();
        if last {
            self.wake_round();
        } else {
            while round_of(self.arrivals.load(Acquire)) == round {
                self.sleep(round);
            }
        }
        self.leave();
        last
    }

    /// The caller's round, and whether it completes it.
    fn arrive(&self) -> (u32, bool) {
        let mut seen = self.arrivals.load(Relaxed);
        loop {
            let (round, come) = (round_of(seen), seen as u32 + 1);
            let last = come == self.awaited.load(Relaxed);
            let next = if last {
                u64::from(round.wrapping_add(1)) << 32
            } else {
                u64::from(round) << 32 | u64::from(come)
            };
            match self.arrivals.compare_exchange_weak(seen, next, SeqCst, Relaxed) {
                Ok(_) => return (round, last),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(not(loom))]
impl Barrier {
    /// The half with the round.
    fn round(&self) -> &AtomicU32 {
        // SAFETY: the high half of a little-endian word, which is only read through this reference.
        unsafe { &*(&raw const self.arrivals).cast::<AtomicU32>().add(1) }
    }

    /// [`Barrier::wait`], in which `through` waits by the function that it is given, and again if
    /// that ends by a limit.
    pub fn wait_through(&self, through: impl Fn(&dyn Fn(&Limits<'_>) -> End) -> End) -> bool {
        self.inside.fetch_add(1, Relaxed);
        let (round, last) = self.arrive();
        if last {
            self.wake_round();
        } else {
            while round_of(self.arrivals.load(Acquire)) == round {
                through(&|limits| futex::wait(self.round(), round, limits));
            }
        }
        self.leave();
        last
    }

    fn sleep(&self, round: u32) {
        futex::wait(self.round(), round, &Limits::NONE);
    }

    fn wake_round(&self) {
        futex::wake(self.round(), u32::MAX);
    }

    fn leave(&self) {
        let word = &raw const self.inside;
        if self.inside.fetch_sub(1, Release) == 1 + QUIESCING {
            futex::wake(word, u32::MAX);
        }
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

#[cfg(all(test, not(loom)))]
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

    /// Arrivals of the next round while the last is being released: none is lost, none counts
    /// twice.
    #[test]
    fn more_threads_than_it_awaits() {
        const EACH: usize = 5_000;
        let (b, told) = (Barrier::new(2), AtomicUsize::new(0));
        let come = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    // The number of arrivals is even, so nobody is left waiting.
                    while come.fetch_add(1, Relaxed) < 4 * EACH {
                        told.fetch_add(usize::from(b.wait()), Relaxed);
                    }
                });
            }
        });
        assert_eq!(told.into_inner(), 2 * EACH);
    }
}

/// What stands in for the kernel in models.
#[cfg(loom)]
mod model {
    use super::{Barrier, round_of};
    use loom::sync::{Condvar, Mutex};
    use std::sync::atomic::Ordering::*;

    #[derive(Debug)]
    pub(super) struct Sleepers(Mutex<()>, Condvar);

    impl Sleepers {
        pub(super) fn new() -> Sleepers {
            Sleepers(Mutex::new(()), Condvar::new())
        }
    }

    impl Barrier {
        pub(super) fn sleep(&self, round: u32) {
            let bucket = self.sleepers.0.lock().unwrap();
            if round_of(self.arrivals.load(Relaxed)) == round {
                drop(self.sleepers.1.wait(bucket).unwrap());
            }
        }

        pub(super) fn wake_round(&self) {
            drop(self.sleepers.0.lock().unwrap());
            self.sleepers.1.notify_all();
        }

        pub(super) fn leave(&self) {
            self.inside.fetch_sub(1, Release);
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::models::explore;
    use loom::sync::Arc;
    use loom::thread;

    /// Four threads at a barrier for two: each arrival belongs to one round, and each round has one
    /// leader.
    #[test]
    fn more_threads_than_it_awaits() {
        explore(1, || {
            let barrier = Arc::new(Barrier::new(2));
            let others = [(); 3].map(|()| {
                let barrier = barrier.clone();
                thread::spawn(move || usize::from(barrier.wait()))
            });
            let mine = usize::from(barrier.wait());
            let led: usize = others.map(|t| t.join().unwrap()).iter().sum();
            assert_eq!(mine + led, 2);
            assert_eq!(barrier.inside.load(Relaxed), 0);
        });
    }
}
