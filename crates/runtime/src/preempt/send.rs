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
    if slot.pending.swap(true, AcqRel) {
        // The signal may have hit a carrier that no longer had the slot.
        if now.saturating_sub(slot.pending_since.load(Relaxed)) > rt.lost_after {
            slot.pending.store(false, Release);
        }
        return false;
    }
    slot.pending_since.store(now, Relaxed);
    slot.request.store(run, Release);
    let tid = slot.tid.load(Relaxed);
    if tid == 0 || sys::tgkill(rt.pid, tid, SIGNAL.load(Relaxed)).is_err() {
        slot.pending.store(false, Release);
        return false;
    }
    slot.stats.preempt_sent.add(1);
    true
}
