//! A pinned thread that does nothing but look at the clock (Aspen, section 3.2).

use super::lookers;
use crate::preempt;
use crate::runtime::Inner;
use crate::tsc;
use core::sync::atomic::Ordering::*;
use quaver_sched::clock::is_due;

/// See the module documentation of [`crate::clock`].
pub(crate) struct TimerCore {}

impl TimerCore {
    pub(crate) fn new() -> TimerCore {
        TimerCore {}
    }
}

/// The thread. Every pass asks the policy about every slot anew, so work that arrives just after a
/// quantum was used is noticed at once and not a quantum later.
pub(crate) fn run(rt: &'static Inner) {
    super::leave_workers_alone(rt);
    while !rt.stopping.load(Relaxed) {
        for slot in rt.slots() {
            let (told, now) = (slot.told(), tsc::now());
            let due = lookers::told_at(slot, told.map(|(_, due, _)| due), now);
            if let (Some((run, _, stage)), Some(due)) = (told, due)
                && is_due(due, now, 0)
            {
                preempt::send(rt, slot, run, now, stage);
            }
        }
        core::hint::spin_loop();
    }
}
