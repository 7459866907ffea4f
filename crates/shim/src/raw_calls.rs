//! System calls that a program makes by `syscall(2)`: those that name a thread, or are about what
//! one has or may do, are answered as the functions of the C library are. To the kernel a thread is
//! the kernel thread that happens to run it.
//!
//! A wait for a futex, which is how threads of Rust programs wait for each other, is one of the
//! runtime's; handlers run meanwhile.

use crate::interrupt::Call;
use crate::io::descriptors::{close, close_range, dup2, dup3};
use crate::io::{Restart, always};
use crate::signal::altstack::sigaltstack;
use crate::signal::send::{kill, tgkill, tgsigqueue, tkill};
use crate::signal::{self, deliver, managed};
use crate::thread::gettid;
use crate::{affinity, cancel, name, nice, privileges};
use core::ffi::{c_int, c_long};
use libc::stack_t;
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

/// Is it a wait for a word that other processes may wake? The kernel's own threads wait for it.
fn is_wait(a: &[c_long; 6]) -> bool {
    let operation = a[1] as c_int & !libc::FUTEX_CLOCK_REALTIME;
    matches!(operation, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
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
            libc::SYS_prctl => name::prctl(int(0), a[1] as _, a[2] as _, a[3] as _, a[4] as _),
            libc::SYS_capget => privileges::capget(a[0] as _, a[1] as _),
            libc::SYS_capset => privileges::capset(a[0] as _, a[1] as _),
            libc::SYS_seccomp => privileges::seccomp(int(0), a[1] as u32, a[2] as usize),
            libc::SYS_landlock_restrict_self => privileges::landlock(int(0), a[1] as u32),
            libc::SYS_futex if is_wait(a) => {
                // A handler ends a wait with a limit, whatever its flags say.
                let restart = if a[3] == 0 { Restart::Yes } else { Restart::Never };
                always(restart, number, a.map(|x| x as usize))
            }
            _ => signal::raw::answer(number, a)?,
        }
    };
    Some(result.into())
}
