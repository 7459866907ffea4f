//! Calls that block in the kernel, with a begin and an end, as [`crate::block_in_place`].

use crate::park::shim::os_nap;
use crate::thread::raw::current;
use crate::thread::try_yield;
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use quaver_sched::Why;

/// Gives the calling thread's worker to a spare kernel thread. If none is ready it waits for one, and others run meanwhile,
/// so what follows may block without stopping anybody. Nothing on other threads.
///
/// Costs the wake-up of a kernel thread: for calls that do block.
pub fn begin() {
    let Some(t) = current() else { return };
    loop {
        t.preempt_disable();
        // SAFETY: a user thread with preemption disabled until the carrier has been used.
        let given = unsafe { scheduler::hand_over(Carrier::here()) };
        t.preempt_enable();
        if given {
            return;
        }
        // The keeper is making a spare, or all have calls of their own.
        if !try_yield(t) {
            os_nap();
        }
    }
}

/// Queues for a worker and returns on it, if [`begin`] has given one away.
pub fn end() {
    let Some(t) = current() else { return };
    t.preempt_disable();
    // SAFETY: preemption is disabled, and `leave` is the last use.
    if unsafe { Carrier::here() }.slot().is_none() {
        // SAFETY: the calling thread, preemption disabled.
        unsafe { scheduler::leave(t, After::Requeue(t, Why::Woken)) };
    }
    t.preempt_enable();
}
