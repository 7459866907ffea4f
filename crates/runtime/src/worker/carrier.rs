//! A carrier: the kernel thread on which user threads run.

use crate::arch::segment::{self, GS_CURRENT, GS_SELF};
use crate::os::turns::{Role, Turns};
use crate::preempt::AltStack;
use crate::runtime::Inner;
use crate::share::Share;
use crate::sys;
use crate::thread::control::Uthread;
use crate::tsc::NEVER;
use crate::uintr::Receiver;
use crate::worker::descheduled::{Descheduled, UNSEEN};
use crate::worker::room::Occupant;
use crate::worker::seat::Seat;
use crate::worker::slot::Slot;
use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::Ordering::*;
use quaver_sched::Why;
use std::time::Duration;

/// What the far side of a context switch does with the thread that was left.
#[derive(Clone, Copy)]
pub(crate) enum After {
    /// Nothing was left (the native context was).
    None,
    /// Make it runnable.
    Requeue(&'static Uthread, Why),
    /// It waits for an unpark.
    Park(&'static Uthread),
    /// It waits for the end of the other.
    Join(&'static Uthread, &'static Uthread),
    /// It waits in the room, by this node of its own.
    Aside(*mut Occupant),
    /// A shutdown has begun: it never runs again.
    HoldBack,
    /// It has ended.
    Exit(&'static Uthread),
    /// It goes on with the slot of this carrier, on the one that waits for it.
    GoHome(&'static Carrier),
}

impl After {
    /// Why the thread that was left is queued, if it is.
    #[inline(always)]
    pub(crate) fn why(&self) -> Option<Why> {
        match self {
            After::Requeue(_, why) => Some(*why),
            _ => None,
        }
    }
}

/// State of a carrier; `gs` points to it. Used by its own kernel thread only, except for `seat`.
#[repr(C)]
pub(crate) struct Carrier {
    /// `gs:[0]`.
    this: Cell<*const Carrier>,
    /// `gs:[8]`.
    current: Cell<*const Uthread>,
    pub(crate) slot: Cell<*const Slot>,
    /// Its number for the monitor, which reads these four words, at `gs`.
    seen_as: u32,
    pub(crate) after: Cell<After>,
    /// Saved stack pointer and `fs` of the native context while a user thread runs.
    pub(crate) native_rsp: Cell<usize>,
    pub(crate) native_fs: usize,
    rt: &'static Inner,
    pub(crate) tid: i32,
    timer: i32,
    /// As which it is told of preemptions, if not by signals only.
    pub(crate) receiver: Receiver,
    cpu: Cell<Option<usize>>,
    /// It has given its slot away and has not been back on its native stack since.
    away: Cell<bool>,
    pub(crate) turns: Turns,
    pub(crate) alt_stack: libc::stack_t,
    /// Where it waits for a slot.
    seat: Seat,
    /// The thread to go on with when a slot is given: it needs this carrier's thread-local
    /// variables, so nothing else runs here until then. Or null.
    reserved_for: Cell<*const Uthread>,
}

/// How often a reserved carrier looks whether the runtime stops.
const RESERVED_LOOKS: Duration = Duration::from_millis(10);

const _: () = assert!(offset_of!(Carrier, this) == GS_SELF);
const _: () = assert!(offset_of!(Carrier, current) == GS_CURRENT);
// As the kernel program of crates/lock has them (`bpf/carriers.h`).
const _: () = assert!(offset_of!(Carrier, slot) == 16 && offset_of!(Carrier, seen_as) == 24);

impl Carrier {
    /// The carrier that the caller runs on.
    ///
    /// # Safety
    ///
    /// The caller runs on a carrier with preemption disabled, and drops the reference before it may
    /// be moved.
    #[inline(always)]
    pub(crate) unsafe fn here() -> &'static Carrier {
        // SAFETY: the caller's contract.
        let here = unsafe { Carrier::beneath_alternate_stack() };
        debug_assert!(
            here.current().is_none_or(|t| t.no_preempt.get() > 0),
            "the carrier is looked at by a thread that may be moved"
        );
        here
    }

    /// The same for a handler on an alternate stack, from which a thread is not moved.
    ///
    /// # Safety
    ///
    /// The caller runs on a carrier, and drops the reference before it may be moved.
    #[inline(always)]
    pub(crate) unsafe fn beneath_alternate_stack() -> &'static Carrier {
        // SAFETY: `gs` points to a carrier for the life of its kernel thread.
        unsafe { &*(segment::gs_read::<GS_SELF>() as *const Carrier) }
    }

    /// The runtime that this carrier belongs to.
    pub(crate) fn rt(&self) -> &'static Inner {
        self.rt
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> Option<&'static Slot> {
        // SAFETY: null or a slot of this carrier's runtime.
        unsafe { self.slot.get().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn current(&self) -> Option<&'static Uthread> {
        // SAFETY: null or a thread of this carrier's runtime.
        unsafe { self.current.get().as_ref() }
    }

    /// Is `t` the thread that runs here?
    #[inline(always)]
    pub(crate) fn is_on(&self, t: &Uthread) -> bool {
        core::ptr::eq(self.current.get(), t)
    }

    /// Where the calling carrier may run, if that is one CPU; and where the process may.
    ///
    /// # Safety
    ///
    /// The caller runs on a carrier, and is not moved before it is back.
    pub(crate) unsafe fn confinement() -> Option<(usize, &'static [usize])> {
        // SAFETY: `gs` points to a carrier for the life of its kernel thread.
        let here = unsafe { &*(segment::gs_read::<GS_SELF>() as *const Carrier) };
        here.cpu.get().map(|cpu| (cpu, &here.rt.config.allowed[..]))
    }

    pub(crate) fn set_current(&self, t: *const Uthread) {
        self.current.set(t);
    }

    /// Takes possession of a slot.
    pub(crate) fn take_slot(&self, slot: &'static Slot) {
        self.turns.change(Role::Worker);
        slot.tid.store(self.tid, Relaxed);
        slot.carrier.store(core::ptr::from_ref(self).cast_mut(), Relaxed);
        slot.timer.store(self.timer, Relaxed);
        slot.armed.store(NEVER, Relaxed);
        slot.request.over();
        slot.seen_as.store(self.seen_as, Relaxed);
        self.slot.set(slot);
        if slot.cpu.is_some() && slot.cpu != self.cpu.get() {
            // The rank first: whoever computes on that CPU may not let this thread run there.
            self.rt.share.iter().for_each(Share::rank);
            if let Some(cpu) = slot.cpu {
                // The CPU may have gone offline since the start: running elsewhere is the best that
                // is left.
                let _ = sys::pin_to_cpus(&[cpu]);
            }
            self.cpu.set(slot.cpu);
        }
        crate::preempt::takes(self.rt, slot, self.receiver);
    }

    /// Gives this carrier's slot to a spare, or to one that is reserved for the thread that is
    /// recorded as running on it.
    pub(crate) fn give_slot(&self, spare: &Carrier) {
        let Some(slot) = self.slot() else { return };
        self.lose_slot();
        self.rt.away.fetch_add(1, AcqRel);
        spare.take_over(slot);
    }

    /// This carrier's slot is another's.
    pub(crate) fn lose_slot(&self) {
        self.slot.set(core::ptr::null());
        self.away.set(true);
    }

    /// This spare, which the caller has taken from the list, is given a slot.
    pub(crate) fn take_over(&self, slot: &Slot) {
        self.seat.give(slot.id);
    }

    /// The carrier is back on its native stack.
    pub(crate) fn is_back(&self) {
        if self.away.replace(false) {
            self.rt.away.fetch_sub(1, AcqRel);
        }
    }

    /// Puts the alternate stack back, if the kernel has another one for this carrier: a handler of
    /// the program that was preempted elsewhere and ended here has brought it along with its
    /// `rt_sigreturn`.
    #[inline]
    pub(crate) fn keep_alt_stack(&self, found: *mut libc::c_void) {
        if found != self.alt_stack.ss_sp {
            // SAFETY: the carrier's own stack, which lives as long as the kernel thread.
            unsafe {
                sys::syscall3(libc::SYS_sigaltstack, &raw const self.alt_stack as u64, 0, 0);
            }
        }
    }

    /// Wakes a spare, to look at the stop flag.
    pub(crate) fn wake_to_stop(&self) {
        self.seat.call();
    }

    /// Nothing but `t`, the calling thread, runs here from now on.
    pub(crate) fn reserve(&self, t: &Uthread) {
        self.reserved_for.set(t);
        t.home.store(core::ptr::from_ref(self).cast_mut(), Release);
    }

    /// The thread for which this carrier is reserved.
    pub(crate) fn reserved_for(&self) -> Option<&'static Uthread> {
        // SAFETY: null or a thread of this carrier's runtime, which has not ended.
        unsafe { self.reserved_for.get().as_ref() }
    }

    /// The reservation is over: the thread that it was for.
    pub(crate) fn end_reservation(&self) -> Option<&'static Uthread> {
        let t = self.reserved_for();
        self.reserved_for.set(core::ptr::null());
        t
    }

