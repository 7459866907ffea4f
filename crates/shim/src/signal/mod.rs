//! Signals of the program.
//!
//! A signal mask belongs to a kernel thread, a handler interrupts whatever its kernel thread is
//! doing. Both are wrong for user threads: a masked thread may move, and a handler may find the
//! scheduler in the middle of its work. So the shim does for user threads what the kernel does for
//! its own.
//!
//! * Kernel threads that run user threads block the program's signals, all but the [`OPEN`] ones.
//!   The courier, a kernel thread, takes them from the kernel ([`courier`]).
//! * What is sent is queued here, with all that the kernel tells of it, for the process or for one
//!   thread ([`queue`]). A signal of the process is for the main thread, or, if that blocks it, for
//!   any thread that does not, as in the kernel.
//! * What the program reads from a `signalfd` the kernel keeps ([`file`]).
//! * Masks, actions and alternate stacks are kept here ([`mask`], [`action`], [`altstack`]).
//! * Handlers run on the thread that the signal is for, and nowhere else ([`deliver`]).
//!
//! ```text
//!   another process, a timer, the kernel -> courier --.
//!   kill, sigqueue, raise, pthread_kill --------------+-> queue -> the thread looks up -> handler
//!   OPEN ones -> trampoline -> for this thread: at once   ^
//!                          '-> otherwise: courier         |
//!                 it waits as a user thread: it is woken -+
//!                 it is blocked in the kernel, or computes: a signal of the shim's own to its
//!                 kernel thread, again and again until it has looked up
//! ```
//!
//! In the child of a fork there is nothing of this: handlers and masks are given back to the
//! kernel, until the child makes threads ([`in_child`]).

pub(crate) mod action;
pub(crate) mod altstack;
pub(crate) mod courier;
pub(crate) mod deliver;
mod file;
mod jump;
pub(crate) mod mask;
pub(crate) mod new_image;
pub(crate) mod queue;
pub(crate) mod raw;
pub(crate) mod send;
pub(crate) mod wait;

use crate::state::{self, Thread};
use crate::sys::{self, call};
use crate::vfork;
use core::cell::Cell;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use libc::sigset_t;

pub(crate) const SIGNALS: usize = 64;

pub(crate) const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals of an instruction of the thread itself.
pub(crate) const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGABRT);

/// Signals of a call of the thread itself, which fails.
const OF_CALLS: u64 = bit(libc::SIGPIPE) | bit(libc::SIGXFSZ);

/// Signals that the kernel delivers to kernel threads that run user threads: what these bring about
/// themselves, what terminals look at the mask for, and those of the C library, two of which are
/// the shim's.
const OPEN: u64 =
    FAULTS | OF_CALLS | bit(libc::SIGTTIN) | bit(libc::SIGTTOU) | RESERVED | UNBLOCKABLE;

const RESERVED: u64 = bit(32) | bit(33);
const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// Signals that nobody misses where no action is set.
const HARMLESS: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGURG) | bit(libc::SIGWINCH) | bit(libc::SIGCONT);

/// The signals of a set, in the order of their numbers.
fn signals_of(mut set: u64) -> impl Iterator<Item = c_int> {
    core::iter::from_fn(move || {
        let signal = (set != 0).then(|| set.trailing_zeros() as c_int + 1)?;
        set &= set - 1;
        Some(signal)
    })
}

fn valid(signal: c_int) -> bool {
    (1..=SIGNALS as c_int).contains(&signal)
}

/// The first word of a set: the kernel's signals.
///
/// # Safety
///
/// A valid set.
unsafe fn bits(set: *const sigset_t) -> u64 {
    // SAFETY: the caller's contract.
    unsafe { *set.cast::<u64>() }
}

/// The set of these signals, the inverse of [`bits`].
pub(crate) fn set_of(bits: u64) -> sigset_t {
    // SAFETY: all zeroes are a set, whose first word is the kernel's.
    unsafe {
        let mut set: sigset_t = core::mem::zeroed();
        (&raw mut set).cast::<u64>().write(bits);
        set
    }
}

/// What belongs to a thread. Cells are the thread's own, unless they say otherwise.
pub(crate) struct OfThread {
    /// Signals that it blocks.
    pub(crate) mask: AtomicU64,
    /// For it alone, and still to be delivered.
    pub(crate) pending: queue::Pending,
    /// Those that calls of its own have brought about, and that these have still to deliver.
    brought: AtomicU64,
    /// What it waits for in `sigwait` and its relatives.
    waits_for: AtomicU64,
    /// How many handlers have run on it; and those of them that let no call go on.
    pub(crate) handled: Cell<u32>,
    pub(crate) handled_hard: Cell<u32>,
    /// Depth of sections in which no handler may run on it.
    section: Cell<u32>,
    alternate: Cell<altstack::Alternate>,
    /// The kernel thread that it is, if it is none of the runtime's: in the child of a fork.
    kernel_tid: AtomicI32,
    /// The child of a `vfork`, and what that blocks.
    child: Cell<(c_int, u64)>,
    /// Its place among all threads, and among those that the courier seeks. Under the lock of
    /// [`queue`].
    next: Cell<*const Thread>,
    previous: Cell<*const Thread>,
    next_sought: Cell<*const Thread>,
    is_sought: Cell<bool>,
}

