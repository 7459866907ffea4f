//! Threads that block where nobody preempts.
//!
//! Without a quantum, or with a long one, no clock comes for a thread that blocks in the kernel,
//! and its worker would stand still with it: for ever, if what the thread waits for is to come from
//! a thread of that worker. So a kernel thread looks from time to time whether a worker has run the
//! same thread since the last look, has used no CPU time meanwhile, and others wait for it. Then it
//! sends the preemption signal, marked as a rescue: the handler hands the worker over if the thread
//! is in a system call that blocks, and nothing else. Who computes is never interrupted by it, and
//! so keeps the processor for as long as the policy says.
//!
//! A thread asleep in a page fault heeds no signal: its slot is [taken](crate::preempt::fault). A
//! second thread looks for such threads only, where the user wants that to be soon.
//!
//! Beside delegated timers it looks more often, since a tick ends no system call, and it looks for
//! threads that are late, too: a carrier may have lost its ticks, and a signal brings them back.

use super::sleep::Sleep;
use crate::config::Clock;
use crate::preempt::fault::{self, Attempt};
use crate::preempt::{self, Stage};
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER};
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

/// Between two looks: a worker stands still for twice this at most. Clocks with a quantum that is
/// no longer look often enough themselves.
const LOOK: Duration = Duration::from_millis(100);
/// The same beside delegated timers, at least: several times the [least](IDLE) that a thread that
/// computes must have used.
const LOOK_BESIDE_TICKS: Duration = Duration::from_millis(5);
/// A thread that has used less than this meanwhile has done nothing but wait.
const IDLE: Duration = Duration::from_millis(1);
/// Looks that find no worker busy before the thread sleeps until one is.
const LINGER: u32 = 8;

/// The least time between two looks of the thread that looks for page faults.
const LEAST: Duration = Duration::from_micros(20);

/// The places in `Inner::rescue` and `Slot::seen`: who looks for all threads that block, and who
/// for page faults only.
pub(crate) const CALLS: usize = 0;
pub(crate) const FAULTS: usize = 1;

/// The bed of a thread that looks.
pub(crate) struct Rescue {
    sleep: Sleep,
    /// Between two looks.
    look: Duration,
    /// Who has used less meanwhile stands still.
    idle: Duration,
}

/// What was seen of a worker at the last look. Used by the thread that looks only.
pub(crate) struct LastLook {
    run: AtomicU64,
    /// CPU time of the carrier, in nanoseconds.
    cpu: AtomicU64,
}

impl LastLook {
    pub(crate) const fn new() -> LastLook {
        LastLook { run: AtomicU64::new(0), cpu: AtomicU64::new(0) }
    }

    /// Has a worker run this dispatch since the last look, and used less than `idle` of its CPU?
    fn stands_still(&self, run: u64, cpu: Option<Duration>, idle: Duration) -> bool {
        let Some(cpu) = cpu else { return false };
        let before = Duration::from_nanos(self.cpu.swap(cpu.as_nanos() as u64, Relaxed));
        self.run.swap(run, Relaxed) == run && cpu.saturating_sub(before) < idle
    }
}

impl Rescue {
    /// Does a runtime with this clock and quantum need it? How often must it look?
    fn wanted(clock: Clock, quantum: Option<Duration>) -> Option<Duration> {
        match quantum {
            // A tick ends no system call.
            Some(quantum) if clock == Clock::DelegatedTimer => {
                Some((4 * quantum).clamp(LOOK_BESIDE_TICKS, LOOK))
            }
            _ => quantum.is_none_or(|quantum| quantum > LOOK).then_some(LOOK),
        }
    }

