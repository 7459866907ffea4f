//! For tests that choose the instruction at which a user interrupt comes, and that look at each
//! return from one.

use super::cpu::Vector;
use super::{current, trap};
use crate::arch::user_interrupt;
use crate::preempt::inspect::Verdict;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use libc::ucontext_t;

/// Called at each `uiret`, with the registers that the thread is about to have.
pub type Watcher = unsafe fn(*mut ucontext_t);

/// Called when a [preemption](preempt) has been judged and its thread runs again, with its gate
/// closed: what became of it, the worker, and the stack pointer of the interrupted code.
pub type Observer = fn(Verdict, Option<usize>, usize);

static WATCHER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static OBSERVER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static KEEPS: AtomicBool = AtomicBool::new(false);

/// From now on `f` sees each return.
pub fn watch_returns(f: Watcher) {
    WATCHER.store(f as *mut (), Release);
}

/// From now on the trap flag stays set in what is delivered, unlike with hardware: so the entry,
/// the handler and the return are stepped, too.
pub fn keep_trap_flag(keep: bool) {
    KEEPS.store(keep, Release);
}

pub(super) fn keeps_trap_flag() -> bool {
    KEEPS.load(Acquire)
}

pub(super) fn returned(uc: &mut ucontext_t) {
    let f = WATCHER.load(Acquire);
    if !f.is_null() {
        // SAFETY: set as such; the context is the trap handler's own.
        unsafe { core::mem::transmute::<*mut (), Watcher>(f)(uc) };
    }
}

/// From now on `f` hears of each verdict.
pub fn watch_verdicts(f: Observer) {
    OBSERVER.store(f as *mut (), Release);
}

pub(crate) fn judged(verdict: Verdict, worker: Option<usize>, stack_pointer: usize) {
    let f = OBSERVER.load(Acquire);
    if !f.is_null() {
        // SAFETY: set as such.
        let f = unsafe { core::mem::transmute::<*mut (), Observer>(f) };
        f(verdict, worker, stack_pointer);
    }
}

/// Is this an address of the code by which user interrupts enter and threads go on?
pub fn is_entry(address: usize) -> bool {
    user_interrupt::range().contains(&address)
}

/// A user interrupt that preempts, whatever the policy says, comes for the calling kernel thread at
/// `uc`, where a signal handler without SA_ONSTACK has interrupted it: when that handler returns,
/// the thread is at the entry, or it is pending (UIF is 0). `false`: the thread is not registered.
///
/// # Safety
///
/// All signals are blocked until the handler has returned by `rt_sigreturn`; `room` is 32 bytes in
/// its frame, on a multiple of 16, which nobody writes to until then.
pub unsafe fn preempt(uc: *mut ucontext_t, room: *mut [u64; 4]) -> bool {
    let Some(cpu) = current() else { return false };
    cpu.upid.post(crate::uintr::FORCED);
    cpu.interrupted_by(Vector::Notification);
    // SAFETY: the caller's contract.
    trap::deliver(cpu, unsafe { &mut *uc }, room);
    true
}

/// How many user interrupts were delivered, and how many of the five instructions were executed.
pub fn counts() -> (u64, u64) {
    (trap::DELIVERED.load(Relaxed), trap::EXECUTED.load(Relaxed))
}
