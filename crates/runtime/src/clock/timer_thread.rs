//! One thread for all workers, which sleeps until the next decision is due.

use super::duty::Duty;
use super::lookers;
use super::sleep::Sleep;
use crate::os::turns;
use crate::preempt;
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;
use quaver_sched::clock::{Look, Nap, Watch};
use std::time::Duration;

/// A sleep for longer than this is announced, whatever it is for: what is due earlier than anybody
/// could foresee waits no longer.
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// See the module documentation of [`crate::clock`].
pub(crate) struct TimerThread {
    /// The quantum, before anything has run.
    quantum: Ticks,
    pub(super) sleep: Sleep,
}

impl TimerThread {
    pub(crate) fn new(quantum: Ticks) -> TimerThread {
        TimerThread { quantum, sleep: Sleep::new() }
    }

    /// The worker of `slot` has begun to run a thread, or something was made runnable for it; the
    /// caller has fenced since.
    ///
    /// Where due means that a preemption can be paid for at last, a sleep ends then, and waking the
    /// thread at each dispatch until then would cost more than it saves.
    #[inline(always)]
    pub(crate) fn look_at(&self, slot: &Slot) {
        self.sleep.wants(|| due(slot));
    }

    /// Something was made runnable for any worker; the caller has fenced since.
    #[inline]
    pub(crate) fn look_at_all(&self, rt: &Inner) {
        self.sleep.wants(|| rt.slots().iter().filter_map(due).min());
    }
}

/// When the worker is to be told, as things are.
fn due(slot: &Slot) -> Option<Ticks> {
    slot.told().map(|(_, due, _)| due)
}

/// Shows all workers to `look`, and sends what is due and not left to others.
pub(super) fn pass(rt: &Inner, look: &mut Look) {
    for slot in rt.slots() {
        look.stopped_long(slot.long_at.load(Relaxed));
        if let Some((run, running)) = slot.running() {
            let told = slot.told().filter(|&(same, ..)| same == run);
            let quantum = slot.quantum_of(&running);
            let quantum = quantum.map(|q| q.longer_by(slot.backstop(q.ends)));
            let now = tsc::now();
            let due = lookers::told_at(slot, told.map(|(_, due, _)| due), now);
            if look.worker(now, due, quantum)
                && let Some((.., stage)) = told
            {
                preempt::send(rt, slot, run, now, stage);
            }
            if let Some(at) = slot.request.late_at(rt.second_stage) {
                look.again(at.max(slot.affordable_at()));
            }
        }
    }
}

/// The thread.
pub(crate) fn run(rt: &'static Inner) {
    let crate::clock::Running::Thread(clock) = &rt.clock else { return };
    super::leave_workers_alone(rt);
    sys::set_minimal_timer_slack();
    turns::shorten();
    let longest_nap = tsc::from_duration(LONGEST_NAP);
    let mut duty = Duty::new(rt.config.clock_shares);
    let mut watch = Watch::new(clock.quantum, rt.timer_slop);
    if let Some(pace) = rt.pace {
        watch = watch.paced(pace);
    }
    while !rt.stopping.load(Relaxed) {
        clock.sleep.begin_to_look();
        let mut look = watch.look(tsc::now());
        pass(rt, &mut look);
        let now = tsc::now();
        let plan = watch.plan(&look, now);
        rt.slots().iter().for_each(|slot| slot.later.store(watch.later(), Relaxed));
        let until = match plan {
            Nap::Until(at) if at <= now.saturating_add(longest_nap + watch.later()) => {
                let at = at.max(now + duty.gap());
                if at > now {
                    clock.sleep.nap(tsc::to_duration(at - now));
                }
                continue;
            }
            Nap::Until(at) => at,
            Nap::Long(at) => at.unwrap_or(NEVER),
        };
        if !clock.sleep.announce() {
            continue;
        }
        // What came before the announcement has told nobody.
        let mut look = watch.look(tsc::now());
        pass(rt, &mut look);
        let until = look.due().map_or(until, |due| due.min(until));
        let now = tsc::now();
        if !rt.stopping.load(Relaxed) && until > now {
            clock.sleep.sleep(until, (until != NEVER).then(|| tsc::to_duration(until - now)));
        }
    }
}
