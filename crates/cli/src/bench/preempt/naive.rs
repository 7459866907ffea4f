//! The naive way to preempt: switch contexts inside the signal handler, return through
//! `rt_sigreturn` later.
//!
//! One context for each thread, with a stack, and the kernel thread's own stack as the last. The
//! handler saves the callee-saved registers on the stack that it interrupted, changes to the next
//! unfinished context's stack and returns from *that* context's earlier call, into that context's
//! handler, which returns into `rt_sigreturn`. Everything else (all other registers, vector state,
//! flags, the signal mask) lies in the signal frames that the kernel made.
//!
//! # States
//!
//! `CURRENT` is the context that runs. The handler switches while another thread is unfinished.
//! The signal is blocked in handlers (the kernel does that), and while the kernel thread's own
//! context runs; a thread unblocks it when it starts, and blocks it when it has finished. Then it
//! is never chosen again, and changes to the next by itself.

use std::arch::naked_asm;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;

use super::crew::Crew;
use super::measure::{Done, timed};
use super::ticker::{self, SIGNAL, Source, Ticker};

/// Enough for a thread and a signal frame with AVX-512 state, many times over.
const STACK_WORDS: usize = 32 * 1024;

/// The contexts of this process; the last is the kernel thread's own.
static CONTEXTS: OnceLock<Contexts> = OnceLock::new();
static CURRENT: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Contexts {
    crew: &'static Crew,
    all: Vec<Context>,
}

#[derive(Default)]
struct Context {
    /// The stack pointer while it does not run.
    saved: AtomicUsize,
    finished: AtomicBool,
    result: AtomicU64,
}

impl Contexts {
    fn of_this_process() -> &'static Contexts {
        CONTEXTS.get().expect("made before the first context runs")
    }

    /// The unfinished thread after `me`, round robin; `me` itself if there is no other.
    fn next(&self, me: usize) -> usize {
        let threads = self.crew.len();
        let others = (1..threads).map(|i| (me + i) % threads);
        let mut unfinished = others.filter(|&other| !self.all[other].finished.load(Relaxed));
        unfinished.next().unwrap_or(me)
    }

    /// Leaves context `from` for context `to`; returns when somebody changes back.
    fn change(&self, from: usize, to: usize) {
        CURRENT.store(to, Relaxed);
        let load = self.all[to].saved.load(Relaxed);
        // SAFETY: `load` was saved by the last change from `to`, or made by `Stack::start`, and is
        // used once: a context saves a new one before it is changed to again. Called with the
        // signal blocked, so that nothing comes between.
        unsafe { swap(self.all[from].saved.as_ptr(), load) }
    }
}

/// Runs the threads as contexts on the calling kernel thread. Once in a process.
pub fn run(
    crew: &'static Crew,
    source: Source,
    quantum: Duration,
    helper_cpu: Option<usize>,
) -> anyhow::Result<Done> {
    let main = crew.len();
    let all = (0..=main).map(|_| Context::default()).collect();
    ensure!(CONTEXTS.set(Contexts { crew, all }).is_ok(), "this process has measured before");
    let contexts = Contexts::of_this_process();
    let stacks: Vec<_> = (0..main).map(|_| Stack::new()).collect();
    for (stack, context) in stacks.iter().zip(&contexts.all) {
        context.saved.store(stack.start(), Relaxed);
    }
    ticker::install(handler)?;
    mask(libc::SIG_BLOCK);
    let ticker = Ticker::start(source, quantum, helper_cpu)?;
    let before = ticker::events();
    let ((), took) = timed(|| contexts.change(main, 0))?;
    let events = ticker::events() - before;
    drop(ticker);
    // Nothing runs on them any more, and the signal stays blocked on this thread.
    drop(stacks);
    let results = contexts.all[..main].iter().map(|context| context.result.load(Relaxed));
    Ok(Done { results: results.collect(), events, took })
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
    let (contexts, me) = (Contexts::of_this_process(), CURRENT.load(Relaxed));
    let next = contexts.next(me);
    if next != me {
        ticker::event();
        contexts.change(me, next);
    }
    ticker::resumed();
}

/// Where a thread's context begins, with the signal blocked.
extern "sysv64" fn enter() -> ! {
    let (contexts, me) = (Contexts::of_this_process(), CURRENT.load(Relaxed));
    ticker::resumed();
    mask(libc::SIG_UNBLOCK);
    let result = contexts.crew.compute(me);
    mask(libc::SIG_BLOCK);
    contexts.all[me].result.store(result, Relaxed);
    contexts.all[me].finished.store(true, Relaxed);
    let next = contexts.next(me);
    ticker::resumed();
    contexts.change(me, if next == me { contexts.crew.len() } else { next });
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
