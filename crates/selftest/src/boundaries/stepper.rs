//! The trap flag: counts instructions, and preempts at those that were chosen.
//!
//! [`run`] makes one run of a scenario; the scenario says with [`step`] which part of it is
//! stepped. There is one run at a time in a process. What the handler touches is atomic: it
//! interrupts anything.

pub mod by_user_interrupt;

use super::frame::{self, Mismatch, Resumed};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use libc::ucontext_t;
use quaver::inspect::{self, ClosedGate, Verdict};
use std::io;

const TRAP_FLAG: i64 = 0x100;
/// How often a thread is preempted on its way out of a handler in which it has been preempted.
const DEEPEST: usize = 2;
/// "At no boundary."
pub const NEVER: u64 = u64::MAX;

/// Boundaries are counted and preempted.
static ARMED: AtomicBool = AtomicBool::new(false);
/// Boundaries of this run so far.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The next boundary to preempt at, counted from 1.
static NEXT: AtomicU64 = AtomicU64::new(NEVER);
/// How far it is to the one after that.
static STRIDE: AtomicU64 = AtomicU64::new(NEVER);
/// Where stepping gives up: a run that does not end would take for ever.
static LIMIT: AtomicU64 = AtomicU64::new(NEVER);
/// The worker (and one) that a thread has just been preempted on, 0 when it runs again.
static AWAY_FROM: AtomicUsize = AtomicUsize::new(0);
/// Do preempted threads have to go on on another worker?
static MIGRATING: AtomicBool = AtomicBool::new(false);
/// The numbers (and one) of threads that are not stepped while threads migrate.
static COMPANIONS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
/// The address of the boundary that was preempted last.
static LAST: AtomicUsize = AtomicUsize::new(0);
/// When a request was put off, in ticks.
static PUT_OFF: AtomicU64 = AtomicU64::new(0);

/// What has happened in all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Boundaries at which a preemption was asked for.
    pub tried: u64,
    /// Threads that were switched out there and then.
    pub preempted: u64,
    /// Of those, threads that went on on another worker.
    pub migrated: u64,
    /// Requests that were put off, to be taken later.
    pub deferred: u64,
    /// Threads that made their system call without a worker.
    pub handed_over: u64,
    /// Requests that met a worker without a thread, which has nothing to preempt.
    pub idle: u64,
    /// Requests that found nothing else to run.
    pub alone: u64,
    /// Register states that were compared after the resume.
    pub compared: u64,
}

macro_rules! tally {
    ($($field:ident),*) => {
        struct Totals { $($field: AtomicU64),* }
        static TOTALS: Totals = Totals { $($field: AtomicU64::new(0)),* };

        /// What has happened since the process began.
        pub fn tally() -> Tally {
            Tally { $($field: TOTALS.$field.load(SeqCst)),* }
        }
    };
}
tally!(tried, preempted, migrated, deferred, handed_over, idle, alone, compared);

/// A register state that was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The boundary, counted from 1.
    pub boundary: u64,
    /// The interrupted address.
    pub address: usize,
    /// What differs.
    pub mismatch: Mismatch,
}

const MOST_FINDINGS: usize = 16;
struct Findings([UnsafeCell<Option<Finding>>; MOST_FINDINGS]);
// SAFETY: each cell is written by whoever drew its number, and read after the runs.
unsafe impl Sync for Findings {}
static FINDINGS: Findings = Findings([const { UnsafeCell::new(None) }; MOST_FINDINGS]);
static FOUND: AtomicU32 = AtomicU32::new(0);

/// The register states that were not restored (the first few), and how many there were.
pub fn findings() -> (Vec<Finding>, u32) {
    let found = FOUND.load(SeqCst);
    // SAFETY: nothing is stepped any more: the caller has ended its runs.
    let first = FINDINGS.0.iter().filter_map(|cell| unsafe { *cell.get() }).collect();
    (first, found)
}

/// Which boundaries of a run are preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The first, counted from 1; [`NEVER`]: none.
    pub first: u64,
    /// The distance to the next; [`NEVER`]: there is no next, and stepping ends at the first.
    pub stride: u64,
    /// The last that is stepped.
    pub limit: u64,
}

