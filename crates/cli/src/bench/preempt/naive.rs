//! The naive way to preempt: switch contexts inside the signal handler, return through
//! `rt_sigreturn` later.
//!
//! Two contexts, each with a stack, and the kernel thread's own stack as the third. The handler
//! saves the callee-saved registers on the stack that it interrupted, changes to the other stack
//! and returns from *that* context's earlier call, into that context's handler, which returns into
//! `rt_sigreturn`. Everything else (all other registers, vector state, flags, the signal mask) lies
//! in the signal frames that the kernel made.
//!
//! # States
//!
//! `CURRENT` is the context that runs. The handler switches only while both hogs are unfinished.
//! The signal is blocked in handlers (the kernel does that), while a context other than the hogs
//! runs, and from the moment at which the last hog leaves; a hog unblocks it when it starts. A hog
//! that finishes sets `FINISHED` first, so that from then on no handler switches, and then changes
//! to the other one by itself.

use std::arch::naked_asm;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;

use super::measure::{Done, Hog, timed};
use super::ticker::{self, SIGNAL, Source, Ticker};

/// Enough for a hog and a signal frame with AVX-512 state, many times over.
const STACK_WORDS: usize = 32 * 1024;

/// The number of the kernel thread's own context; the hogs are 0 and 1.
const MAIN: usize = 2;

/// The stack pointers of contexts that do not run.
static SAVED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
static CURRENT: AtomicUsize = AtomicUsize::new(MAIN);
static FINISHED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
static RESULTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static HOG: OnceLock<Hog> = OnceLock::new();

/// Runs both hogs as contexts on the calling kernel thread. Once in a process.
pub fn run(
    hog: Hog,
    source: Source,
    quantum: Duration,
    helper_cpu: Option<usize>,
) -> anyhow::Result<Done> {
    ensure!(HOG.set(hog).is_ok(), "the contexts of this process have been used");
    let stacks = [Stack::new(), Stack::new()];
    for (stack, saved) in stacks.iter().zip(&SAVED) {
        saved.store(stack.start(), Ordering::Relaxed);
    }
    ticker::install(handler)?;
    mask(libc::SIG_BLOCK);
    let ticker = Ticker::start(source, quantum, helper_cpu)?;
    let before = ticker::events();
    let ((), took) = timed(|| change(MAIN, 0))?;
    let events = ticker::events() - before;
    drop(ticker);
    // Nothing runs on them any more, and the signal stays blocked on this thread.
    drop(stacks);
    let results = RESULTS.each_ref().map(|result| result.load(Ordering::Relaxed));
    Ok(Done { results, events, took })
}

/// The memory of a stack.
struct Stack(Box<[u128]>);

impl Stack {
    fn new() -> Self {
        Self(vec![0; STACK_WORDS].into())
    }

    /// The stack pointer of a context that has not run: what [`swap`] pops.
    ///
    /// ```text
    /// top - 8        0, the return address of `enter`, which never returns
    /// top - 16       enter
    /// top - 64       six callee-saved registers   <- stack pointer
    /// ```
    fn start(&self) -> usize {
        let top = self.0.as_ptr_range().end as usize;
        // SAFETY: the word lies in this stack, which no context uses yet; it is aligned, as `top`
        // is to 16.
        unsafe { ((top - 16) as *mut usize).write(enter as *const () as usize) };
        top - 64
    }
}

extern "C" fn handler(_: libc::c_int) {
    let me = CURRENT.load(Ordering::Relaxed);
    if me != MAIN && !FINISHED.iter().any(|finished| finished.load(Ordering::Relaxed)) {
        ticker::event();
        change(me, 1 - me);
    }
    ticker::resumed();
}

/// Leaves context `from` for context `to`; returns when somebody changes back.
fn change(from: usize, to: usize) {
    CURRENT.store(to, Ordering::Relaxed);
    let load = SAVED[to].load(Ordering::Relaxed);
    // SAFETY: `load` was saved by the last change from `to`, or made by `Stack::start`, and is used
    // once: a context saves a new one before it is changed to again. Called with the signal
    // blocked, or when no handler changes any more, so that nothing comes between.
    unsafe { swap(SAVED[from].as_ptr(), load) }
}

/// Where a hog's context begins.
extern "sysv64" fn enter() -> ! {
    let me = CURRENT.load(Ordering::Relaxed);
    ticker::resumed();
    mask(libc::SIG_UNBLOCK);
    let result = HOG.get().map_or(0, |hog| hog.compute(me));
    RESULTS[me].store(result, Ordering::Relaxed);
    FINISHED[me].store(true, Ordering::Relaxed);
    if FINISHED[1 - me].load(Ordering::Relaxed) {
        mask(libc::SIG_BLOCK);
        change(me, MAIN);
    } else {
        change(me, 1 - me);
    }
    unreachable!("a finished context was changed to");
}

/// Blocks or unblocks the signal for this kernel thread.
fn mask(how: libc::c_int) {
    // SAFETY: the set is initialised before it is used; the calls touch nothing else.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, SIGNAL);
        libc::pthread_sigmask(how, &set, ptr::null_mut());
    }
}

/// Saves the callee-saved registers and the stack pointer, and loads those of another context.
///
/// # Safety
///
/// `load` must be a stack pointer that this function saved, or the start of a context.
#[unsafe(naked)]
unsafe extern "sysv64" fn swap(save: *mut usize, load: usize) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
