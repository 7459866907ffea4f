//! What the program wants done about each signal.
//!
//! The kernel is told of it too: `SIG_IGN` and `SIG_DFL` are inherited and say what becomes of
//! children, and in place of a handler it gets [`deliver::trampoline`], which is reached by
//! [`OPEN`](super::OPEN) signals only. Of the preemption signal the kernel keeps the runtime's
//! action, which hands on what others send.

use super::{
    FAULTS, HARMLESS, OPEN, SIGNALS, bit, bits, courier, deliver, managed, queue, set_of,
    signals_of, valid,
};
use crate::real::real;
use crate::{state, sys};
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use libc::{sigaction as action, sigset_t};

/// Handler (or `SIG_DFL`, `SIG_IGN`) and flags. Changed under the lock of [`queue`].
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static FLAGS: [AtomicU32; SIGNALS] = [const { AtomicU32::new(0) }; SIGNALS];
/// `sa_mask`.
static MASKS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
/// Signals for which the kernel has the trampoline.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Open signals that some thread has blocked at some time: they must not reach the kernel's default
/// action.
static BLOCKED_ONCE: AtomicU64 = AtomicU64::new(0);
/// The signal by which the runtime preempts.
static PREEMPTION: AtomicI32 = AtomicI32::new(0);
/// `SIGINT` and `SIGQUIT` are ignored while somebody is in `system`.
static IN_SYSTEM: AtomicU32 = AtomicU32::new(0);

/// What is to be done about a signal.
#[derive(Clone, Copy)]
pub(super) struct Action {
    pub(super) handler: usize,
    pub(super) flags: c_int,
    pub(super) mask: u64,
}

