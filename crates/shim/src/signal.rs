//! Signals of the program.
//!
//! A signal mask belongs to a kernel thread, a handler interrupts whatever its kernel thread is doing. Both are wrong for user
//! threads: a masked thread may move, and a handler may find the scheduler in the middle of its work. So
//!
//! * masks are kept in the shim ([`Thread::mask`]) and the kernel is told of none;
//! * every handler, and every signal that somebody has blocked, goes to [`trampoline`], which decides what becomes of it.
//!
//! ```text
//!   signal -> trampoline: a fault; or it is for this thread or this is the main thread, which allows it, and
//!                         in its own code                -> handler, at once
//!                         otherwise                      -> pending
//!   pending -> courier (a kernel thread), if the main thread allows it
//!                 main thread blocked in the kernel      -> its call is interrupted, the handler runs on it, EINTR
//!                 otherwise                              -> handler on a thread made for it; main's sleep ends
//!              the main thread blocks it                 -> stays pending: for sigwait, or for whoever unblocks it
//!   pthread_kill -> pending for the thread; the courier seeks it until it has taken it: it wakes it where it waits, makes the
//!                 kernel interrupt it where it is blocked, and sends a signal to the kernel thread that runs it
//! ```
//!
//! The kernel changes no mask for a handler (`SA_NODEFER`), so a handler may be preempted and go on elsewhere like any code. It
//! runs with the shim's mask of the thread changed. A handler that leaves by `siglongjmp` leaves that mask as it is.

use crate::exec;
use crate::interrupt::{self, Call};
use crate::real::real;
use crate::state::{self, Thread};
use crate::sys::{self, call};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use libc::{pthread_t, sigaction as action, siginfo_t, sigset_t, timespec};
use quaver::foreign::futex::{self, Deadline, End, Limits};
use quaver::foreign::{lock, region};
use std::time::Duration;

const SIGNALS: usize = 64;

/// What the program wants done: handler (or `SIG_DFL`, `SIG_IGN`) and flags.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static FLAGS: [AtomicU32; SIGNALS] = [const { AtomicU32::new(0) }; SIGNALS];
/// `sa_mask`.
static MASKS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
/// Signals that go to `trampoline`.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Pending signals of the process.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// Incremented when `PENDING` gains a signal: a futex word, for the courier and for `sigwait`.
static NEWS: AtomicU32 = AtomicU32::new(0);
/// Threads that the courier seeks, which holds a reference to each.
static SOUGHT: Sought = Sought(UnsafeCell::new(Vec::new()));
static SOUGHT_GUARD: AtomicU32 = AtomicU32::new(lock::FREE);

struct Sought(UnsafeCell<Vec<&'static Thread>>);

// SAFETY: under `SOUGHT_GUARD`.
unsafe impl Sync for Sought {}

/// Guards dispositions.
static GUARD: AtomicU32 = AtomicU32::new(0);

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals of an instruction of the thread itself.
const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGABRT);

fn valid(signal: c_int) -> bool {
    (1..=SIGNALS as c_int).contains(&signal)
}

/// Starts the courier.
pub(crate) fn start() {
    state::set_internal(true);
    let courier = std::thread::Builder::new().name("quaver-keeper".into()).stack_size(128 * 1024);
    if let Err(e) = courier.spawn(carry) {
        crate::say::fatal(format_args!("cannot start a kernel thread: {e}"));
    }
    state::set_internal(false);
}

/// In the child of a fork: nothing is pending, and nobody holds a lock.
pub(crate) fn in_child() {
    PENDING.store(0, Relaxed);
    GUARD.store(0, Relaxed);
    SOUGHT_GUARD.store(lock::FREE, Relaxed);
    // SAFETY: there is no other thread. What the parent was doing to the list is not known, so it is not freed.
    unsafe { SOUGHT.0.get().write(Vec::new()) };
}

