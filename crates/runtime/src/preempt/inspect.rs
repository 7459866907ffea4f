//! For tests that choose the instruction at which a thread is preempted.
//!
//! A handler of the test's own (for `SIGTRAP`, say) is entered by [`entry`], calls [`preempt`] and
//! [`leave`] in the place of the notification's handler, and so goes the same way: the same gate,
//! the same look at the interrupted address, the same switch, the same resume. Two things differ.
//! Nobody asks whether the preemption is due; and a request that was put off counts as due until
//! the dispatch that it was made for is over ([`outstanding`]), so that the clock and the ends of
//! sections take it as they would take one of the clock's.
//!
//! No stable interface: it exists with the feature `inspect` only, for this project's own tests and
//! `quaver selftest`.

use super::frame::Frame;
use super::judge::{self, Requester};
use super::signal::{self, SignalFrame};
use crate::runtime::Inner;
use crate::thread::control::Uthread;
use crate::thread::raw;
use crate::worker::carrier::Carrier;
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;

pub use super::judge::Verdict;
pub use crate::uintr::inspect as user_interrupts;

/// The closed gate of an interrupted thread. Nothing preempts or moves it until [`leave`].
#[derive(Clone, Copy)]
pub struct ClosedGate {
    thread: &'static Uthread,
    depth: u32,
}

impl core::fmt::Debug for ClosedGate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ClosedGate({}, {})", self.thread.handle, self.depth)
    }
}

/// A handler of the test: what the kernel gives it, and the gate of the thread that it has
/// interrupted. No gate in the scheduler and on kernel threads: then there is nothing to preempt,
/// and the handler returns as any handler.
pub type Handler = unsafe fn(*mut libc::siginfo_t, *mut libc::ucontext_t, Option<ClosedGate>);

static HANDLER: OnceLock<Handler> = OnceLock::new();

/// What to install as the handler of a signal, for `handler` to be entered with a closed gate: at
/// each instruction before that a notification is put off, since the handler may have interrupted
/// anything. One handler in a process: the first one stays.
pub fn entry(handler: Handler) -> usize {
    let _ = HANDLER.set(handler);
    crate::arch::entry::inspected().start
}

/// Goes on with the test's handler.
pub(crate) unsafe extern "C" fn entered(
    _signal: i32,
    info: *mut libc::siginfo_t,
    uc: *mut libc::c_void,
    closed: Option<&'static Uthread>,
) {
    let gate = judge::interrupted(closed).map(|(thread, depth)| ClosedGate { thread, depth });
    if let Some(handler) = HANDLER.get() {
        // SAFETY: the kernel's arguments, handed on.
        unsafe { handler(info, uc.cast(), gate) }
    }
}

/// Preempts the thread that the calling signal handler has interrupted. Returns what became of the
/// request when the thread runs again, possibly on another worker.
///
/// # Safety
///
/// Called by a signal handler that was installed without `SA_ONSTACK`, with `SA_NODEFER` and an
/// empty mask; `uc` is the context that the kernel gave it, and `gate` is what it got from
/// [`entry`]. It calls [`leave`] as its last act.
pub unsafe fn preempt(gate: ClosedGate, uc: *mut libc::ucontext_t) -> Verdict {
    // SAFETY: the caller's contract.
    unsafe {
        let mut frame = SignalFrame::new(uc);
        judge::judge(Requester::Forced, gate.thread, gate.depth, &mut frame)
    }
}

/// Opens the gate and leaves the handler as the notification's handler does. Where this returns,
/// the handler must return at once.
///
/// # Safety
///
/// As for [`preempt`].
pub unsafe fn leave(gate: ClosedGate, uc: *mut libc::ucontext_t) {
    // SAFETY: the caller's contract.
    unsafe { SignalFrame::entered(uc).leave(gate.thread, gate.depth) }
}

/// [`leave`], by `rt_sigreturn` in any case.
///
/// # Safety
///
/// As for [`preempt`].
pub unsafe fn leave_by_sigreturn(gate: ClosedGate, uc: *mut libc::ucontext_t) {
    // SAFETY: the caller's contract.
    unsafe { SignalFrame::entered(uc).leave_by_sigreturn(gate.thread, gate.depth) }
}

/// The worker of the calling handler's thread.
pub fn worker_behind(_gate: ClosedGate) -> Option<usize> {
    // SAFETY: the gate is closed.
    unsafe { Carrier::here() }.slot().map(|s| s.id)
}

/// The worker of the thread that the calling handler has interrupted, for one that blocks all
/// signals: what was put off meanwhile stays so.
pub fn worker_in_handler() -> Option<usize> {
    let thread = raw::current()?;
    let depth = judge::close_gate(thread);
    let worker = worker_behind(ClosedGate { thread, depth });
    thread.no_preempt.set(depth);
    worker
}

/// Does [`leave`] resume in user mode (and not return)?
pub fn resumes_in_user_mode() -> bool {
    signal::resumes_in_user_mode()
}

/// A handler met a worker without a thread: what the notification's handler does then.
pub fn in_scheduler() {
    if raw::attached() {
        judge::in_scheduler();
    }
}

/// Must a preemption at this address be put off, because its holder may hold a lock of the C
/// library?
pub fn is_unsafe(address: usize) -> bool {
    super::ranges::is_unsafe(address)
}

/// Is this an address of the assembly that resumes preempted threads in user mode?
pub fn is_resuming(address: usize) -> bool {
    crate::arch::resume::range().contains(&address)
}

/// The number of the user thread that `gs` names, for signal handlers: in the runtime's switch it
/// is already the next one. `None` on kernel threads and in the scheduler.
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

/// Is a request of [`preempt`] outstanding that was made during the calling thread's present
/// dispatch?
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

/// The words of each worker that have to do with requests, for reports of what went wrong.
pub fn describe() -> String {
    let Some(rt) = Inner::running() else { return "no runtime".into() };
    let now = crate::tsc::now();
    let ago = |t: u64| match t {
        0 => "0".into(),
        crate::tsc::NEVER => "never".into(),
        t => format!(
            "{:+}us",
            (t as i64 - now as i64)
                / crate::tsc::from_duration(std::time::Duration::from_micros(1)) as i64
        ),
    };
    let slot = |s: &Slot| {
        format!(
            "worker {}: run {}, forced {}, request {}, pending {}, retry {}, armed {}, thread {}",
            s.id,
            ago(s.run.load(Relaxed)),
            ago(s.forced.load(Relaxed)),
            ago(s.request.tag()),
            s.request.is_under_way(),
            ago(s.retry_at.load(Relaxed)),
            ago(s.armed.load(Relaxed)),
            s.run_task.load(Relaxed),
        )
    };
    let slots: Vec<_> = rt.slots().iter().map(slot).collect();
    format!("{}; {} waiting, {} away", slots.join("; "), waiting(), rt.away.load(Relaxed))
}

/// What must be as it was after a thread has been preempted any number of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadState {
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
pub fn state() -> Option<ThreadState> {
    let t = raw::current()?;
    let mark = 0u8;
    Some(ThreadState {
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
