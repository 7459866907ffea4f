//! Leaving a thread, entering another, and the loop in between.

use crate::arch::{pkru, segment, switch::switch};
use crate::clock::rescue::Rescue;
use crate::os::turns::Role;
use crate::preempt::{self, extension};
use crate::runtime::Inner;
use crate::thread::control::{Uthread, deferred, park_state};
use crate::tls::shared;
use crate::tsc::{self, Ticks};
use crate::worker::carrier::{After, Carrier};
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;
use quaver_sched::{Pick, Place, Why};

/// The native context of a carrier: runs threads until the runtime stops.
pub(crate) fn run(c: &Carrier) {
    let rt = c.rt();
    loop {
        let Some(slot) = c.slot() else {
            c.is_back();
            c.turns.change(Role::Spare);
            if c.reserved_for().is_none() {
                rt.spares.add(c);
            }
            match c.wait_for_slot() {
                Some(slot) => c.take_slot(slot),
                None => return,
            }
            continue;
        };
        if rt.stopping.load(Acquire) {
            slot.tid.store(0, Release);
            return;
        }
        if let Some(t) = c.end_reservation() {
            // The slot has recorded it as running, where it was dispatched.
            c.set_current(t);
            // SAFETY: who gave the slot has left `t`, and nobody else has it.
            unsafe { enter(c.native_rsp.as_ptr(), t) };
            c.is_back();
            finish_switch();
            continue;
        }
        let now = tsc::now();
        let pick = slot.pick(now).or_else(|| balance(slot, now));
        match pick {
            Some(pick) => {
                let t = start(c, slot, pick, now);
                // SAFETY: `t` was in a queue, so its context is saved; nobody else has it now.
                unsafe { enter(c.native_rsp.as_ptr(), t) };
                // First, lest a shutdown that sees the thread's end count the carrier out.
                c.is_back();
                finish_switch();
            }
            None => {
                rt.share.iter().for_each(|share| share.rests(slot.id));
                rt.idle.wait(rt, slot.id);
                slot.rested(now);
            }
        }
    }
}

/// Steals, and counts it.
fn balance(slot: &Slot, now: Ticks) -> Option<Pick> {
    count(slot, slot.policy().balance(slot.id, now))
}

fn count(slot: &Slot, pick: Option<Pick>) -> Option<Pick> {
    if pick.is_some() {
        slot.stats.steals.add(1);
    }
    pick
}

/// Records that `pick` runs on `slot` from now on.
#[inline(always)]
fn start(c: &Carrier, slot: &Slot, pick: Pick, now: Ticks) -> &'static Uthread {
    let t = c.rt().table.get(pick.task.0);
    t.deferred.set(deferred::NONE);
    t.extended.set(false);
    slot.start_run(pick, now);
    if slot.rt().accounts {
        t.ran.begin(now);
    }
    slot.stats.switches.add(1);
    c.set_current(t);
    t
}

/// Switches to `t`, saving the stack pointer of the calling context in `save`.
///
/// # Safety
///
/// As for [`switch`]; `t` is switched out and the caller has taken it from a queue.
#[inline(always)]
unsafe fn enter(save: *mut usize, t: &Uthread) {
    // SAFETY: the context and the `fs` base belong to `t`; the rest is the caller's contract.
    unsafe { switch_fs(save, t.rsp.get(), t.fs.get()) }
}

/// [`switch`], whatever way `fs` is set on this machine; 0: threads use the TLS of their carriers.
///
/// # Safety
///
/// As for [`switch`].
#[inline(always)]
unsafe fn switch_fs(save: *mut usize, to: usize, fs: usize) {
    if fs == 0 {
        // SAFETY: handed on; where threads share TLS, the words were found when the runtime was
        // built. They are read and written where the context runs at that moment.
        unsafe {
            let (words, rights) = (shared::save(), pkru::get());
            switch(save, to, 0);
            pkru::set(rights);
            shared::restore(words);
        }
    } else if segment::plain() {
        // SAFETY: handed on.
        unsafe { switch(save, to, fs) }
    } else {
        // SAFETY: handed on.
        unsafe { switch_with_more(save, to, fs) }
    }
}