/// Where the kernel sends the program's signals.
unsafe extern "C" fn trampoline(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = sys::saved_errno();
    // SAFETY: the kernel filled `info`.
    let code = unsafe { (*info).si_code };
    let fault = FAULTS & bit(signal) != 0 && code > 0;
    let here = state::me_in_handler().is_some_and(|me| {
        let main = state::main_thread().is_some_and(|main| core::ptr::eq(main, me));
        (main || code == libc::SI_TKILL) && me.mask.load(Relaxed) & bit(signal) == 0
    });
    // A handler may be left by a jump.
    let may_leave = !region::in_runtime() && !region::must_end(interrupted_at(context));
    if fault || here && may_leave {
        // SAFETY: the kernel's arguments.
        unsafe { handle(signal, info, context) };
        state::me_in_handler().inspect(|me| handled_in_the_middle(me));
    } else {
        PENDING.fetch_or(bit(signal), SeqCst);
        tell_courier();
    }
    sys::set_errno(errno);
}

/// A handler has run in the middle of whatever `me` was doing. It may be about to wait, with no further look at what has
/// happened.
fn handled_in_the_middle(me: &Thread) {
    if me.call.load(Relaxed) != 0 {
        if interrupt::is_stuck(me) {
            tell_courier();
        } else if !region::in_runtime() {
            me.interrupt();
        }
    }
}

/// On `me`, which a signal of the shim's has interrupted: runs the handlers of signals for it alone.
pub(crate) fn deliver_here(me: &Thread) {
    if deliver(me, 0) {
        handled_in_the_middle(me);
    }
}

/// From now on the courier seeks `t`, until there is nothing any more that it should look up for.
pub(crate) fn seek(t: &'static Thread) {
    t.references.fetch_add(1, Relaxed);
    lock::lock(&SOUGHT_GUARD, &Limits::NONE);
    // SAFETY: the lock is held.
    unsafe { (*SOUGHT.0.get()).push(t) };
    lock::unlock(&SOUGHT_GUARD);
    tell_courier();
}

/// Should it look up?
fn is_sought(t: &Thread) -> bool {
    let due = t.pending.load(Acquire) & !t.mask.load(Acquire) != 0 || t.is_cancelled_anywhere();
    due && t.ended.load(Acquire) == 0
}

/// Makes those who are sought look up, and forgets those who need not any more. `false`: nobody is sought.
fn seek_all() -> bool {
    lock::lock(&SOUGHT_GUARD, &Limits::NONE);
    // SAFETY: the lock is held.
    let all = unsafe { core::mem::take(&mut *SOUGHT.0.get()) };
    lock::unlock(&SOUGHT_GUARD);
    let (sought, found): (Vec<_>, Vec<_>) = all.into_iter().partition(|t| is_sought(t));
    found.into_iter().for_each(Thread::release);
    for t in &sought {
        t.interrupt();
        crate::cancel::kick_anywhere(t);
    }
    let any = !sought.is_empty();
    lock::lock(&SOUGHT_GUARD, &Limits::NONE);
    // SAFETY: the lock is held.
    unsafe { (*SOUGHT.0.get()).extend(sought) };
    lock::unlock(&SOUGHT_GUARD);
    any
}

/// The address of the instruction that a handler has interrupted.
pub(crate) fn interrupted_at(context: *mut c_void) -> usize {
    // SAFETY: the kernel's third argument to a handler.
    unsafe {
        (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize
    }
}

fn tell_courier() {
    NEWS.fetch_add(1, SeqCst);
    // The raw call: whoever is interrupted here may hold a list of waiters.
    // SAFETY: wakes by address.
    unsafe { call(libc::SYS_futex, [NEWS.as_ptr() as usize, 129, i32::MAX as usize, 0, 0, 0]) };
}

/// Does what the program wants done about a signal, on the calling thread. `true`: a handler has run.
unsafe fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    let i = signal as usize - 1;
    let handler = HANDLERS[i].load(Acquire);
    let flags = FLAGS[i].load(Relaxed) as c_int;
    match handler {
        libc::SIG_IGN => false,
        libc::SIG_DFL => {
            default(signal);
            false
        }
        _ => {
            if flags & libc::SA_RESETHAND != 0 {
                HANDLERS[i].store(libc::SIG_DFL, Relaxed);
            }
            let me = state::me();
            let call = me.map_or(0, |me| me.call.load(SeqCst));
            let before = me.map(|me| {
                let own = if flags & libc::SA_NODEFER != 0 { 0 } else { bit(signal) };
                me.mask.fetch_or(own | MASKS[i].load(Relaxed), SeqCst)
            });
            // SAFETY: installed by the program for this signal.
            unsafe {
                if flags & libc::SA_SIGINFO != 0 {
                    let f: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                        core::mem::transmute(handler);
                    f(signal, info, context);
                } else {
                    let f: unsafe extern "C" fn(c_int) = core::mem::transmute(handler);
                    f(signal);
                }
            }
            if let (Some(me), Some(before)) = (me, before) {
                me.mask.store(before, SeqCst);
                // A handler that left a call of its own by a jump has not ended it.
                me.call.store(call, SeqCst);
                me.broken.store(call, SeqCst);
                deliver_pending(me);
            }
            true
        }
    }
}

