//! CPU clocks of threads, which the kernel does not know: how long the runtime has let them run.

use crate::real::real;
use crate::state;
use core::ffi::c_int;
use core::time::Duration;
use libc::{clockid_t, pthread_t, rusage, timespec};
use quaver::foreign::thread::UserThread;

/// Clocks of the runtime's threads: this, and a thread's number. The kernel has no clocks of such
/// numbers: its own of threads and processes are negative.
const OURS: clockid_t = 0x4000_0000;
const NUMBER: clockid_t = OURS - 1;

/// The thread whose time a clock tells.
fn thread_of(clock: clockid_t) -> Option<UserThread> {
    if clock == libc::CLOCK_THREAD_CPUTIME_ID {
        state::me()?.uthread.get()
    } else if clock > 0 && clock & OURS != 0 {
        Some(UserThread::from_number((clock & NUMBER) as u32))
    } else {
        None
    }
}

fn time_of(clock: clockid_t) -> Option<Duration> {
    thread_of(clock)?.run_time()
}

/// See `clock_gettime(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // Most calls are for other clocks.
    if let libc::CLOCK_THREAD_CPUTIME_ID | OURS.. = clock
        && let Some(ran) = time_of(clock)
    {
        let (tv_sec, tv_nsec) = (ran.as_secs() as i64, i64::from(ran.subsec_nanos()));
        // SAFETY: the caller's contract.
        unsafe { time.write(timespec { tv_sec, tv_nsec }) };
        return 0;
    }
    // SAFETY: handed on.
    unsafe { real!(clock_gettime(clock => clockid_t, time => *mut timespec) -> c_int) }
}

/// See `clock_getres(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_getres(clock: clockid_t, resolution: *mut timespec) -> c_int {
    let ours = clock != libc::CLOCK_THREAD_CPUTIME_ID && time_of(clock).is_some();
    let clock = if ours { libc::CLOCK_THREAD_CPUTIME_ID } else { clock };
    // SAFETY: handed on.
    unsafe { real!(clock_getres(clock => clockid_t, resolution => *mut timespec) -> c_int) }
}

/// See `pthread_getcpuclockid(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getcpuclockid(thread: pthread_t, clock: *mut clockid_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match state::of(thread).and_then(|t| t.uthread.get()) {
            Some(t) => {
                clock.write(OURS | t.number() as clockid_t);
                0
            }
            None => {
                real!(pthread_getcpuclockid(thread => pthread_t, clock => *mut clockid_t) -> c_int)
            }
        }
    }
}

/// See `getrusage(2)`: of a thread the time it has run, all as user time; the rest is the kernel
/// thread's.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrusage(who: c_int, usage: *mut rusage) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let r = real!(getrusage(who => c_int, usage => *mut rusage) -> c_int);
        if r == 0
            && who == libc::RUSAGE_THREAD
            && let Some(ran) = time_of(libc::CLOCK_THREAD_CPUTIME_ID)
        {
            (*usage).ru_utime.tv_sec = ran.as_secs() as i64;
            (*usage).ru_utime.tv_usec = i64::from(ran.subsec_micros());
            (*usage).ru_stime.tv_sec = 0;
            (*usage).ru_stime.tv_usec = 0;
        }
        r
    }
}