/// [`switch_fs`] where [`switch`] does not do it all.
///
/// # Safety
///
/// As for [`switch`]; `fs` is not 0.
#[inline(never)]
unsafe fn switch_with_more(save: *mut usize, to: usize, fs: usize) {
    let rights = pkru::get();
    if segment::fast_fs() {
        // SAFETY: handed on.
        unsafe { switch(save, to, fs) }
    } else {
        // SAFETY: handed on; between the two calls no TLS is used.
        unsafe {
            segment::set_fs_base_slow(fs);
            switch(save, to, 0);
        }
    }
    pkru::set(rights);
}

/// Takes the calling thread off its carrier; returns when it is resumed, possibly on another.
///
/// # Safety
///
/// `t` is the calling thread, with preemption disabled.
#[inline]
pub(crate) unsafe fn leave(t: &'static Uthread, after: After) {
    // SAFETY: preemption is disabled; the reference is not used after the switch.
    let c = unsafe { Carrier::here() };
    debug_assert!(c.is_on(t), "another thread than the calling one leaves");
    if let Some(slot) = c.slot()
        && !c.rt().stopping.load(Relaxed)
    {
        let now = slot.time_of_switch();
        if let Some(pick) = slot.pick(now) {
            // SAFETY: the caller's contract.
            unsafe { leave_to(c, slot, t, after, pick, now) };
            return;
        }
    }
    // SAFETY: the caller's contract.
    unsafe { leave_to_native(c, t, after) };
}

/// Queues the calling thread for a worker, and returns when it has one, on this carrier: the
/// worker that picks it gives its slot to the carrier. If the runtime stops meanwhile that may be
/// another one.
///
/// # Safety
///
/// As for [`leave`], on a carrier without a slot, of a runtime whose threads use the thread-local
/// variables of their carriers.
#[cold]
pub(crate) unsafe fn leave_and_come_home(t: &'static Uthread, why: Why) {
    // SAFETY: preemption is disabled; the reference is not used after the switch.
    unsafe { Carrier::here() }.reserve(t);
    // SAFETY: the caller's contract.
    unsafe { leave(t, After::Requeue(t, why)) };
    // SAFETY: null, or a carrier that waits until it is given a slot, because nobody has withdrawn
    // its reservation.
    let home = unsafe { t.home.swap(core::ptr::null_mut(), AcqRel).as_ref() };
    if let Some(home) = home {
        // SAFETY: as above; the worker that has picked the thread is left to its native context, as
        // in `leave_to_native`, but with the run going on.
        unsafe {
            let c = Carrier::here();
            c.after.set(After::GoHome(home));
            c.set_current(core::ptr::null());
            switch_fs(t.rsp.as_ptr(), c.native_rsp.get(), 0);
        }
        finish_switch();
    }
}

/// Tells the policy how long `t` has run, and adds it up.
#[cold]
fn account(slot: &Slot, t: &Uthread, now: Ticks) {
    let ran = now.saturating_sub(slot.run_since());
    t.ran.end(now);
    slot.policy().task_stopped(slot.id, t.task(), ran);
}

/// # Safety
///
/// As for [`leave`]; `pick` was just taken from a queue by `slot`, which is `c`'s.
#[inline(always)]
unsafe fn leave_to(c: &Carrier, slot: &Slot, t: &Uthread, after: After, pick: Pick, now: Ticks) {
    c.after.set(after);
    slot.stops(t, after.why(), now);
    if c.rt().accounts {
        account(slot, t, now);
    }
    let next = start(c, slot, pick, now);
    // SAFETY: `next` was in a queue. `t` is published only by `finish_switch` on the other side.
    unsafe { enter(t.rsp.as_ptr(), next) };
    finish_switch();
}

/// # Safety
///
/// As for [`leave`].
#[cold]
unsafe fn leave_to_native(c: &Carrier, t: &Uthread, after: After) {
    c.after.set(after);
    if let Some(slot) = c.slot() {
        let now = tsc::now();
        slot.stops(t, after.why(), now);
        if c.rt().accounts {
            account(slot, t, now);
        }
        slot.end_run();
    }
    c.set_current(core::ptr::null());
    let fs = if t.fs.get() == 0 { 0 } else { c.native_fs };
    // SAFETY: the native context waits in `run`; its `fs` is the kernel thread's own.
    unsafe { switch_fs(t.rsp.as_ptr(), c.native_rsp.get(), fs) };
    finish_switch();
}