/// Installs the handler of `SIGTRAP`. With a runtime running.
///
/// # Errors
///
/// The kernel's.
pub fn install() -> io::Result<()> {
    // As the runtime's: on the interrupted thread's stack, nothing masked, so that it can be left
    // without `rt_sigreturn`.
    // SAFETY: a complete sigaction; the handler keeps the rules of this module.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = inspect::entry(on_trap);
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART;
        if libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Runs `scenario` once with `plan`. Returns its result and how many boundaries it has had.
pub fn run<T>(plan: Plan, scenario: impl FnOnce() -> T) -> (T, u64) {
    COUNT.store(0, SeqCst);
    NEXT.store(plan.first, SeqCst);
    STRIDE.store(plan.stride, SeqCst);
    LIMIT.store(plan.limit, SeqCst);
    PUT_OFF.store(0, SeqCst);
    ARMED.store(true, SeqCst);
    let result = scenario();
    ARMED.store(false, SeqCst);
    AWAY_FROM.store(0, SeqCst);
    (result, COUNT.load(SeqCst))
}

/// Steps through `f`, and, on this worker, through whatever runs because of it.
#[inline(never)]
pub fn step<T>(f: impl FnOnce() -> T) -> T {
    begin();
    let result = f();
    end();
    result
}

/// Begins to step, or goes on with it where the trap flag has stayed behind on another worker.
#[inline(always)]
pub fn begin() {
    if ARMED.load(Relaxed) {
        // SAFETY: the handler is installed before any run.
        unsafe { asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq") };
    }
}

/// Ends stepping in the calling thread.
#[inline(always)]
pub fn end() {
    // SAFETY: clears a flag that the program does not use.
    unsafe { asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq") };
}

/// Preempted threads shall go on on another worker, from now on and for the life of the process.
pub fn migrate() {
    MIGRATING.store(true, SeqCst);
}

/// The calling thread is a companion. On several workers the trap flag can stay with one when the
/// thread that it was set for goes on elsewhere: companions never end, so they drop it.
pub fn i_am_a_companion() {
    let me = inspect::current_id().map_or(0, |id| id + 1);
    let _ = COMPANIONS.iter().find(|c| c.compare_exchange(0, me, SeqCst, SeqCst).is_ok());
}

fn is_companion(id: u64) -> bool {
    COMPANIONS.iter().any(|c| c.load(Relaxed) == id + 1)
}

/// Is the caller on the worker that a thread has been preempted on and has not come back from?
pub fn keeps_it_away() -> bool {
    if !MIGRATING.load(Relaxed) {
        return false;
    }
    let from = AWAY_FROM.load(Relaxed);
    from != 0 && inspect::worker() == Some(from - 1)
}

/// Nobody comes for the preempted thread.
pub fn let_it_stay() {
    AWAY_FROM.store(0, Relaxed);
}

/// The boundary that was reached last in this run, and the address preempted last.
pub fn position() -> (u64, usize) {
    (COUNT.load(SeqCst), LAST.load(SeqCst))
}

/// When a request of this run was put off; `None` if none was.
pub fn put_off_at() -> Option<u64> {
    Some(PUT_OFF.load(SeqCst)).filter(|&t| t != 0)
}

pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has it, and Linux allows it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The handler. A preemption of the handler itself would be one of the code that it has
/// interrupted, which may be in malloc: the gate is closed all the way.
unsafe fn on_trap(info: *mut libc::siginfo_t, uc: *mut ucontext_t, gate: Option<ClosedGate>) {
    const TRAP_TRACE: i32 = 2;
    // SAFETY: the kernel filled `info` and `uc`, which is the handler's frame on the interrupted
    // stack.
    unsafe {
        if (*info).si_code != TRAP_TRACE {
            // A breakpoint instruction, that is, a crash.
            libc::abort();
        }
        let address = (*uc).uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
        let me = gate.and_then(|_| inspect::current_id());
        match (look(me, address, uc), gate) {
            (false, None) => {}
            (true, None) => {
                TOTALS.tried.fetch_add(1, Relaxed);
                TOTALS.idle.fetch_add(1, Relaxed);
                inspect::in_scheduler();
            }
            (false, Some(gate)) => inspect::leave_by_sigreturn(gate, uc),
            (true, Some(gate)) => {
                preempt(gate, me, address, uc);
                inspect::leave(gate, uc);
            }
        }
    }
}

/// Counts a boundary. `true`: it is to be preempted.
///
/// # Safety
///
/// `uc` is the context of a signal frame on the stack of thread `me`.
unsafe fn look(me: Option<u64>, address: usize, uc: *mut ucontext_t) -> bool {
    if inspect::is_resuming(address) || inspect::user_interrupts::is_entry(address) {
        // Another signal has come between the two last instructions of a resume.
        return false;
    }
    // SAFETY: the caller's contract.
    let resumed = me.map_or(Resumed::Unknown, |id| unsafe { frame::compare(id, uc) });
    if resumed != Resumed::Unknown {
        TOTALS.compared.fetch_add(1, Relaxed);
    }
    if let Resumed::Differs(mismatch) = resumed {
        report(Finding { boundary: COUNT.load(Relaxed), address, mismatch });
    }
    let dropped = MIGRATING.load(Relaxed) && me.is_some_and(is_companion);
    if dropped || !ARMED.load(Relaxed) {
        // SAFETY: the caller's contract.
        unsafe { (*uc).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG };
        return false;
    }
    if resumed != Resumed::Unknown {
        // The boundary that was preempted a moment ago, again.
        return false;
    }
    let boundary = COUNT.fetch_add(1, Relaxed) + 1;
    if boundary >= LIMIT.load(Relaxed) {
        ARMED.store(false, Relaxed);
    }
    if boundary != NEXT.load(Relaxed) {
        return false;
    }
    if me.is_some_and(|id| frame::depth(id) >= DEEPEST) {
        NEXT.store(boundary + 1, Relaxed);
        return false;
    }
    match STRIDE.load(Relaxed) {
        NEVER => ARMED.store(false, Relaxed),
        stride => NEXT.store(boundary + stride, Relaxed),
    }
    true
}

/// # Safety
///
/// As [`inspect::preempt`].
unsafe fn preempt(gate: ClosedGate, me: Option<u64>, address: usize, uc: *mut ucontext_t) {
    LAST.store(address, Relaxed);
    TOTALS.tried.fetch_add(1, Relaxed);
    // SAFETY: the caller's contract.
    let traps_again = unsafe { (*uc).uc_mcontext.gregs[libc::REG_EFL as usize] } & TRAP_FLAG != 0;
    let kept = traps_again
        && inspect::resumes_in_user_mode()
        // SAFETY: the caller's contract.
        && me.is_some_and(|id| unsafe { frame::keep(id, uc) });
    let from = inspect::worker_behind(gate);
    AWAY_FROM.store(from.map_or(0, |w| w + 1), Relaxed);
    PUT_OFF.store(ticks(), Relaxed);
    // SAFETY: the caller's contract.
    let verdict = unsafe { inspect::preempt(gate, uc) };
    if verdict == Verdict::HandedOver && kept {
        // Its registers are those after the call.
        // SAFETY: the caller's contract.
        me.into_iter().for_each(|id| unsafe { frame::forget(id, uc) });
    }
    count(verdict, from, inspect::worker_behind(gate));
}

/// What became of a preemption that was tried on worker `from`, now that the thread is on `here`.
fn count(verdict: Verdict, from: Option<usize>, here: Option<usize>) {
    if verdict != Verdict::Deferred {
        PUT_OFF.store(0, Relaxed);
        AWAY_FROM.store(0, Relaxed);
    }
    let counter = match verdict {
        Verdict::Preempted => {
            if from.is_some() && here.is_some() && from != here {
                TOTALS.migrated.fetch_add(1, Relaxed);
            }
            &TOTALS.preempted
        }
        Verdict::HandedOver => &TOTALS.handed_over,
        Verdict::Deferred => &TOTALS.deferred,
        Verdict::Alone => &TOTALS.alone,
        Verdict::Stale => &TOTALS.idle,
    };
    counter.fetch_add(1, Relaxed);
}

#[cold]
fn report(finding: Finding) {
    let number = FOUND.fetch_add(1, Relaxed) as usize;
    if let Some(cell) = FINDINGS.0.get(number) {
        // SAFETY: nobody else has drawn this number.
        unsafe { *cell.get() = Some(finding) };
    }
}