/// What the kernel does when nobody has said otherwise.
fn default(signal: c_int) {
    if matches!(signal, libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT) {
        return;
    }
    // SAFETY: a complete action; the signal comes again, unblocked, and does what it does.
    unsafe {
        let mut dfl: action = core::mem::zeroed();
        dfl.sa_sigaction = libc::SIG_DFL;
        real!(sigaction(signal => c_int, &raw const dfl => *const action, core::ptr::null_mut() => *mut action) -> c_int);
        let bits = bit(signal);
        call(
            libc::SYS_rt_sigprocmask,
            [libc::SIG_UNBLOCK as usize, &raw const bits as usize, 0, 8, 0, 0],
        );
        let pid = call(libc::SYS_getpid, [0; 6]) as usize;
        call(libc::SYS_tgkill, [pid, sys::kernel_tid() as usize, signal as usize, 0, 0, 0]);
    }
}

/// Runs the handlers of pending signals that `me` allows. On `me`. As in the kernel, the process's signals are for the main
/// thread, whose call they may interrupt, unless it blocks them.
pub(crate) fn deliver_pending(me: &Thread) {
    let for_others = state::main_thread()
        .map_or(!0, |main| if core::ptr::eq(main, me) { !0 } else { main.mask.load(SeqCst) });
    deliver(me, for_others);
}

/// [`deliver_pending`]; of the process's signals only `of_process`. `true`: a handler has run.
fn deliver(me: &Thread, of_process: u64) -> bool {
    let mut ran = false;
    let allowed = !me.mask.load(Relaxed);
    for (set, allowed) in [(&me.pending, allowed), (&PENDING, allowed & of_process)] {
        while set.load(Relaxed) & allowed != 0 {
            let signal = (set.load(Relaxed) & allowed).trailing_zeros() as c_int + 1;
            if set.fetch_and(!bit(signal), AcqRel) & bit(signal) != 0 {
                let mut info = synthetic(signal);
                // SAFETY: complete; there is no interrupted context.
                ran |= unsafe { handle(signal, &mut info, core::ptr::null_mut()) };
            }
        }
    }
    ran
}

fn synthetic(signal: c_int) -> siginfo_t {
    // SAFETY: a plain structure.
    let mut info: siginfo_t = unsafe { core::mem::zeroed() };
    info.si_signo = signal;
    info
}

/// The courier.
fn carry() {
    loop {
        let news = NEWS.load(Acquire);
        // Whoever is in the middle of something may be out of it by then, and take it.
        crate::time::nap();
        while carry_one() {}
        if let Some(main) = state::main_thread() {
            while interrupt::is_stuck(main) {
                crate::cancel::kick(main);
                crate::time::nap();
            }
        }
        if seek_all() {
            // It may be waiting for its turn, or for a lock.
            let limits = Limits { deadline: Some(Deadline::after(SEEK_AGAIN)), ..Limits::NONE };
            futex::wait(&NEWS, news, &limits);
        } else {
            futex::wait(&NEWS, news, &Limits::NONE);
        }
    }
}

/// Between two looks at those who are sought.
const SEEK_AGAIN: Duration = Duration::from_micros(200);

