//! System calls that a program makes by `syscall(2)`: those that name a thread, or are about the
//! signals of one, are answered as the functions of the C library are. To the kernel a thread is
//! the kernel thread that happens to run it.
//!
//! A wait for a futex, which is how threads of Rust programs wait for each other, is one of the
//! runtime's; handlers run meanwhile.

use crate::interrupt::Call;
use crate::io::descriptors::{close, close_range, dup2, dup3};
use crate::signal::altstack::sigaltstack;
use crate::signal::mask::sigprocmask;
use crate::signal::send::{kill, tgkill, tgsigqueue, tkill};
use crate::signal::{deliver, managed, settle};
use crate::sys::{call, returned};
use crate::thread::gettid;
use crate::{affinity, cancel, nice};
use core::ffi::{c_int, c_long};
use libc::{sigset_t, stack_t};
use quaver::foreign::raw_calls::{self, FutexWait, Host};

pub(crate) fn start() {
    raw_calls::set_host(&Host { answer, wait });
}

/// As in the kernel, a handler without `SA_RESTART` ends it, and where it has a limit any does.
fn wait(futex: &FutexWait) -> Result<(), c_int> {
    let Some(me) = managed() else { return futex.wait(&|| false) };
    let call = Call::begin(me, !futex.has_limit());
    let wanted = || call.is_broken() || deliver::is_due(me) || me.is_cancelled_anywhere();
    loop {
        match futex.wait(&wanted) {
            Err(libc::EINTR) => {}
            end => return end,
        }
        deliver::deliver_here(me);
        if me.is_cancelled_anywhere() {
            cancel::test();
        }
        if call.is_broken() {
            return Err(libc::EINTR);
        }
    }
}

/// # Safety
///
/// As for `syscall`.
unsafe fn answer(number: c_long, a: &[c_long; 6]) -> Option<c_long> {
    let int = |i: usize| a[i] as c_int;
    // SAFETY: the caller's contract is that of the function of the same name.
    let result = unsafe {
        match number {
            libc::SYS_gettid => gettid(),
            libc::SYS_kill => kill(int(0), int(1)),
            libc::SYS_tkill => tkill(int(0), int(1)),
            libc::SYS_tgkill => tgkill(int(0), int(1), int(2)),
            libc::SYS_rt_tgsigqueueinfo => {
                tgsigqueue(int(0), int(1), int(2), a[3] as *const libc::siginfo_t)
            }
            libc::SYS_rt_sigqueueinfo | libc::SYS_pidfd_send_signal => sent(number, a),
            libc::SYS_rt_sigprocmask => masked(a),
            libc::SYS_sigaltstack => sigaltstack(a[0] as *const stack_t, a[1] as *mut stack_t),
            libc::SYS_sched_setaffinity => {
                affinity::sched_setaffinity(int(0), a[1] as usize, a[2] as *const libc::cpu_set_t)
            }
            libc::SYS_sched_getaffinity => {
                affinity::system_call(int(0), a[1] as usize, a[2] as *mut libc::cpu_set_t) as c_int
            }
            libc::SYS_setpriority => nice::setpriority(a[0] as u32, a[1] as u32, int(2)),
            libc::SYS_getpriority => nice::system_call(a[0] as u32, a[1] as u32)?,
            libc::SYS_close => close(int(0)),
            libc::SYS_close_range => close_range(a[0] as u32, a[1] as u32, int(2)),
            libc::SYS_dup2 => dup2(int(0), int(1)),
            libc::SYS_dup3 => dup3(int(0), int(1), int(2)),
            _ => return None,
        }
    };
    Some(result.into())
}

/// Sends a signal by way of the kernel. If that was for this process, it comes before the call
/// returns.
///
/// # Safety
///
/// As for `syscall`.
unsafe fn sent(number: c_long, a: &[c_long; 6]) -> c_int {
    // SAFETY: handed on.
    let r = returned(unsafe { call(number, a.map(|x| x as usize)) });
    if r == 0 {
        settle();
    }
    r as c_int
}

/// The kernel's masks are shorter than the C library's.
///
/// # Safety
///
/// As for `syscall(SYS_rt_sigprocmask, ...)`.
unsafe fn masked(a: &[c_long; 6]) -> c_int {
    const SIZE: c_long = size_of::<u64>() as c_long;
    if a[3] != SIZE {
        return returned(-(libc::EINVAL as isize)) as c_int;
    }
    let (new, old) = (a[1] as *const u64, a[2] as *mut u64);
    // SAFETY: the caller's pointers are null or to masks of that size; all zeroes are a set.
    unsafe {
        let (mut set, mut before): (sigset_t, sigset_t) = core::mem::zeroed();
        if let Some(&new) = new.as_ref() {
            (&raw mut set).cast::<u64>().write(new);
        }
        let set = if new.is_null() { core::ptr::null() } else { &raw const set };
        let r = sigprocmask(a[0] as c_int, set, &mut before);
        if r == 0 && !old.is_null() {
            old.write((&raw const before).cast::<u64>().read());
        }
        r
    }
}
