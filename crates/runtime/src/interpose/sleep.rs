//! Sleeping and yielding, as user threads. Sleeps may be interrupted by whoever has said how
//! ([`set_sleeper`]).

use super::futex::fail;
use crate::sys;
use crate::thread::raw;
use core::ffi::c_int;
use libc::{clockid_t, timespec};
use std::sync::OnceLock;
use std::time::Duration;

fn checked(t: &timespec) -> Option<Duration> {
    let nanos = u32::try_from(t.tv_nsec).ok().filter(|&n| n < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(t.tv_sec).ok()?, nanos))
}

/// libc's `nanosleep`; a user thread lets others run meanwhile and is never interrupted.
///
/// # Safety
///
/// As for libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn nanosleep(
    request: *const timespec,
    remaining: *mut timespec,
) -> c_int {
    // SAFETY: handed on.
    match unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, request, remaining) } {
        0 => 0,
        errno => fail(errno) as c_int,
    }
}

/// libc's `clock_nanosleep`; see [`nanosleep`]. Returns the error number.
///
/// # Safety
///
/// As for libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    request: *const timespec,
    remaining: *mut timespec,
) -> c_int {
    // SAFETY: null, or valid as libc demands.
    let span = unsafe { request.as_ref() }.and_then(checked);
    if let Some(span) = span
        && matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME)
        && raw::may_park()
    {
        let span = if flags & libc::TIMER_ABSTIME != 0 {
            let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: writes `now`.
            unsafe { libc::clock_gettime(clock, &mut now) };
            span.saturating_sub(checked(&now).unwrap_or_default())
        } else {
            span
        };
        let left = sleep(span);
        if left.is_zero() {
            return 0;
        }
        if flags & libc::TIMER_ABSTIME == 0 && !remaining.is_null() {
            let left =
                timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            // SAFETY: not null, so valid.
            unsafe { remaining.write(left) };
        }
        return libc::EINTR;
    }
    let args = [clock as u64, flags as u64, request as u64, remaining as u64, 0, 0];
    // SAFETY: handed on.
    -unsafe { sys::syscall6(libc::SYS_clock_nanosleep, args) } as c_int
}

static SLEEPER: OnceLock<fn(Duration) -> Duration> = OnceLock::new();

/// Makes `nanosleep` and `clock_nanosleep` of user threads call `f`, which sleeps, may unwind, and
/// returns what is left when it has been interrupted. Once in a process.
pub fn set_sleeper(f: fn(Duration) -> Duration) {
    let _ = SLEEPER.set(f);
}

/// Sleeps; returns what is left.
fn sleep(span: Duration) -> Duration {
    match SLEEPER.get() {
        Some(f) => f(span),
        None => {
            crate::time::sleep(span);
            Duration::ZERO
        }
    }
}

/// libc's `sched_yield`: on a user thread others of the worker run, or, if there are none, other
/// kernel threads.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    if !(raw::may_park() && raw::try_yield()) {
        sys::sched_yield();
    }
    0
}