impl OfThread {
    pub(crate) fn new() -> OfThread {
        OfThread {
            mask: AtomicU64::new(0),
            pending: queue::Pending::new(),
            brought: AtomicU64::new(0),
            waits_for: AtomicU64::new(0),
            handled: Cell::new(0),
            handled_hard: Cell::new(0),
            section: Cell::new(0),
            alternate: Cell::new(altstack::Alternate::NONE),
            kernel_tid: AtomicI32::new(0),
            child: Cell::new((0, 0)),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            next_sought: Cell::new(ptr::null()),
            is_sought: Cell::new(false),
        }
    }

    /// A kernel thread of its own, and none of the runtime's? 0: no.
    pub(crate) fn kernel_tid(&self) -> i32 {
        self.kernel_tid.load(Relaxed)
    }

    /// What is for it alone.
    fn own(&self) -> u64 {
        self.pending.bits() | self.brought.load(SeqCst)
    }

    /// May no handler run on the thread now, which is the calling one?
    pub(crate) fn in_section(&self) -> bool {
        self.section.get() != 0
    }
}

/// A section of the calling thread in which no handler runs on it: what has come is delivered
/// later.
pub(crate) struct Section(Option<&'static Thread>);

impl Section {
    pub(crate) fn enter() -> Section {
        let me = state::me_in_handler();
        if let Some(me) = me {
            me.signals.section.set(me.signals.section.get() + 1);
        }
        core::sync::atomic::compiler_fence(SeqCst);
        Section(me)
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        core::sync::atomic::compiler_fence(SeqCst);
        if let Some(me) = self.0 {
            me.signals.section.set(me.signals.section.get() - 1);
        }
    }
}

/// Are signals the shim's affair? Not before the runtime runs, nor in the child of a fork.
static MANAGED: AtomicBool = AtomicBool::new(false);
/// The process of which that is said.
static OWNER: AtomicI32 = AtomicI32::new(0);

pub(crate) fn process() -> c_int {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) as c_int }
}

/// The calling thread, if its signals are the shim's affair.
pub(crate) fn managed() -> Option<&'static Thread> {
    if MANAGED.load(Relaxed) { state::me() } else { None }
}

/// What the kernel has sent the process by a call of the calling thread's is delivered, if that is
/// for it.
pub(crate) fn settle() {
    if let Some(me) = managed() {
        courier::synchronise();
        deliver::deliver_here(me);
    }
}

/// Is this the child of a `vfork`, which has its parent's memory but signals of its own?
pub(crate) fn in_child_of_vfork() -> bool {
    MANAGED.load(Relaxed) && vfork::may_be_child() && OWNER.load(Relaxed) != process()
}

/// Takes the handlers that there are over. Before the runtime starts, which will preempt by
/// `preemption`.
pub(crate) fn prepare(preemption: c_int) {
    deliver::find_code();
    if action::is_replaced() {
        quaver::foreign::preempt::use_alternate_stacks();
    }
    action::take_over(preemption);
}

/// Takes signals over. When the runtime has started, and before the program's threads run on it.
pub(crate) fn start() {
    action::note_runtimes();
    OWNER.store(process(), Relaxed);
    vfork::start();
    courier::start();
    quaver::foreign::preempt::set_stranger(courier::take_stranger);
    MANAGED.store(true, Release);
}

/// The calling kernel thread, which is the process's first one, will [wait](wait_for_ever) for what
/// others send.
pub(crate) fn will_wait() {
    courier::is_coming();
}

/// Takes what others send, for ever, on the process's first kernel thread: as the courier, or,
/// where there is one already, the preemption signal, for which the kernel prefers that thread. On
/// a worker each would be a frame on the stack of whatever it interrupts, and one that comes fast
/// enough is delivered on top of the last.
pub(crate) fn wait_for_ever() -> ! {
    if !courier::is_running() {
        courier::carry();
    }
    let signal = action::preemption();
    loop {
        if let Some(mut info) = courier::wait_for_kernels(bit(signal), None)
            && info.si_signo == signal
        {
            // SAFETY: complete, from the kernel.
            unsafe { courier::take_stranger(&raw mut info) };
        }
    }
}

/// What the runtime's kernel threads block. Those that run user threads open the runtime's own
/// signal.
pub(crate) const fn of_runtime() -> u64 {
    !OPEN
}

/// Sets what the calling kernel thread blocks; returns what it blocked.
///
/// # Safety
///
/// What it blocks is the caller's to say.
pub(crate) unsafe fn set_kernel_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: complete sets of the kernel's size.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [
                libc::SIG_SETMASK as usize,
                &raw const mask as usize,
                &raw mut before as usize,
                8,
                0,
                0,
            ],
        );
    }
    before
}

/// Runs `f`, during which the calling kernel thread blocks `mask`.
///
/// # Safety
///
/// As [`set_kernel_mask`]; and `f` ends on the kernel thread where it begins.
pub(crate) unsafe fn with_kernel_mask<R>(mask: u64, f: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's contract.
    let before = unsafe { set_kernel_mask(mask) };
    let r = f();
    // SAFETY: as it was.
    unsafe { set_kernel_mask(before) };
    r
}

/// In the child of a fork: nothing is pending, nobody holds a lock, and its only thread is a kernel
/// thread, whose signals are the kernel's affair.
pub(crate) fn in_child() {
    let was_managed = MANAGED.swap(false, Relaxed);
    queue::in_child();
    courier::in_child();
    let Some(me) = state::me() else { return };
    if was_managed {
        me.signals.section.set(0);
        me.signals.waits_for.store(0, Relaxed);
        me.signals.kernel_tid.store(sys::kernel_tid(), Relaxed);
        action::give_back();
        altstack::give_back(me);
        // SAFETY: what the thread blocks.
        unsafe { set_kernel_mask(me.signals.mask.load(Relaxed)) };
    }
}
