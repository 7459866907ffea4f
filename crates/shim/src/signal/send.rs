//! Sending signals within the process, which the kernel need not know of.

use super::{UNBLOCKABLE, action, bit, courier, deliver, file, managed, queue, signals_of, valid};
use crate::exec;
use crate::real::real;
use crate::state::{self, Thread};
use crate::sys::{self, call};
use core::ffi::{c_int, c_long};
use core::sync::atomic::Ordering::*;
use libc::{pid_t, pthread_t, siginfo_t, sigval};

/// What is told of a signal that the process sends itself.
fn described(signal: c_int, code: c_int, value: usize) -> siginfo_t {
    // SAFETY: all zeroes are a description; process, user and value follow three numbers and a gap
    // in the kernel's layout.
    unsafe {
        let mut info: siginfo_t = core::mem::zeroed();
        info.si_signo = signal;
        info.si_code = code;
        let rest = (&raw mut info).cast::<u8>().add(16);
        rest.cast::<[u32; 2]>().write([super::process() as u32, libc::getuid()]);
        rest.add(8).cast::<usize>().write(value);
        info
    }
}

/// A signal has come for the process.
pub(super) fn to_process(info: &siginfo_t) {
    let signal = info.si_signo;
    let locked = queue::locked();
    let taker = courier::taker(&locked, signal);
    if let Some(taker) = taker {
        let action = action::of(signal);
        let waits = taker.signals.waits_for.load(SeqCst) & bit(signal) != 0;
        if !waits && action.is_nothing(signal) {
            return;
        }
        if !waits && !action.is_handler() {
            drop(locked);
            return deliver::default(signal);
        }
    }
    queue::PROCESS.push(&locked, info);
    // Again: who has unblocked it meanwhile, without the lock, may not have seen it.
    let taker = courier::taker(&locked, signal);
    if let Some(taker) = taker.filter(|t| !state::me().is_some_and(|me| core::ptr::eq(me, *t))) {
        courier::wake(taker);
        drop(locked);
        courier::tell();
    }
}

/// A signal has come for `t`, which lives.
pub(super) fn to_thread(t: &'static Thread, info: &siginfo_t) {
    let signal = info.si_signo;
    let locked = queue::locked();
    let allowed = t.signals.mask.load(SeqCst) & bit(signal) == 0;
    let waits = t.signals.waits_for.load(SeqCst) & bit(signal) != 0;
    let action = action::of(signal);
    if allowed && !waits && action.is_nothing(signal) {
        return;
    }
    if allowed && !waits && !action.is_handler() {
        drop(locked);
        return deliver::default(signal);
    }
    t.signals.pending.push(&locked, info);
    // Again: it may have changed its mask meanwhile, without the lock, and not have seen the
    // signal.
    let awaited = !t.signals.mask.load(SeqCst) | t.signals.waits_for.load(SeqCst);
    if awaited & bit(signal) != 0 && !state::me().is_some_and(|me| core::ptr::eq(me, t)) {
        queue::seek(&locked, t);
        courier::wake(t);
        drop(locked);
        courier::tell();
    }
}

/// What calls of `me`, the calling thread, have brought about has come for it.
pub(super) fn brought(me: &'static Thread) {
    for signal in signals_of(me.signals.brought.swap(0, SeqCst)) {
        to_thread(me, &described(signal, libc::SI_USER, 0));
    }
}

/// The calling thread, where it may be sent `signal` without the kernel.
fn sender(signal: c_int) -> Option<&'static Thread> {
    let ours = valid(signal) && bit(signal) & UNBLOCKABLE == 0;
    managed().filter(|_| ours && !super::in_child_of_vfork())
}

/// Is `signal` one that must be queued, and are as many queued as may be?
fn is_full(signal: c_int) -> bool {
    // SAFETY: filled by the C library.
    unsafe {
        let mut limit: libc::rlimit = core::mem::zeroed();
        signal >= libc::SIGRTMIN()
            && libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit) == 0
            && queue::length() as u64 >= limit.rlim_cur
    }
}

/// Does `pid` mean this process, as the kernel has it: its number, or that of one of its threads?
pub(super) fn is_own(pid: pid_t) -> bool {
    pid == super::process()
        || pid > 0 && managed().is_some() && queue::with_numbered(pid as u32, |_| ()).is_some()
}

/// See `kill(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn kill(pid: pid_t, signal: c_int) -> c_int {
    match sender(signal) {
        Some(me) if is_own(pid) && !file::is_left(signal) => {
            to_process(&described(signal, libc::SI_USER, 0));
            deliver::deliver_here(me);
            0
        }
        me => {
            // SAFETY: handed on.
            let r = unsafe { real!(kill(pid => pid_t, signal => c_int) -> c_int) };
            if me.is_some() && r == 0 && (pid == 0 || pid < -1) {
                // Perhaps it was for this process as well, and then comes before the call returns.
                super::settle();
            }
            r
        }
    }
}

/// See `killpg(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn killpg(group: pid_t, signal: c_int) -> c_int {
    if group < 0 {
        sys::set_errno(libc::EINVAL);
        return -1;
    }
    kill(-group, signal)
}