    /// Sleeps, in the list of spares or reserved, until a slot is given or the runtime stops.
    /// `None`: stop.
    pub(crate) fn wait_for_slot(&self) -> Option<&'static Slot> {
        // Who is no longer in the list is about to be given a slot.
        let withdraw = || match self.reserved_for() {
            None => self.rt.spares.withdraw(self),
            Some(t) => !t.home.swap(core::ptr::null_mut(), AcqRel).is_null(),
        };
        let ends = || self.rt.stopping.load(Acquire) && withdraw();
        // Who stops the runtime does not know of a reserved one, which waits no longer than its
        // thread does for a worker.
        let limit = || self.reserved_for().map(|_| RESERVED_LOOKS);
        self.seat.wait(ends, limit).map(|slot| &self.rt.slots()[slot])
    }
}

/// The body of a carrier's kernel thread: runs until the runtime stops.
pub(crate) fn main(rt: &'static Inner, first: Option<&'static Slot>) {
    let alt_stack = AltStack::install();
    let tid = sys::gettid();
    let receiver = crate::preempt::register(rt);
    sys::set_minimal_timer_slack();
    let carrier = Carrier {
        this: Cell::new(core::ptr::null()),
        current: Cell::new(core::ptr::null()),
        slot: Cell::new(core::ptr::null()),
        seen_as: rt.descheduled.as_ref().map_or(UNSEEN, Descheduled::enter),
        after: Cell::new(After::None),
        native_rsp: Cell::new(0),
        native_fs: segment::fs_base(),
        rt,
        tid,
        timer: rt.clock.carrier_timer(tid, rt.config.signal),
        receiver,
        cpu: Cell::new(None),
        away: Cell::new(false),
        turns: Turns::of_caller(),
        alt_stack: alt_stack.as_stack_t(),
        seat: Seat::new(),
        reserved_for: Cell::new(core::ptr::null()),
    };
    carrier.this.set(&carrier);
    // SAFETY: `carrier` is not moved and lives until `gs` is cleared below.
    unsafe { segment::set_gs_base(&raw const carrier as usize) };
    crate::thread::raw::attach();
    crate::preempt::begins(rt, receiver);
    if let Some(slot) = first {
        rt.spares.first_begins();
        carrier.take_slot(slot);
    }
    super::scheduler::run(&carrier);
    crate::preempt::ends(rt, receiver);
    crate::thread::raw::detach();
    if carrier.timer >= 0 {
        sys::timer_delete(carrier.timer);
    }
    // A preemption signal still under way finds gs = 0 and is ignored.
    // SAFETY: nothing on this kernel thread uses `gs` from now on.
    unsafe { segment::set_gs_base(0) };
    rt.descheduled.iter().for_each(|all| all.leave(carrier.seen_as));
    rt.thread_gone();
}