/// Finds somebody for one pending signal.
fn carry_one() -> bool {
    let pending = PENDING.load(Acquire);
    let main = state::main_thread();
    let main_allows = main.map_or(!0, |m| !m.mask.load(Relaxed));
    let takable = pending & main_allows;
    if takable == 0 {
        return false;
    }
    if let Some(main) = main
        && main.blocked_in.load(Acquire) != 0
    {
        // `deliver_pending` in its waiting loop.
        crate::cancel::kick(main);
        for _ in 0..20 {
            if PENDING.load(Acquire) & takable == 0 {
                return true;
            }
            crate::time::nap();
        }
    }
    // A thread made for it.
    let deliver = move || {
        let t = Thread::new(nothing, core::ptr::null_mut(), 1);
        let t: &'static Thread = Box::leak(Box::new(t));
        state::set_me(t);
        // Only the call that main is in now is interrupted, not one that it begins when the handler has had its effects.
        let call = main.map_or(0, |main| main.call.load(SeqCst));
        let ran = deliver(t, !0);
        // What a handler of C may have left.
        quaver::foreign::thread::run_tls_destructors();
        if let Some(main) = main
            && ran
            && call != 0
        {
            main.broken.store(call, SeqCst);
            main.interrupt();
        }
    };
    match quaver::foreign::thread::spawn(None, deliver) {
        Ok((handle, _)) => handle.join().is_ok(),
        Err(_) => false,
    }
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void) -> *mut c_void {
    core::ptr::null_mut()
}

/// Sends `signal` to `trampoline` from now on.
unsafe fn take(signal: c_int, flags: c_int) -> c_int {
    TAKEN.fetch_or(bit(signal), Relaxed);
    // SAFETY: a complete action.
    unsafe {
        let mut ours: action = core::mem::zeroed();
        ours.sa_sigaction = trampoline as *const () as usize;
        ours.sa_flags = flags | libc::SA_SIGINFO | libc::SA_NODEFER;
        real!(sigaction(signal => c_int, &raw const ours => *const action, core::ptr::null_mut() => *mut action) -> c_int)
    }
}

/// See `sigaction(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const action, old: *mut action) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let ours = state::internal() || state::main_thread().is_none();
        if ours || !valid(signal) || matches!(signal, libc::SIGKILL | libc::SIGSTOP | 32 | 33) {
            return real!(sigaction(signal => c_int, new => *const action, old => *mut action) -> c_int);
        }
        let i = signal as usize - 1;
        let mut before: action = core::mem::zeroed();
        lock::lock(&GUARD, &Limits::NONE);
        let mut r = real!(sigaction(signal => c_int, core::ptr::null() => *const action, &raw mut before => *mut action) -> c_int);
        if r == 0 && TAKEN.load(Relaxed) & bit(signal) != 0 {
            before.sa_sigaction = HANDLERS[i].load(Relaxed);
            before.sa_flags = FLAGS[i].load(Relaxed) as c_int;
            libc::sigemptyset(&mut before.sa_mask);
            (&raw mut before.sa_mask).cast::<u64>().write(MASKS[i].load(Relaxed));
        }
        if r == 0
            && let Some(new) = new.as_ref()
        {
            let (handler, flags) = (new.sa_sigaction, new.sa_flags);
            HANDLERS[i].store(handler, Relaxed);
            FLAGS[i].store(flags as u32, Relaxed);
            MASKS[i].store(bits(&new.sa_mask), Relaxed);
            // SIG_IGN and SIG_DFL are the kernel's affair, unless somebody may have blocked the signal.
            if (handler == libc::SIG_DFL || handler == libc::SIG_IGN)
                && BLOCKED_ONCE.load(Relaxed) & bit(signal) == 0
            {
                TAKEN.fetch_and(!bit(signal), Relaxed);
                r = real!(sigaction(signal => c_int, new => *const action, core::ptr::null_mut() => *mut action) -> c_int);
            } else {
                let mut kernels = libc::SA_RESTART | libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT;
                if FAULTS & bit(signal) != 0 {
                    // Perhaps the stack is what is wrong. Elsewhere a handler must be able to wait.
                    kernels |= libc::SA_ONSTACK;
                }
                r = take(signal, flags & kernels);
            }
        }
        lock::unlock(&GUARD);
        if r == 0 && !old.is_null() {
            old.write(before);
        }
        r
    }
}