/// See `sigqueue(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigqueue(pid: pid_t, signal: c_int, value: sigval) -> c_int {
    match sender(signal) {
        Some(me) if is_own(pid) && !file::is_left(signal) => {
            if is_full(signal) {
                return sys::failed(libc::EAGAIN);
            }
            to_process(&described(signal, libc::SI_QUEUE, value.sival_ptr as usize));
            deliver::deliver_here(me);
            0
        }
        _ => {
            // SAFETY: handed on.
            unsafe { real!(sigqueue(pid => pid_t, signal => c_int, value => sigval) -> c_int) }
        }
    }
}

/// See `pthread_kill(3)`. Another thread takes the signal a little later, as with the kernel's.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: the caller's contract.
    let Some(t) = (unsafe { state::of(thread) }) else {
        if state::is_gone(thread) {
            return libc::ESRCH;
        }
        // SAFETY: handed on.
        return unsafe { real!(pthread_kill(thread => pthread_t, signal => c_int) -> c_int) };
    };
    send(t, signal, |signal| described(signal, libc::SI_TKILL, 0))
}

/// See `pthread_sigqueue(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_sigqueue(
    thread: pthread_t,
    signal: c_int,
    value: sigval,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(t) = (unsafe { state::of(thread) }) else {
        // SAFETY: handed on.
        return unsafe {
            real!(pthread_sigqueue(thread => pthread_t, signal => c_int, value => sigval) -> c_int)
        };
    };
    send(t, signal, |signal| described(signal, libc::SI_QUEUE, value.sival_ptr as usize))
}

fn send(t: &'static Thread, signal: c_int, describe: impl Fn(c_int) -> siginfo_t) -> c_int {
    if signal != 0 && !valid(signal) {
        return libc::EINVAL;
    }
    // As in the C library, a thread that has ended and not been joined is no error.
    if signal == 0 || t.ended.load(Acquire) != 0 {
        return 0;
    }
    if sender(signal).is_none() {
        // The child of a fork, or what concerns the process.
        let tid = t.signals.kernel_tid();
        let (pid, signal) = (super::process() as usize, signal as usize);
        // SAFETY: no memory.
        let r = unsafe {
            if tid == 0 {
                call(libc::SYS_kill, [pid, signal, 0, 0, 0, 0])
            } else {
                call(libc::SYS_tgkill, [pid, tid as usize, signal, 0, 0, 0])
            }
        };
        return -r as c_int;
    }
    if is_full(signal) {
        return libc::EAGAIN;
    }
    to_thread(t, &describe(signal));
    if let Some(me) = state::me() {
        deliver::deliver_here(me);
    }
    0
}

/// See `raise(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn raise(signal: c_int) -> c_int {
    if let Some(me) = sender(signal) {
        if is_full(signal) {
            return sys::failed(libc::EAGAIN);
        }
        to_thread(me, &described(signal, libc::SI_TKILL, 0));
        deliver::deliver_here(me);
        return 0;
    }
    // SAFETY: a signal for the calling kernel thread, where the calling thread is.
    let r = unsafe {
        exec::in_place(|| {
            let pid = super::process() as usize;
            call(libc::SYS_tgkill, [pid, sys::kernel_tid() as usize, signal as usize, 0, 0, 0])
        })
    };
    sys::returned(r) as c_int
}

/// `raise` under another name.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gsignal(signal: c_int) -> c_int {
    raise(signal)
}

/// Sends to the thread of this process to which `gettid` gives this number. `None`: there is none.
fn send_to(
    process: pid_t,
    tid: pid_t,
    signal: c_int,
    describe: impl Fn(c_int) -> siginfo_t,
) -> Option<c_int> {
    if managed().is_none() || process != super::process() {
        return None;
    }
    queue::with_numbered(tid as u32, |t| sys::failed(send(t, signal, describe)))
}

/// As `tgkill` and `tkill` do; for who is no thread of this process, by the system call.
fn kill_thread(process: pid_t, tid: pid_t, signal: c_int, number: c_long, a: [usize; 6]) -> c_int {
    let sent = send_to(process, tid, signal, |signal| described(signal, libc::SI_TKILL, 0));
    // SAFETY: no memory.
    sent.unwrap_or_else(|| sys::returned(unsafe { call(number, a) }) as c_int)
}

/// See `tgkill(2)`: threads are known by the numbers that `gettid` gives them.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tgkill(process: pid_t, tid: pid_t, signal: c_int) -> c_int {
    let a = [process as usize, tid as usize, signal as usize, 0, 0, 0];
    kill_thread(process, tid, signal, libc::SYS_tgkill, a)
}

/// See `tkill(2)`, which the C library has no function for. The thread may be any process's.
pub(crate) fn tkill(tid: pid_t, signal: c_int) -> c_int {
    let a = [tid as usize, signal as usize, 0, 0, 0, 0];
    kill_thread(super::process(), tid, signal, libc::SYS_tkill, a)
}

/// `tgkill` with what the signal tells, see `rt_tgsigqueueinfo(2)`.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn tgsigqueue(
    process: pid_t,
    tid: pid_t,
    signal: c_int,
    info: *const siginfo_t,
) -> c_int {
    let told = |signal| {
        // SAFETY: the caller's; copied, as the kernel does.
        let mut told = unsafe { info.read() };
        told.si_signo = signal;
        told
    };
    let sent = if info.is_null() { None } else { send_to(process, tid, signal, told) };
    sent.unwrap_or_else(|| {
        let a = [process as usize, tid as usize, signal as usize, info as usize, 0, 0];
        // SAFETY: handed on.
        sys::returned(unsafe { call(libc::SYS_rt_tgsigqueueinfo, a) }) as c_int
    })
}