    /// Those of a runtime, which looks for page faults as often as `faults` says.
    pub(crate) fn for_all(
        clock: Clock,
        quantum: Option<Duration>,
        faults: Option<Duration>,
    ) -> [Option<Rescue>; 2] {
        let new = |look, idle| Rescue { sleep: Sleep::new(), look, idle };
        let idle = if clock == Clock::DelegatedTimer { Duration::MAX } else { IDLE };
        let faults = faults.map(|look| look.max(LEAST));
        [
            Self::wanted(clock, quantum).map(|look| new(look, idle)),
            faults.map(|look| new(look, (look / 2).min(IDLE))),
        ]
    }

    /// A worker has begun to run a thread after it had nothing to do; the caller has fenced since.
    #[inline]
    pub(crate) fn worker_is_busy(&self) {
        self.sleep.wants(|| Some(0));
    }

    /// Wakes the thread, to stop.
    pub(crate) fn wake(&self) {
        self.sleep.nudge();
    }
}

/// Sends what is needed; is any worker busy?
fn pass(rt: &Inner, rescue: &Rescue, who: usize) -> bool {
    let mut busy = false;
    // One of the two takes slots. User interrupts may come before the signal that this relies on.
    let takes = rt.user_interrupts.is_none() && (who == FAULTS || rt.rescue[FAULTS].is_none());
    for slot in rt.slots() {
        let run = slot.run.load(Acquire);
        if run == 0 {
            continue;
        }
        busy = true;
        let cpu = sys::cpu_time_of(slot.tid.load(Relaxed));
        if slot.seen[who].stands_still(run, cpu, rescue.idle)
            && is_wanted(rt, slot)
            && !(takes && fault::take_slot(rt, slot, run) != Attempt::Elsewhere)
            && who == CALLS
        {
            slot.rescue.store(run, Release);
            preempt::send(rt, slot, run, tsc::now(), Stage::Backstop);
        }
    }
    busy
}

/// Does anything wait that the worker could run?
pub(crate) fn is_wanted(rt: &Inner, slot: &Slot) -> bool {
    rt.policy.has_work(slot.id) || slot.next_timer.load(Relaxed) <= tsc::now()
}

/// The thread.
pub(crate) fn run(rt: &'static Inner, who: usize) {
    let Some(rescue) = &rt.rescue[who] else { return };
    let mut quiet = 0;
    while !rt.stopping.load(Relaxed) {
        rescue.sleep.begin_to_look();
        quiet = if pass(rt, rescue, who) { 0 } else { quiet + 1 };
        if quiet < LINGER {
            rescue.sleep.nap(rescue.look);
        } else if rescue.sleep.announce() && !rt.stopping.load(Relaxed) && !pass(rt, rescue, who) {
            rescue.sleep.sleep(NEVER, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_stands_still_is_rescued() {
        let seen = LastLook::new();
        let stands_still = |run, cpu| seen.stands_still(run, cpu, IDLE);
        let at = |ms| Some(Duration::from_millis(ms));
        assert!(!stands_still(1, at(5)), "seen for the first time");
        assert!(stands_still(1, at(5)));
        assert!(!stands_still(1, at(9)), "it computes");
        assert!(!stands_still(3, at(9)), "another dispatch");
        assert!(!stands_still(3, None), "its carrier has ended");
        assert!(seen.stands_still(3, at(30), Duration::MAX), "whatever it does");
    }

    #[test]
    fn short_quanta_need_no_rescue() {
        let wanted = |quantum| Rescue::wanted(Clock::PosixTimer, quantum);
        assert_eq!((wanted(None), wanted(Some(2 * LOOK))), (Some(LOOK), Some(LOOK)));
        assert_eq!(wanted(Some(LOOK)), None);
    }

    #[test]
    fn ticks_end_no_call_so_somebody_looks() {
        let wanted = |quantum| Rescue::wanted(Clock::DelegatedTimer, Some(quantum));
        assert_eq!(wanted(Duration::from_micros(10)), Some(LOOK_BESIDE_TICKS));
        assert_eq!(wanted(Duration::from_millis(10)), Some(Duration::from_millis(40)));
    }
}