/// Signals that some thread has blocked at some time.
static BLOCKED_ONCE: AtomicU64 = AtomicU64::new(0);

/// See `signal(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: usize) -> usize {
    // SAFETY: complete actions.
    unsafe {
        let (mut new, mut old): (action, action) = core::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        if sigaction(number, &new, &mut old) != 0 { libc::SIG_ERR } else { old.sa_sigaction }
    }
}

/// The first word of a set: the kernel's signals.
unsafe fn bits(set: *const sigset_t) -> u64 {
    // SAFETY: the caller's contract.
    unsafe { *set.cast::<u64>() }
}

/// See `pthread_sigmask(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(me) = state::me() else {
            return real!(pthread_sigmask(how => c_int, new => *const sigset_t, old => *mut sigset_t) -> c_int);
        };
        let before = me.mask.load(Relaxed);
        if !new.is_null() {
            // Neither what cannot be blocked nor what the runtime needs.
            let set = bits(new) & !(bit(libc::SIGKILL) | bit(libc::SIGSTOP) | bit(32) | bit(33));
            let after = match how {
                libc::SIG_BLOCK => before | set,
                libc::SIG_UNBLOCK => before & !set,
                libc::SIG_SETMASK => set,
                _ => return libc::EINVAL,
            };
            me.mask.store(after, SeqCst);
            let fresh =
                after & !BLOCKED_ONCE.fetch_or(after, SeqCst) & !FAULTS & !bit(libc::SIGURG);
            let mut rest = fresh & !TAKEN.load(Relaxed);
            while rest != 0 {
                let signal = rest.trailing_zeros() as c_int + 1;
                rest &= rest - 1;
                adopt(signal);
            }
            if before & !after != 0 {
                deliver_pending(me);
            }
        }
        if !old.is_null() {
            core::ptr::write_bytes(old, 0, 1);
            old.cast::<u64>().write(before);
        }
    }
    0
}

/// The calling thread blocks the signals of a mask of the kernel's and no others.
pub(crate) fn block(mask: u64) {
    // SAFETY: complete sets.
    unsafe {
        let mut set: sigset_t = core::mem::zeroed();
        (&raw mut set).cast::<u64>().write(mask);
        pthread_sigmask(libc::SIG_SETMASK, &set, core::ptr::null_mut());
    }
}

/// A signal is blocked for the first time: from now on it must not reach the kernel's default action unseen.
unsafe fn adopt(signal: c_int) {
    // SAFETY: complete actions.
    unsafe {
        lock::lock(&GUARD, &Limits::NONE);
        let mut now: action = core::mem::zeroed();
        let r = real!(sigaction(signal => c_int, core::ptr::null() => *const action, &raw mut now => *mut action) -> c_int);
        if r == 0 && TAKEN.load(Relaxed) & bit(signal) == 0 && now.sa_sigaction != libc::SIG_IGN {
            HANDLERS[signal as usize - 1].store(now.sa_sigaction, Relaxed);
            FLAGS[signal as usize - 1].store(now.sa_flags as u32, Relaxed);
            take(signal, libc::SA_RESTART);
        }
        lock::unlock(&GUARD);
    }
}

/// See `sigprocmask(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: handed on.
    match unsafe { pthread_sigmask(how, new, old) } {
        0 => 0,
        errno => {
            sys::set_errno(errno);
            -1
        }
    }
}

