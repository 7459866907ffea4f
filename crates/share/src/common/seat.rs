//! Workers that sleep because another application has their core, or nobody.

use super::{AcqRel, Acquire, Common, Life, SeqCst, fence};
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Release;
use std::time::{Duration, Instant};

/// Who could wake a sleeper may have died on the way to it.
const BACKSTOP: Duration = Duration::from_millis(10);

impl Common {
    fn seat(&self, member: usize, core: usize) -> &AtomicU32 {
        &self.head().seats[member][core].0
    }

    /// Wakes the worker of `member` on this core.
    pub(super) fn wake(&self, member: usize, core: usize) {
        let seat = self.seat(member, core);
        seat.store(1, Release);
        // It fails only for addresses that are none.
        let _ = futex::wake(seat, futex::Flags::empty(), 1);
    }

    /// Wakes who has this core from this application's worker.
    pub(super) fn wake_owed(&self, core: usize) {
        if self.owes[core].swap(false, AcqRel)
            && let Some(member) = self.now(core).member
            && member != self.me
        {
            self.wake(member, core);
        }
    }

    /// Ends the sleep of this application's worker on this core, or its next one.
    pub fn rouse(&self, core: usize) {
        self.wake(self.me, core);
    }

    /// The worker of this core sleeps until it is given a task, `asleep` says no, or `limit` is
    /// over. `asleep` is asked when a [`rouse`](Self::rouse) would be heard. Blocks the calling
    /// kernel thread.
    pub fn wait(&self, core: usize, asleep: impl Fn() -> bool, limit: Option<Duration>) {
        let seat = self.seat(self.me, core);
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            seat.store(0, Release);
            // The core's word and `asleep` are read after the seat is empty; who changes them fills
            // it afterwards.
            fence(SeqCst);
            if self.is_given(core) || !asleep() {
                return;
            }
            if self.is_aside(self.me) {
                drop(self.lock());
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return;
            }
            let nap = left.map_or(BACKSTOP, |left| left.min(BACKSTOP));
            let nap = nap.try_into().expect("short");
            let result = futex::wait(seat, futex::Flags::empty(), 0, Some(&nap));
            let other = self.now(core).member.filter(|&member| member != self.me);
            if result.is_err()
                && seat.load(Acquire) == 0
                && let Some(other) = other
                && self.life(other) != Life::Runs
                && !self.is_aside(other)
            {
                self.tend();
            }
        }
    }
}