/// Takes the calling thread off its carrier if there is something else to run, and queues it.
/// `false`: nothing happened.
///
/// # Safety
///
/// As for [`leave`].
#[inline]
pub(crate) unsafe fn leave_if_work(t: &'static Uthread, why: Why) -> bool {
    // SAFETY: preemption is disabled; the reference is not used after the switch.
    let c = unsafe { Carrier::here() };
    debug_assert!(c.is_on(t), "another thread than the calling one leaves");
    let Some(slot) = c.slot() else {
        // Without a slot anything is better than going on: queue the thread for a worker.
        // SAFETY: the caller's contract.
        unsafe { leave_to_native(c, t, After::Requeue(t, why)) };
        return true;
    };
    if c.rt().stopping.load(Relaxed) {
        // SAFETY: the caller's contract.
        unsafe { leave_to_native(c, t, After::Requeue(t, why)) };
        return true;
    }
    let now = if why == Why::Preempted {
        slot.lets_back();
        // Otherwise it would have been interrupted for what is queued already (Aspen, 3.2.3).
        slot.poll_next();
        tsc::now()
    } else {
        slot.time_of_switch()
    };
    // Who yields again and again must not search all other workers each time.
    let stolen = || match why {
        Why::Yielded => count(slot, slot.policy().glance(slot.id, now)),
        _ => balance(slot, now),
    };
    let Some(pick) = slot.pick(now).or_else(stolen) else {
        let away = slot.rt().share.as_ref().is_some_and(|share| share.is_away(slot.id));
        if away {
            // SAFETY: the caller's contract.
            unsafe { leave_to_native(c, t, After::Requeue(t, why)) };
        }
        return away;
    };
    // SAFETY: the caller's contract.
    unsafe { leave_to(c, slot, t, After::Requeue(t, why), pick, now) };
    true
}

/// [`leave_if_work`] of a thread that is preempted outside libraries: when a shutdown has begun it
/// leaves for good.
///
/// # Safety
///
/// As for [`leave`].
pub(crate) unsafe fn preempt(rt: &Inner, t: &'static Uthread) -> bool {
    if rt.in_library.is_closed() && !rt.stopping.load(Relaxed) {
        // SAFETY: the caller's contract.
        unsafe { leave(t, After::HoldBack) };
    }
    // SAFETY: the caller's contract.
    unsafe { leave_if_work(t, Why::Preempted) }
}

/// The first thing after a switch, on the side that was switched to: carries out what the left
/// thread asked for.
pub(crate) fn finish_switch() {
    // SAFETY: preemption is disabled across a switch (or this is the native context).
    let c = unsafe { Carrier::here() };
    let (rt, slot) = (c.rt(), c.slot());
    match c.after.replace(After::None) {
        // This worker comes from idling. Makers of work queue it, fence, and look at what runs
        // here: the dispatch must be visible before this side looks at the queues. (On the other
        // arms a locked instruction or the previous dispatch does the same.)
        After::None => {
            crate::park::shim::fence(SeqCst);
            rt.rescue.iter().flatten().for_each(Rescue::worker_is_busy);
            rt.watch.worker_is_busy();
        }
        After::Requeue(t, why) => make_runnable(rt, slot, t, why, false),
        After::Park(t) => {
            if t.park
                .compare_exchange(park_state::EMPTY, park_state::PARKED, AcqRel, Acquire)
                .is_err()
            {
                t.park.store(park_state::EMPTY, Relaxed);
                make_runnable(rt, slot, t, Why::Woken, false);
            }
        }
        After::Join(t, other) => {
            if other.life.suspend() {
                make_runnable(rt, slot, t, Why::Woken, false);
            }
        }
        // SAFETY: the node's thread has just been left, and its stack is quiet.
        After::Aside(node) => unsafe { rt.room.enter(rt, node) },
        After::HoldBack => {}
        After::Exit(t) => ended(rt, slot, t),
        After::GoHome(home) => c.give_slot(home),
    }
    if let Some(slot) = slot
        && c.current().is_some()
    {
        rt.clock.dispatched(slot);
        // A forked child has no bells.
        if let Some(share) = &rt.share
            && !rt.has_stopped()
        {
            share.dispatched(slot);
        }
    }
}

/// Puts a thread in a queue and sees to it that somebody comes for it. With preemption disabled.
///
/// `tell_clock`: a thread keeps running on this worker, so its clock must know that something waits
/// (a caller that dispatches next will tell it anyway).
#[inline(always)]
pub(crate) fn make_runnable(
    rt: &Inner,
    slot: Option<&Slot>,
    t: &Uthread,
    why: Why,
    tell_clock: bool,
) {
    preempt::assert_disabled();
    match slot {
        // The only worker comes for it by itself: most yields, so without a call.
        Some(slot) if rt.alone && !tell_clock => {
            rt.policy.task_enqueue(Place::Local(slot.id), t.task(), why, slot.time_of_queueing());
            rt.clock.queued_behind();
        }
        _ => make_runnable_and_tell(rt, slot, t, why, tell_clock),
    }
}

