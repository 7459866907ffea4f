//! When a worker that is busy asks for files.
//!
//! At most every [`POLL`](crate::reactor::POLL). While threads that the kernel has told of still
//! wait for this worker, others would only queue behind them, so it asks more rarely: once in a
//! quantum, and at least once in [`SELDOM`] of those times. Few calls then take many events each,
//! and the one who sends meanwhile finds the instance's lock free. (Aspen, 3.2.3, asks after each
//! preemption; so does this.)

use super::Slot;
use crate::reactor::{REACTOR, bell};
use crate::tsc::Ticks;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much more rarely it asks, at most.
const SELDOM: Ticks = 10;

/// A slot's. Written by its carrier only.
pub(crate) struct Polls {
    /// When the next pick asks, or thinks about it; 0: it asks.
    next: AtomicU64,
    /// When it has asked last.
    at: AtomicU64,
    /// Threads it has heard of, and how many dispatches there had been when they were counted.
    waiting: AtomicU64,
    counted: AtomicU64,
}

impl Polls {
    pub(super) const fn new() -> Polls {
        Polls {
            next: AtomicU64::new(0),
            at: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        }
    }

    /// How many of the threads it has heard of are left after so many `dispatches`, if each was one
    /// of theirs.
    fn left(&self, dispatches: u64) -> u64 {
        let since = dispatches.wrapping_sub(self.counted.swap(dispatches, Relaxed));
        let left = self.waiting.load(Relaxed).saturating_sub(since);
        self.waiting.store(left, Relaxed);
        left
    }
}

impl Slot {
    /// Asks for files if it is time. As for [`pick`](Slot::pick).
    #[inline(always)]
    pub(crate) fn poll_if_due(&self, now: Ticks) {
        if now >= self.polls.next.load(Relaxed) {
            self.poll_if_they_have_run(now);
        }
    }

    /// Asks for files unless those that it has heard of still wait. As for [`pick`](Slot::pick).
    #[cold]
    fn poll_if_they_have_run(&self, now: Ticks) {
        let (rt, polls) = (self.rt(), &self.polls);
        let must = polls.next.load(Relaxed) == 0;
        let most = rt.quantum.unwrap_or(Ticks::MAX).clamp(rt.poll_every, SELDOM * rt.poll_every);
        let until = polls.at.load(Relaxed).saturating_add(most);
        let may_wait = !must && now < until && !bell::is_due();
        if may_wait && polls.left(self.stats.switches.get()) > 0 {
            polls.next.store(until.min(now + rt.poll_every), Relaxed);
            return;
        }
        self.poll(now);
    }

    /// The next pick asks for files.
    pub(crate) fn poll_next(&self) {
        self.polls.next.store(0, Relaxed);
    }

    /// When the carrier has asked for files last. For anybody.
    pub(crate) fn polled_at(&self) -> Ticks {
        self.polls.at.load(Relaxed)
    }

    /// Nobody waits for this worker. Makes threads runnable whose files are ready. As for
    /// [`pick`](Slot::pick).
    #[cold]
    pub(crate) fn poll_for_work(&self, now: Ticks) -> bool {
        self.polls.waiting.store(0, Relaxed);
        self.poll(now)
    }

    /// Makes threads runnable whose files are ready. As for [`pick`](Slot::pick).
    fn poll(&self, now: Ticks) -> bool {
        let (rt, polls) = (self.rt(), &self.polls);
        polls.at.store(now, Relaxed);
        polls.next.store(now.saturating_add(rt.poll_every), Relaxed);
        if bell::is_due() {
            bell::ring_all();
        }
        let woken = if REACTOR.is_awaited() { REACTOR.poll(rt, Some(self)) } else { 0 };
        let left = polls.left(self.stats.switches.get());
        polls.waiting.store(left + woken, Relaxed);
        woken != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_heard_of_has_run_after_as_many_dispatches() {
        let polls = Polls::new();
        assert_eq!(polls.left(100), 0);
        polls.waiting.store(5, Relaxed);
        assert_eq!(polls.left(102), 3);
        assert_eq!(polls.left(102), 3);
        assert_eq!(polls.left(104), 1);
        assert_eq!(polls.left(110), 0);
    }
}