impl Action {
    /// A handler, and none of the two constants?
    pub(super) fn is_handler(self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    /// Does nothing happen?
    pub(super) fn is_nothing(self, signal: c_int) -> bool {
        self.handler == libc::SIG_IGN
            || self.handler == libc::SIG_DFL && HARMLESS & bit(signal) != 0
    }
}

/// What is to be done about `signal`. For faults without the lock, else with it.
pub(super) fn of(signal: c_int) -> Action {
    let i = signal as usize - 1;
    let ignored = IN_SYSTEM.load(Relaxed) != 0 && matches!(signal, libc::SIGINT | libc::SIGQUIT);
    Action {
        handler: if ignored { libc::SIG_IGN } else { HANDLERS[i].load(Relaxed) },
        flags: FLAGS[i].load(Relaxed) as c_int,
        mask: MASKS[i].load(Relaxed),
    }
}

/// The handler has been chosen to run, and wanted to do so once.
pub(super) fn reset(signal: c_int) {
    HANDLERS[signal as usize - 1].store(libc::SIG_DFL, Relaxed);
}

/// From now on `SIGINT` and `SIGQUIT` are ignored, or, the last time, no longer. Returns those that
/// the program ignores.
pub(crate) fn enter_system(enter: bool) -> u64 {
    if enter {
        IN_SYSTEM.fetch_add(1, SeqCst);
    } else {
        IN_SYSTEM.fetch_sub(1, SeqCst);
    }
    let ignored = |s: c_int| HANDLERS[s as usize - 1].load(Relaxed) == libc::SIG_IGN;
    [libc::SIGINT, libc::SIGQUIT].into_iter().filter(|&s| ignored(s)).map(bit).sum()
}

/// The kernel's action.
fn get_kernels(signal: c_int) -> Option<action> {
    // SAFETY: an all-zero action, filled by the C library.
    unsafe {
        let mut now: action = core::mem::zeroed();
        let r = real!(sigaction(signal => c_int, ptr::null() => *const action,
            &raw mut now => *mut action) -> c_int);
        (r == 0).then_some(now)
    }
}

fn set_kernels(signal: c_int, new: &action) -> c_int {
    // SAFETY: a complete action.
    unsafe {
        real!(sigaction(signal => c_int, &raw const *new => *const action,
            ptr::null_mut() => *mut action) -> c_int)
    }
}

/// Gives the kernel the trampoline.
fn take(signal: c_int, flags: c_int) -> c_int {
    TAKEN.fetch_or(bit(signal), Relaxed);
    let mut kernels = flags & (libc::SA_RESTART | libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT);
    kernels |= quaver::foreign::preempt::action_flag();
    if FAULTS & bit(signal) != 0 {
        // Perhaps the stack is what is wrong. Elsewhere a handler must be able to wait.
        kernels |= libc::SA_ONSTACK;
    }
    // SAFETY: all zeroes are an action.
    let mut ours: action = unsafe { core::mem::zeroed() };
    ours.sa_sigaction = deliver::trampoline as *const () as usize;
    ours.sa_flags = kernels | libc::SA_SIGINFO | libc::SA_NODEFER;
    set_kernels(signal, &ours)
}

fn remember(signal: c_int, new: &action) {
    let i = signal as usize - 1;
    HANDLERS[i].store(new.sa_sigaction, Relaxed);
    FLAGS[i].store(new.sa_flags as u32, Relaxed);
    // SAFETY: a valid set.
    MASKS[i].store(unsafe { bits(&new.sa_mask) }, Relaxed);
}

/// What is remembered, as the program set it.
fn remembered(signal: c_int) -> action {
    let i = signal as usize - 1;
    action {
        sa_sigaction: HANDLERS[i].load(Relaxed),
        sa_mask: set_of(MASKS[i].load(Relaxed)),
        sa_flags: FLAGS[i].load(Relaxed) as c_int,
        sa_restorer: None,
    }
}

/// Signals whose actions are the program's to set.
fn settable(signal: c_int) -> bool {
    valid(signal) && !matches!(signal, libc::SIGKILL | libc::SIGSTOP | 32 | 33)
}

/// Handlers that the runtime has installed for itself, or 0.
static RUNTIMES: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// The handlers that the program has installed so far are called by the shim from now on. Before
/// the runtime installs its own.
pub(super) fn take_over(preemption: c_int) {
    PREEMPTION.store(preemption, Relaxed);
    for signal in (1..=SIGNALS as c_int).filter(|&s| settable(s)) {
        let Some(now) = get_kernels(signal) else { continue };
        let runtimes = RUNTIMES[signal as usize - 1].load(Relaxed);
        // Perhaps this is the child of a fork, and it is the parent's.
        if runtimes != 0 && runtimes == now.sa_sigaction {
            continue;
        }
        remember(signal, &now);
        if signal == preemption {
            // The runtime refuses to take one that the program handles.
            // SAFETY: all zeroes are an action.
            set_kernels(signal, &unsafe { core::mem::zeroed() });
            TAKEN.fetch_or(bit(signal), Relaxed);
        } else if of(signal).is_handler() {
            take(signal, now.sa_flags);
        }
    }
}

/// Whatever is not as [`take_over`] has left it is the runtime's.
pub(super) fn note_runtimes() {
    let trampoline = deliver::trampoline as *const () as usize;
    for signal in (1..=SIGNALS as c_int).filter(|&s| settable(s)) {
        let i = signal as usize - 1;
        let left = if of(signal).is_handler() { trampoline } else { of(signal).handler };
        if let Some(now) = get_kernels(signal)
            && now.sa_sigaction != left
        {
            RUNTIMES[i].store(now.sa_sigaction, Relaxed);
        }
    }
}

/// The kernel calls handlers from now on.
pub(super) fn give_back() {
    let taken = TAKEN.swap(0, Relaxed);
    for signal in (1..=SIGNALS as c_int).filter(|&s| taken & bit(s) != 0) {
        set_kernels(signal, &remembered(signal));
    }
    BLOCKED_ONCE.store(0, Relaxed);
    IN_SYSTEM.store(0, Relaxed);
}

/// See [`PREEMPTION`].
pub(super) fn preemption() -> c_int {
    PREEMPTION.load(Relaxed)
}

/// Some thread blocks `set`: open signals of it must not reach the kernel's default action any
/// more.
pub(super) fn are_blocked(set: u64) {
    let open = set & OPEN & !super::RESERVED & !super::UNBLOCKABLE;
    for signal in signals_of(open & !BLOCKED_ONCE.fetch_or(open, SeqCst)) {
        let _locked = queue::locked();
        let Some(now) = get_kernels(signal) else { continue };
        if TAKEN.load(Relaxed) & bit(signal) == 0 && now.sa_sigaction == libc::SIG_DFL {
            take(signal, libc::SA_RESTART);
        }
    }
}

/// The kernel's part in the action that has been remembered.
fn tell_kernel(signal: c_int, new: &action) {
    if of(signal).is_handler() || BLOCKED_ONCE.load(Relaxed) & bit(signal) != 0 {
        take(signal, new.sa_flags);
    } else {
        TAKEN.fetch_and(!bit(signal), Relaxed);
        set_kernels(signal, new);
    }
}

/// [`sigaction`], which a program may have replaced by one of its own.
///
/// # Safety
///
/// As there.
unsafe fn change(signal: c_int, new: *const action, old: *mut action) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if state::internal()
            || managed().is_none()
            || !settable(signal)
            || super::in_child_of_vfork()
        {
            return real!(sigaction(signal => c_int, new => *const action, old => *mut action)
                -> c_int);
        }
        let new = new.as_ref().copied();
        if new.is_some() && of(signal).is_nothing(signal) {
            // What has been sent until now is ignored.
            courier::synchronise();
        }
        let locked = queue::locked();
        let before = remembered(signal);
        if let Some(new) = new {
            remember(signal, &new);
            let action = of(signal);
            if signal != preemption() {
                tell_kernel(signal, &new);
            }
            if action.is_nothing(signal) {
                queue::PROCESS.discard(&locked, bit(signal));
                queue::find(&locked, |t| {
                    t.signals.pending.discard(&locked, bit(signal));
                    false
                });
            }
        }
        drop(locked);
        if !old.is_null() {
            old.write(before);
        }
        0
    }
}