/// Waits for a pending signal of `set`. 0: the deadline came.
unsafe fn wait_for(set: *const sigset_t, deadline: Option<futex::Deadline>) -> c_int {
    // SAFETY: the caller's contract.
    let set = unsafe { bits(set) };
    let point = crate::cancel::Point::enter();
    loop {
        let news = NEWS.load(Acquire);
        let mine = state::me().map_or(&PENDING, |me| &me.pending);
        for pending in [mine, &PENDING] {
            let found = pending.load(Acquire) & set;
            if found != 0 {
                let signal = found.trailing_zeros() as c_int + 1;
                if pending.fetch_and(!bit(signal), AcqRel) & bit(signal) != 0 {
                    return signal;
                }
            }
        }
        // The trampoline's wake-up is the kernel's: a user thread looks every now and then.
        let tick = futex::Deadline::after(std::time::Duration::from_millis(2));
        let until = deadline.map_or(tick, |d| d.min(tick));
        if futex::wait(&NEWS, news, &point.limits(Some(until))) == End::TimedOut
            && deadline == Some(until)
        {
            return 0;
        }
        // Those that are not waited for.
        state::me().inspect(|me| deliver_pending(me));
        crate::cancel::test();
    }
}

/// See `sigwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { signal.write(wait_for(set, None)) };
    0
}

/// See `sigtimedwait(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let deadline = timeout.as_ref().map(|t| crate::time::after(crate::time::nanos(t)));
        match wait_for(set, deadline) {
            0 => {
                sys::set_errno(libc::EAGAIN);
                -1
            }
            signal => {
                if !info.is_null() {
                    info.write(synthetic(signal));
                }
                signal
            }
        }
    }
}

/// See `sigwaitinfo(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: handed on.
    unsafe { sigtimedwait(set, info, core::ptr::null()) }
}

/// See `sigsuspend(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigsuspend(set: *const sigset_t) -> c_int {
    if let Some(me) = state::me() {
        let call = Call::begin(me);
        // SAFETY: the caller's contract.
        let before = me.mask.swap(unsafe { bits(set) }, SeqCst);
        deliver_pending(me);
        // Sleeps are calls of their own.
        while !call.is_broken()
            && crate::time::sleep_for(std::time::Duration::from_secs(3600)).is_zero()
        {}
        me.mask.store(before, SeqCst);
    }
    sys::set_errno(libc::EINTR);
    -1
}

/// See `sigpending(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigpending(set: *mut sigset_t) -> c_int {
    let own = state::me()
        .map_or(0, |me| me.pending.load(Relaxed) | PENDING.load(Relaxed) & me.mask.load(Relaxed));
    // SAFETY: the caller's contract.
    unsafe {
        core::ptr::write_bytes(set, 0, 1);
        set.cast::<u64>().write(own);
    }
    0
}

/// See `pthread_kill(3)`. Another thread takes the signal a little later, as with the kernel's.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: the caller's contract.
    let Some(t) = (unsafe { state::of(thread) }) else {
        // SAFETY: handed on.
        return unsafe { real!(pthread_kill(thread => pthread_t, signal => c_int) -> c_int) };
    };
    if signal != 0 && !valid(signal) {
        return libc::EINVAL;
    }
    // As in the C library, a thread that has ended and not been joined is no error.
    if signal == 0 || t.ended.load(Acquire) != 0 {
        return 0;
    }
    if HANDLERS[signal as usize - 1].load(Relaxed) == libc::SIG_DFL
        && TAKEN.load(Relaxed) & bit(signal) == 0
    {
        // The default concerns the process.
        // SAFETY: no memory.
        return unsafe {
            -call(libc::SYS_kill, [std::process::id() as usize, signal as usize, 0, 0, 0, 0])
                as c_int
        };
    }
    t.pending.fetch_or(bit(signal), SeqCst);
    if state::me().is_some_and(|me| core::ptr::eq(me, t)) {
        deliver_pending(t);
        return 0;
    }
    if is_sought(t) {
        seek(t);
    }
    0
}

/// See `raise(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn raise(signal: c_int) -> c_int {
    // SAFETY: a signal for the calling kernel thread, where the calling thread is.
    let r = unsafe {
        let pid = call(libc::SYS_getpid, [0; 6]) as usize;
        exec::in_place(|| {
            call(libc::SYS_tgkill, [pid, sys::kernel_tid() as usize, signal as usize, 0, 0, 0])
        })
    };
    sys::returned(r) as c_int
}
