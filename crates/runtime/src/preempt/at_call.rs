//! Threads give way at calls on files, if they have had their quantum. (Not in the papers.)
//!
//! A thread of a server makes a call every few microseconds. There it can be preempted for the
//! price of a switch, so an interruption, which costs dozens of those, would be a waste. And as
//! long as its calls find what they want it never waits: nobody but it asks for files that others
//! wait for, unless a kernel thread is woken to do that.
//!
//! So a call that may wait first reads the time. If the quantum is over, the thread asks for files,
//! as a dispatch would, and gives way if the policy says so.
//!
//! Clocks go on as before for threads that make no calls. One that makes some is left alone for a
//! while [after each](Slot::calls_again_by).
//!
//! A handler of the program may make calls, too. On an alternate stack, which is the carrier's, or
//! with the preemption signal blocked, which it is on that kernel thread, it goes on. So do threads
//! that share their carrier's TLS: compilers may remember where `errno` is.
//!
//! A thread that gives way here has not outlived its quantum: the looks of a clock were in vain,
//! and become rarer ([`Pace`](quaver_sched::clock::Pace)). Nor need it run for long: the machine
//! may have disturbed it. So it yields. If it has its whole quantum again before it waits for
//! anything, it counts as preempted.
//!
//! # Requests that are there already
//!
//! A call that has got something (data, a connection, an event) without waiting begins a new
//! request, as a wake-up does. A server's thread whose clients are quick might never wait; then
//! others with short requests would wait for its quantum, and it for the long ones afterwards. So a
//! thread that gets something after it has run for a *turn* ([`POLL`](crate::reactor::POLL)) lets
//! those pass that wait and were not preempted. If its quantum ends at a later call it does not
//! count as preempted. In both cases it is queued as if it had waited for what it has got. Calls
//! that send begin nothing, nor do those that find nothing.

use super::extension;
use crate::runtime::Inner;
use crate::sys;
use crate::thread::control::Uthread;
use crate::thread::raw;
use crate::tsc::{self, Ticks};
use crate::worker::carrier::Carrier;
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::mem::MaybeUninit;
use quaver_sched::Why;

/// The calling thread is about to make a call that it may wait in. Is its turn over? Then who calls
/// says so if the thread `has_got` something without waiting.
#[inline]
pub fn at_call() -> bool {
    let Some(t) = raw::current() else { return false };
    if !may_be_left(t) {
        return false;
    }
    t.preempt_disable();
    let mut turn_is_over = false;
    // SAFETY: preemption is disabled until the slot has been used.
    if let Some(slot) = unsafe { Carrier::here() }.slot()
        && let Some(quantum) = slot.rt().quantum
    {
        let now = tsc::now();
        slot.called(now);
        turn_is_over = now >= turn_ends(slot, quantum);
        if now >= slot.run_since().saturating_add(quantum) {
            give_way(slot, t, now);
        }
    }
    t.preempt_enable();
    turn_is_over
}

/// When a turn of the running thread ends.
#[inline]
fn turn_ends(slot: &Slot, quantum: Ticks) -> Ticks {
    slot.run_since().saturating_add(slot.rt().poll_every.min(quantum))
}

/// The calling thread has got something by a call that did not wait, before which its turn was
/// over.
#[cold]
pub(crate) fn has_got() {
    let Some(t) = raw::current() else { return };
    if !may_be_left(t) {
        return;
    }
    t.preempt_disable();
    let now = tsc::now();
    // SAFETY: preemption is disabled until the slot has been used.
    if let Some(slot) = unsafe { Carrier::here() }.slot()
        && let Some(quantum) = slot.rt().quantum
        // It may have let others run since.
        && now >= turn_ends(slot, quantum)
    {
        slot.has_got(now);
        slot.poll_if_due(now);
        let lets_pass = slot.policy().fresh_waits(slot.id) == Some(true)
            && t.mutexes.get() == 0
            && !must_go_on(slot.rt(), t);
        // SAFETY: the calling thread with preemption disabled; the slot is not used after a switch
        // but for a counter.
        if lets_pass && unsafe { scheduler::leave_if_work(t, Why::Woken) } {
            slot.stats.preempt_at_call.add_shared(1, true);
        } else if slot.rt().accounts {
            slot.policy().task_goes_on(t.task(), now.saturating_sub(slot.run_since()));
        }
    }
    t.preempt_enable();
}

fn may_be_left(t: &Uthread) -> bool {
    t.no_preempt.get() == 0 && t.regions.get() == 0 && t.blocking.get() == 0 && t.fs.get() != 0
}

/// `t`, which is the calling thread, has had its quantum. With preemption disabled.
#[cold]
fn give_way(slot: &Slot, t: &'static Uthread, now: Ticks) {
    let rt = slot.rt();
    slot.poll_if_due(now);
    if slot.policy_due().is_none_or(|(_, due)| due > now)
        || must_go_on(rt, t)
        || extension::prolong(slot, t, now)
    {
        return;
    }
    // Whoever waits for something or yields forgets that, except where probes need the word.
    let again = rt.probes() || rt.pace.is_none() || t.outlived.replace(false);
    // SAFETY: the calling thread with preemption disabled; the slot is not used after a switch but
    // for a counter.
    let left = unsafe {
        if slot.has_got_in_this_run() {
            scheduler::leave_if_work(t, Why::Woken)
        } else if again || slot.runs_preempted() {
            scheduler::preempt(rt, t)
        } else {
            scheduler::leave_if_work(t, Why::Yielded)
        }
    };
    if left {
        slot.stats.preempt_at_call.add_shared(1, true);
    }
    t.outlived.set(left && !rt.probes());
}

/// Does the calling thread `t` run a handler that may not be left?
fn must_go_on(rt: &Inner, t: &Uthread) -> bool {
    let here = 0u8;
    if !rt.table.stack(t).contains(&(&raw const here).addr()) {
        return true;
    }
    let mut blocked = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: only reads the mask; all zeros is a set.
    unsafe {
        sys::change_signal_mask(libc::SIG_BLOCK, None, Some(blocked.assume_init_mut()));
        libc::sigismember(blocked.as_ptr(), rt.config.signal) == 1
    }
}