/// See `sigaction(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const action, old: *mut action) -> c_int {
    // SAFETY: handed on.
    unsafe { change(signal, new, old) }
}

/// `sigaction` under another name, by which programs with one of their own, as Erlang, call it.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sigaction(signal: c_int, new: *const action, old: *mut action) -> c_int {
    // SAFETY: handed on.
    unsafe { change(signal, new, old) }
}

/// Has the program a `sigaction` of its own? It adds `SA_ONSTACK` there, as Erlang does, whose
/// compiled code has its heap below the stack pointer.
pub(super) fn is_replaced() -> bool {
    let library = |address: *const c_void| {
        // SAFETY: any bytes are a value.
        let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: room for the answer.
        (unsafe { libc::dladdr(address, &raw mut info) } != 0).then_some(info.dli_fbase)
    };
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"sigaction".as_ptr()) };
    // The address of `sigaction` here may be that of the program's.
    library(found) != library(take as *const c_void)
}

/// Sets a handler with these flags; the one before, or `SIG_ERR`.
fn set(number: c_int, handler: usize, flags: c_int) -> usize {
    // SAFETY: complete actions.
    unsafe {
        let (mut new, mut old): (action, action) = core::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        if number < 1 || handler == libc::SIG_ERR {
            sys::set_errno(libc::EINVAL);
            return libc::SIG_ERR;
        }
        if change(number, &new, &mut old) != 0 { libc::SIG_ERR } else { old.sa_sigaction }
    }
}

/// See `signal(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn signal(number: c_int, handler: usize) -> usize {
    set(number, handler, libc::SA_RESTART)
}

/// `signal` under another name.
#[unsafe(no_mangle)]
pub extern "C" fn bsd_signal(number: c_int, handler: usize) -> usize {
    set(number, handler, libc::SA_RESTART)
}

/// `signal` under another name.
#[unsafe(no_mangle)]
pub extern "C" fn ssignal(number: c_int, handler: usize) -> usize {
    set(number, handler, libc::SA_RESTART)
}

/// See `sysv_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn sysv_signal(number: c_int, handler: usize) -> usize {
    set(number, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

/// What `signal` becomes for programs that ask for System V's.
#[unsafe(no_mangle)]
pub extern "C" fn __sysv_signal(number: c_int, handler: usize) -> usize {
    set(number, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

/// See `sigignore(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn sigignore(number: c_int) -> c_int {
    if set(number, libc::SIG_IGN, 0) == libc::SIG_ERR { -1 } else { 0 }
}

/// See `siginterrupt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn siginterrupt(number: c_int, interrupt: c_int) -> c_int {
    // SAFETY: complete actions.
    unsafe {
        let mut now: action = core::mem::zeroed();
        if change(number, ptr::null(), &mut now) != 0 {
            return -1;
        }
        if interrupt != 0 {
            now.sa_flags &= !libc::SA_RESTART;
        } else {
            now.sa_flags |= libc::SA_RESTART;
        }
        change(number, &now, ptr::null_mut())
    }
}

/// See `sigset(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn sigset(number: c_int, disposition: usize) -> usize {
    const SIG_HOLD: usize = 2;
    if !settable(number) {
        sys::set_errno(libc::EINVAL);
        return libc::SIG_ERR;
    }
    // SAFETY: complete sets and actions.
    unsafe {
        let (mut one, mut before): (sigset_t, sigset_t) = core::mem::zeroed();
        let mut old: action = core::mem::zeroed();
        libc::sigaddset(&mut one, number);
        let how = if disposition == SIG_HOLD {
            change(number, ptr::null(), &mut old);
            libc::SIG_BLOCK
        } else {
            old.sa_sigaction = set(number, disposition, 0);
            libc::SIG_UNBLOCK
        };
        super::mask::sigprocmask(how, &one, &mut before);
        if bits(&before) & bit(number) != 0 { SIG_HOLD } else { old.sa_sigaction }
    }
}
