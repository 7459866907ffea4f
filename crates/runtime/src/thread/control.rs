//! The control block of a user thread.

use super::label::Label;
use super::life::Life;
use super::run_time::RunTime;
use super::stack::OwnStack;
use crate::park::Waiter;
use crate::preempt::{fault::claim::Claim, probe::Pacing};
use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use quaver_sched::Task;

/// States of the park token, as in `std::thread::park`.
///
/// ```text
///   EMPTY --unpark--> NOTIFIED --park--> EMPTY            (park returns at once)
///   EMPTY --park, after leaving the stack--> PARKED --unpark--> EMPTY, and the thread is queued
/// ```
///
/// Only the far side of the context switch moves EMPTY to PARKED, so whoever sees PARKED may run
/// the thread.
pub(crate) mod park_state {
    pub(crate) const EMPTY: u32 = 0;
    pub(crate) const PARKED: u32 = 1;
    pub(crate) const NOTIFIED: u32 = 2;
}

/// What an external observer (debugger, statistics) wants to know of a thread.
pub(crate) mod phase {
    pub(crate) const FREE: u8 = 0;
    pub(crate) const ALIVE: u8 = 1;
}

/// What became of a preemption that was asked for inside a section or region.
pub(crate) mod deferred {
    /// There was none.
    pub(crate) const NONE: u8 = 0;
    /// Whoever opens the gate sees to it.
    pub(crate) const ASKED: u8 = 1;
    /// That has been seen, in a region of the user: its end takes the preemption, and until then
    /// the clock asks now and then.
    pub(crate) const KEPT: u8 = 2;
}

/// A user thread. Lives in the runtime's table at a fixed address and is used for one thread after
/// the other.
///
/// Who may touch what: cells belong to whoever *has* the thread, which is the thread itself while
/// it runs, the carrier that just switched it out, or the one that took it out of a queue. Atomics
/// may be touched by anybody.
#[repr(C, align(64))]
pub(crate) struct Uthread {
    /// Saved stack pointer while switched out.
    pub(crate) rsp: Cell<usize>,
    /// `fs` base: address of its TLS block's thread pointer. 0 until the region is mapped, and for
    /// ever where threads use the TLS of their carriers.
    pub(crate) fs: Cell<usize>,
    /// Depth of the runtime's own critical sections. At least 1 whenever the thread is switched out
    /// or in scheduler code; while it is not 0 the thread neither switches nor waits. Touched by
    /// the thread and the handler that interrupts it only.
    pub(crate) no_preempt: Cell<u32>,
    /// Depth of the user's non-preemptible regions, in which the thread may still wait of its own
    /// will.
    pub(crate) regions: Cell<u32>,
    /// Depth of those regions in which not even a shutdown stops the thread.
    pub(crate) unstoppable: Cell<u32>,
    /// How many [mutexes](crate::sync::Mutex) it holds, where that is counted, and whether it has
    /// not been preempted because of them. Cleared at dispatch. See [`crate::preempt::extension`].
    pub(crate) mutexes: Cell<u32>,
    pub(crate) extended: Cell<bool>,
    /// A preemption was asked for inside a section or region: see to it at the end. Cleared at
    /// dispatch. See [`deferred`].
    pub(crate) deferred: Cell<u8>,
    /// It was stopped at the end of its quantum when it ran last.
    pub(crate) outlived: Cell<bool>,
    /// Depth of the calls that block ([`block_in_place`](crate::block_in_place)): while it is not 0
    /// the thread wants no worker.
    pub(crate) blocking: Cell<u32>,
    /// See [`phase`].
    pub(crate) phase: AtomicU8,
    /// The carrier on which it must go on, which waits for it; null for any.
    pub(crate) home: AtomicPtr<crate::worker::carrier::Carrier>,
    /// See [`park_state`].
    pub(crate) park: AtomicU32,
    /// See [`Life`].
    pub(crate) life: Life,
    /// Own index in the table.
    pub(crate) handle: u32,
    /// Next in the free list.
    pub(crate) next_free: Cell<u32>,
    /// Closure before, result after the run.
    pub(crate) packet: Cell<*mut u8>,
    /// Runs the closure and stores its result.
    pub(crate) run: Cell<Option<unsafe fn(*mut u8)>>,
    /// Drops the result.
    pub(crate) drop_result: Cell<Option<unsafe fn(*mut u8)>>,
    /// Frees the packet, if it is in the heap.
    pub(crate) free_packet: Cell<Option<unsafe fn(*mut u8)>>,
    /// An `Arc` of the scope to tell at the end, or null.
    pub(crate) scope: Cell<*const super::scope::Data>,
    /// The PKRU to begin with.
    pub(crate) pkru: Cell<u32>,
    /// Has the TLS block been initialised from within?
    pub(crate) tls_ready: Cell<bool>,
    /// Start of the stack's guard. That of the thread's region, but for a thread with a stack of
    /// its own.
    pub(crate) region: AtomicUsize,
    /// End of the usable stack.
    pub(crate) stack_top: AtomicUsize,
    /// A stack of its own, and `region` and `stack_top` as they were before.
    pub(crate) own_stack: UnsafeCell<Option<(OwnStack, usize, usize)>>,
    /// How long it has run, where somebody counts that.
    pub(crate) ran: RunTime,
    /// Unique in the process, never reused.
    pub(crate) id: Cell<u64>,
    /// A [`Waiter`] as a word. Written by the owner of the `JoinHandle` only, before it
    /// [waits](Life::wait).
    pub(crate) joiner: AtomicPtr<()>,
    /// What [`thread::park`](super::park) waits for: twice `id`, plus one if it is there. So an
    /// `unpark` for an earlier thread in this place finds another number.
    pub(crate) permit: AtomicU64,
    /// What it waits for, or null, and the address of that: for debuggers.
    pub(crate) waits_for: Cell<*const core::ffi::c_char>,
    pub(crate) waits_at: Cell<usize>,
    /// Given by the user.
    pub(crate) name: UnsafeCell<Option<Box<str>>>,
    /// The kernel thread that makes a system call of it without a slot; 0: none does. Below 0: the
    /// call is to be made again if it says `EINTR`.
    pub(crate) away: AtomicI32,
    /// Is its slot wanted while it sleeps in a page fault?
    pub(crate) fault: Claim,
    /// Stands for `name` if it is not empty.
    pub(crate) label: Label,
    /// How often it looks at the clock, at probes.
    pub(crate) pacing: Pacing,
}

