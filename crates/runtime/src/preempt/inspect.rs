//! For tests that choose the instruction at which a thread is preempted.
//!
//! A handler of the test's own (for `SIGTRAP`, say) calls [`preempt`] and then [`leave`] in the place of the notification's
//! handler, and so goes the same way: the same gate, the same look at the interrupted address, the same switch, the same
//! resume. Two things differ. Nobody asks whether the preemption is due; and a request that was put off counts as due until
//! the dispatch that it was made for is over ([`outstanding`]), so that the clock and the ends of sections take it as they
//! would take one of the clock's.
//!
//! No stable interface: it exists with the feature `inspect` only, for this project's own tests and `quaver selftest`.

use super::handler::{self, Source};
use crate::runtime::Inner;
use crate::thread::raw;
use crate::worker::carrier::Carrier;
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use super::handler::Verdict;

/// Preempts the thread that the calling signal handler has interrupted. Returns what became of the request when the thread
/// runs again, possibly on another worker. On a kernel thread without user threads: `Stale`.
///
/// # Safety
///
/// Called by a signal handler that was installed without `SA_ONSTACK`, with `SA_NODEFER` and an empty mask; `uc` is
/// the context that the kernel gave it. The handler calls [`leave`] as the last thing it does, unless the verdict is
/// `InScheduler`: then it returns.
pub unsafe fn preempt(uc: *mut libc::ucontext_t) -> Verdict {
    if !raw::attached() {
        return Verdict::Stale;
    }
    // SAFETY: attached; the rest is the caller's contract.
    unsafe { handler::judge(Source::Forced, uc) }
}

/// Leaves a handler in which [`preempt`] was called, as the notification's handler does. Returns only where that leaves by
/// `rt_sigreturn`; the calling handler must then return at once.
///
/// # Safety
///
/// `uc` is the context of the frame of the handler that calls this.
#[inline(always)]
pub unsafe fn leave(uc: *mut libc::ucontext_t) {
    // SAFETY: the caller's contract.
    unsafe { handler::leave_handler(uc) }
}

/// Does [`leave`] resume in user mode (and not return)?
pub fn resumes_in_user_mode() -> bool {
    handler::resumes_in_user_mode()
}

/// Preempted threads that were resumed on another worker than the one that they were preempted on, whoever asked for it.
pub fn migrations() -> u64 {
    MIGRATIONS.load(Relaxed)
}

static MIGRATIONS: AtomicU64 = AtomicU64::new(0);

/// A thread that was preempted on `slot` is running again, behind a closed gate.
pub(super) fn resumed(slot: &Slot) {
    // SAFETY: preemption is disabled until the slot has been looked at.
    let now = unsafe { Carrier::here() }.slot();
    if now.is_some_and(|now| now.id != slot.id) {
        MIGRATIONS.fetch_add(1, Relaxed);
    }
}

/// Must a preemption at this address be put off, because its holder may hold a lock of the C library?
pub fn is_unsafe(address: usize) -> bool {
    super::ranges::is_unsafe(address)
}

/// Is this an address of the assembly that resumes preempted threads in user mode?
pub fn is_resuming(address: usize) -> bool {
    crate::arch::resume::range().contains(&address)
}

/// The number of the user thread that `gs` names, for signal handlers: in the runtime's switch it is already the next one.
/// `None` on kernel threads and in the scheduler.
pub fn current_id() -> Option<u64> {
    raw::current().map(|t| t.id.get())
}

/// The worker that the calling user thread occupies at this moment.
pub fn worker() -> Option<usize> {
    let t = raw::current()?;
    t.preempt_disable();
    // SAFETY: preemption is disabled until the slot has been looked at.
    let id = unsafe { Carrier::here() }.slot().map(|s| s.id);
    t.preempt_enable();
    id
}

/// Is a request of [`preempt`] outstanding that was made during the calling thread's present dispatch?
pub fn outstanding() -> bool {
    let Some(t) = raw::current() else { return false };
    t.preempt_disable();
    // SAFETY: preemption is disabled until the slot has been looked at.
    let slot = unsafe { Carrier::here() }.slot();
    let found = slot.is_some_and(|s| s.forced.load(Relaxed) == s.run.load(Relaxed));
    // Enabling takes what was put off meanwhile.
    t.preempt_enable();
    found
}

/// What must be as it was after a thread has been preempted any number of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Depth of the runtime's sections.
    pub no_preempt: u32,
    /// Depth of the user's regions.
    pub regions: u32,
    /// The park token: 0 none, 1 parked, 2 there.
    pub park: u32,
    /// `fs`, and what the runtime believes it to be.
    pub fs: (usize, usize),
    /// Is the stack pointer on the thread's own stack?
    pub on_own_stack: bool,
}

/// The calling user thread's state; `None` on other threads.
pub fn state() -> Option<State> {
    let t = raw::current()?;
    let mark = 0u8;
    Some(State {
        no_preempt: t.no_preempt.get(),
        regions: t.regions.get(),
        park: t.park.load(Relaxed),
        fs: (crate::arch::segment::fs_base(), t.fs.get()),
        on_own_stack: Inner::latest()?.table.stack(t).contains(&(&raw const mark as usize)),
    })
}

/// Threads that stand in queues.
pub fn waiting() -> usize {
    Inner::running().map_or(0, |rt| rt.policy.waiting())
}
