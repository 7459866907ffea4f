//! When the running thread is due, and who tells it: the policy says when, the account when it can
//! be paid for, and where there are probes the distance says who looks.
//!
//! ```text
//!   no probes                  the clock notifies, on time
//!   probes, soon               the thread counts; the clock signals two quanta later
//!   probes, soon, untold       the clock's thread sets the word on time, as below
//!   probes, in more than FAR   the clock's thread sets the word on time, the signal follows two
//!                              quanta later; a worker's own timer signals on time
//! ```
//!
//! What workers without work look for is [left to them](crate::clock::lookers) for a while.

use super::{RUN_PREEMPTED, Slot};
use crate::preempt::{Stage, probe};
use crate::tsc::{NEVER, Ticks};
use core::sync::atomic::Ordering::*;
use quaver_sched::Running;
use quaver_sched::clock::{self, Quantum};

impl Slot {
    /// When the policy wants the running thread to be preempted.
    pub(crate) fn policy_due(&self) -> Option<(u64, Ticks)> {
        let (run, running) = self.running()?;
        #[cfg(feature = "inspect")]
        if self.forced.load(Relaxed) == run {
            return Some((run, running.since));
        }
        let timer = Some(self.next_timer.load(Relaxed)).filter(|&timer| timer != NEVER);
        Some((run, clock::due(self.policy(), self.id, &running, timer, 0)?))
    }

    /// When the running thread must be preempted, as things are: its generation and the time, not
    /// before `retry_at`, nor before it can be paid for.
    pub(crate) fn preempt_due(&self) -> Option<(u64, Ticks)> {
        self.due_from(self.affordable_at())
    }

    /// As [`preempt_due`](Slot::preempt_due), if it can be paid for from `affordable` on.
    pub(crate) fn due_from(&self, affordable: Ticks) -> Option<(u64, Ticks)> {
        let (run, due) = self.policy_due()?;
        Some((run, due.max(self.retry_at.load(Relaxed)).max(affordable)))
    }

    /// No request before this: one was put off until then, or cannot be paid for.
    pub(crate) fn not_before(&self) -> Ticks {
        self.retry_at.load(Relaxed).max(self.affordable_at())
    }

    /// The quantum of what is running, as the policy gives it now. May be called by anybody.
    pub(crate) fn quantum_of(&self, running: &Running) -> Option<Quantum> {
        clock::quantum(self.policy(), self.id, running)
    }

    /// When the running thread is to stop at a probe, not before that can be paid for, and whether
    /// it looks for that itself.
    #[inline]
    pub(crate) fn due_at_probe(&self) -> Option<(Ticks, bool)> {
        let (run, due) = self.policy_due()?;
        let due = due.max(self.affordable_at_probe());
        Some((due, !self.is_far(due, run & !RUN_PREEMPTED)))
    }

    /// That time, where it does.
    #[inline]
    pub(crate) fn near_due(&self) -> Option<Ticks> {
        self.due_at_probe().and_then(|(due, is_near)| is_near.then_some(due))
    }

    /// What is due for a thread that was dispatched at `since` is left to the clock.
    #[inline(always)]
    fn is_far(&self, due: Ticks, since: Ticks) -> bool {
        due.saturating_sub(since) > self.rt.far
    }

    /// How much later than `due` a thread must be for a signal to stop it: it has met no probe.
    #[inline(always)]
    pub(crate) fn backstop(&self, due: Ticks) -> Ticks {
        if self.is_far(due, self.run_since()) { 0 } else { self.rt.backstop }
    }

    /// When a clock's thread sends what is `due`.
    #[inline]
    pub(crate) fn backed(&self, due: Ticks) -> Ticks {
        due.saturating_add(self.backstop(due))
    }

    /// What a clock's thread sends the worker, and when, as things are. Where the running thread
    /// looks for itself, that is the signal if it meets no probe.
    pub(crate) fn told(&self) -> Option<(u64, Ticks, Stage)> {
        let (run, due) = self.policy_due()?;
        let by_signal = self.told_after_calls(due.max(self.not_before()));
        if !self.rt.probes() {
            return Some((run, by_signal, Stage::First));
        }
        let at_probe = due.max(self.affordable_at_probe());
        if self.is_far(at_probe, run & !RUN_PREEMPTED) {
            return Some((run, at_probe, Stage::First));
        }
        Some(match probe::told_running(self) {
            Some(told_at) => (run, self.backed(by_signal.max(told_at)), Stage::Backstop),
            None => (run, at_probe, Stage::First),
        })
    }

    /// When the worker's timer looks for what is `due`: later while its looks are in vain, where
    /// probes are to be met before, and where threads make calls.
    #[inline(always)]
    pub(crate) fn looks_at(&self, due: Ticks) -> Ticks {
        let (later, backstop) = (self.later.load(Relaxed), self.backstop(due));
        // It comes as seldom as a clock that is needed may.
        let most = if backstop == 0 { self.rt.pace.map_or(0, |pace| pace.most()) } else { later };
        due.saturating_add(later.min(most)).saturating_add(backstop.max(self.call_is_near()))
    }
}
