//! When a worker that is busy asks for files.
//!
//! At most every [`POLL`](crate::reactor::POLL). While threads that the kernel has told of still
//! wait for a worker, others would only queue behind them, so it asks more rarely: once in
//! [`SELDOM`] of those times, and where threads have outlived their quantum lately, once in a
//! quantum. Few calls then take many events each, and the one who sends meanwhile finds the
//! instance's lock free. (Aspen, 3.2.3, asks after each preemption; so does this.)

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
}

impl Polls {
    pub(super) const fn new() -> Polls {
        Polls { next: AtomicU64::new(0), at: AtomicU64::new(0) }
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
        let quantum = rt.quantum.filter(|_| self.later.load(Relaxed) == 0).unwrap_or(Ticks::MAX);
        let most = quantum.clamp(rt.poll_every, SELDOM * rt.poll_every);
        let until = polls.at.load(Relaxed).saturating_add(most);
        let may_wait = !must && now < until && !bell::is_due();
        if may_wait && REACTOR.has_told_somebody() {
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

    /// Makes threads runnable whose files are ready. As for [`pick`](Slot::pick).
    #[cold]
    pub(super) fn poll(&self, now: Ticks) -> bool {
        let (rt, polls) = (self.rt(), &self.polls);
        polls.at.store(now, Relaxed);
        polls.next.store(now.saturating_add(rt.poll_every), Relaxed);
        if bell::is_due() {
            bell::ring_all();
        }
        REACTOR.is_awaited() && REACTOR.poll(rt, Some(self))
    }
}
