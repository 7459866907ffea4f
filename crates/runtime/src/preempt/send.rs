//! Sending a request to preempt.

use super::install::SIGNAL;
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::Ticks;
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;

/// Sends the preemption signal to the carrier of `slot`, meant for the dispatch `run`. At most one
/// is under way. `true` if sent.
pub(crate) fn send(rt: &Inner, slot: &Slot, run: u64, now: Ticks) -> bool {
    if !slot.request.begin(run, now, rt.lost_after) {
        return false;
    }
    let tid = slot.tid.load(Relaxed);
    if tid == 0 || sys::tgkill(rt.pid, tid, SIGNAL.load(Relaxed)).is_err() {
        slot.request.over();
        return false;
    }
    slot.stats.preempt_sent.add(1);
    true
}