/// [`make_runnable`], where somebody may have to hear of it.
fn make_runnable_and_tell(
    rt: &Inner,
    slot: Option<&Slot>,
    t: &Uthread,
    why: Why,
    tell_clock: bool,
) {
    match slot {
        Some(slot) => {
            let now = slot.time_of_queueing();
            rt.policy.task_enqueue(Place::Local(slot.id), t.task(), why, now);
            let others = !rt.alone;
            if others && rt.idle.wake_one(rt) {
                return;
            }
            let gives_way = tell_clock && rt.clock.work_here(slot);
            // It may be better than what another worker runs, now or when that can be paid for.
            let better = rt.central && !gives_way && (tell_clock || why == Why::Preempted);
            // What piles up here may be a reason for another worker to stop what it runs.
            if others && (better || slot.tells(now)) {
                rt.clock.work_somewhere(rt);
            }
        }
        None => {
            rt.policy.task_enqueue(Place::Shared, t.task(), why, tsc::now());
            if !rt.idle.wake_one(rt) {
                rt.clock.work_somewhere(rt);
            }
        }
    }
}

/// A thread has left its stack for good.
fn ended(rt: &Inner, slot: Option<&Slot>, t: &Uthread) {
    let stats = slot.map_or(&rt.stats, |s| &s.stats);
    stats.completed.add_shared(1, slot.is_none());
    rt.policy.task_terminate(t.task(), slot.map_or(0, |s| s.run_since()));
    if t.life.done() {
        crate::thread::recycle(rt, slot, t);
    }
}

/// A preemption was asked for inside a section or region that has just ended. It may be due no
/// longer, or, where a timer asked that knows nothing of dispatches, not yet.
///
/// # Safety
///
/// As for [`leave`].
pub(crate) unsafe fn preempted_at_region_end(t: &'static Uthread) {
    // SAFETY: `t` is the calling thread, preemption is disabled, and the reference is dropped
    // before the switch.
    if let Some(slot) = unsafe { Carrier::here() }.slot() {
        let (rt, now) = (slot.rt(), tsc::now());
        slot.flag_is_seen();
        // In the past, but not 0: the delay belongs to this dispatch.
        slot.retry_at.store(1, Relaxed);
        slot.request.over();
        match slot.policy_due() {
            _ if rt.stopping.load(Relaxed) => {
                // SAFETY: as above.
                unsafe { leave_if_work(t, Why::Preempted) };
            }
            // SAFETY: as above.
            Some((_, due)) if due <= now + rt.timer_slop => unsafe {
                let late = slot.late_by(now);
                if extension::prolong(slot, t, now) {
                    // Until its last mutex is free.
                } else if preempt(rt, t) {
                    slot.count_useful(late);
                } else {
                    #[cfg(feature = "inspect")]
                    slot.forced.store(0, Relaxed);
                }
            },
            Some((_, due)) => {
                // The section has swallowed the probe's look.
                rt.clock.tell_probes(slot);
                rt.clock.arm_for_run(slot, due, now);
            }
            None => {}
        }
    }
}

/// Gives the slot of the calling carrier to a spare, because the calling thread is about to block.
/// `false`: there is no spare (one has been asked for).
///
/// # Safety
///
/// Called on a user thread with preemption disabled. After `true` the thread runs without a slot
/// until it leaves.
pub(crate) unsafe fn hand_over(c: &Carrier) -> bool {
    preempt::assert_disabled();
    let Some(slot) = c.slot() else { return true };
    let Some(spare) = c.rt().spares.take() else { return false };
    // SAFETY: the calling thread's slot.
    unsafe { release(slot, c.current()) };
    c.give_slot(spare);
    true
}

/// The dispatch on `slot` ends, because its thread `t` blocks; a spare gets the slot.
///
/// # Safety
///
/// The slot is the caller's: it is its carrier with preemption disabled, or has taken it from one
/// that sleeps.
pub(crate) unsafe fn release(slot: &Slot, t: Option<&Uthread>) {
    slot.stats.handovers.add(1);
    if slot.rt().accounts
        && let Some(t) = t
    {
        account(slot, t, tsc::now());
    }
    slot.end_run();
}