// SAFETY: see the ownership rule on the type; the scheduler's queues hand ownership over with
// release/acquire.
unsafe impl Sync for Uthread {}

impl Uthread {
    /// The block in its table entry, before its first use.
    pub(crate) fn new(handle: u32) -> Uthread {
        Uthread {
            rsp: Cell::new(0),
            fs: Cell::new(0),
            no_preempt: Cell::new(1),
            regions: Cell::new(0),
            unstoppable: Cell::new(0),
            mutexes: Cell::new(0),
            extended: Cell::new(false),
            deferred: Cell::new(deferred::NONE),
            outlived: Cell::new(false),
            blocking: Cell::new(0),
            phase: AtomicU8::new(phase::FREE),
            home: AtomicPtr::new(core::ptr::null_mut()),
            park: AtomicU32::new(park_state::EMPTY),
            life: Life::new(),
            handle,
            next_free: Cell::new(NONE),
            packet: Cell::new(core::ptr::null_mut()),
            run: Cell::new(None),
            drop_result: Cell::new(None),
            free_packet: Cell::new(None),
            scope: Cell::new(core::ptr::null()),
            pkru: Cell::new(0),
            tls_ready: Cell::new(false),
            region: AtomicUsize::new(0),
            stack_top: AtomicUsize::new(0),
            own_stack: UnsafeCell::new(None),
            ran: RunTime::default(),
            id: Cell::new(0),
            joiner: AtomicPtr::new(core::ptr::null_mut()),
            permit: AtomicU64::new(0),
            waits_for: Cell::new(core::ptr::null()),
            waits_at: Cell::new(0),
            name: UnsafeCell::new(None),
            away: AtomicI32::new(0),
            fault: Claim::new(),
            label: Label::new(),
            pacing: Pacing::new(),
        }
    }

    pub(crate) fn task(&self) -> Task {
        Task(self.handle)
    }

    /// Enters a critical section of the runtime on the calling thread.
    #[inline(always)]
    pub(crate) fn preempt_disable(&self) {
        self.no_preempt.set(self.no_preempt.get() + 1);
        core::sync::atomic::compiler_fence(SeqCst);
    }

    /// Leaves a critical section without looking whether a preemption was deferred. `true` if one
    /// was: it may be taken, or is a user's region's now.
    #[inline(always)]
    pub(crate) fn preempt_enable_only(&self) -> bool {
        core::sync::atomic::compiler_fence(SeqCst);
        let n = self.no_preempt.get();
        debug_assert!(n > 0, "preempt_enable without preempt_disable");
        self.no_preempt.set(n - 1);
        core::sync::atomic::compiler_fence(SeqCst);
        n == 1 && self.deferred.get() != deferred::NONE
    }

    /// Leaves a critical section; takes a deferred preemption when nothing forbids it any more.
    #[inline(always)]
    pub(crate) fn preempt_enable(&'static self) {
        if self.preempt_enable_only() {
            crate::preempt::take_deferred(self);
        }
    }

    /// The flag is being seen to, as a region of the user (`true`) or the end of a section does.
    /// Called before what it is for is done: a request that comes meanwhile sets it again.
    pub(crate) fn sees_flag(&self) -> bool {
        let in_region = self.regions.get() > 0;
        self.deferred.set(if in_region { deferred::KEPT } else { deferred::NONE });
        in_region
    }

    /// Enters a non-preemptible region of the user.
    #[inline(always)]
    pub(crate) fn enter_region(&self) {
        self.regions.set(self.regions.get() + 1);
        core::sync::atomic::compiler_fence(SeqCst);
    }

    /// Leaves a region; takes a deferred preemption when nothing forbids it any more.
    #[inline(always)]
    pub(crate) fn leave_region(&'static self) {
        core::sync::atomic::compiler_fence(SeqCst);
        let n = self.regions.get();
        debug_assert!(n > 0, "a region was left that was not entered");
        self.regions.set(n - 1);
        core::sync::atomic::compiler_fence(SeqCst);
        if n == 1 && self.deferred.get() != deferred::NONE && self.no_preempt.get() == 0 {
            crate::preempt::take_deferred(self);
        }
    }

    /// Who waits for the thread's end, or did last.
    pub(crate) fn joiner(&self) -> Option<Waiter> {
        // SAFETY: `JoinHandle` stores what `into_raw` returns.
        unsafe { Waiter::from_raw(self.joiner.load(Acquire)) }
    }
}

/// No thread, as a handle.
pub(crate) const NONE: u32 = u32::MAX;
