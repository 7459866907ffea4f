//! Deadlines of C, and sleeping.

use crate::cancel::{self, Point};
use crate::interrupt::Call;
use crate::{signal, state, sys};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::AtomicU32;
use libc::{clockid_t, timespec};
use quaver::foreign::futex::{self, Deadline, End};
use std::time::Duration;

const SECOND: i128 = 1_000_000_000;

pub(crate) fn nanos(t: &timespec) -> i128 {
    i128::from(t.tv_sec) * SECOND + i128::from(t.tv_nsec)
}

pub(crate) fn now(clock: clockid_t) -> i128 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes `now`.
    unsafe { libc::clock_gettime(clock, &mut now) };
    nanos(&now)
}

/// When `at` on `clock` is; null: never. The error is for the caller's caller.
///
/// # Safety
///
/// `at` is null or valid.
pub(crate) unsafe fn deadline(
    clock: clockid_t,
    at: *const timespec,
) -> Result<Option<Deadline>, c_int> {
    // SAFETY: the caller's contract.
    let Some(at) = (unsafe { at.as_ref() }) else { return Ok(None) };
    if !(0..SECOND as i64).contains(&at.tv_nsec)
        || !matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)
    {
        return Err(libc::EINVAL);
    }
    Ok(Some(after(nanos(at) - now(clock))))
}

/// The moment so many nanoseconds from now.
pub(crate) fn after(span: i128) -> Deadline {
    Deadline::after(Duration::from_nanos(span.clamp(0, i128::from(i64::MAX)) as u64))
}

/// Gives the CPU away for some tens of microseconds.
pub(crate) fn nap() {
    if state::me().is_some() {
        quaver::sleep(Duration::from_micros(50));
    } else {
        let t = timespec { tv_sec: 0, tv_nsec: 50_000 };
        // SAFETY: reads `t`.
        unsafe { sys::call(libc::SYS_nanosleep, [&raw const t as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Waits until the deadline, or until the thread should look up from `call` ([`End::Interrupted`]),
/// or for no reason.
pub(crate) fn wait_for(call: &Call, deadline: Option<Deadline>) -> End {
    wait_until(call, deadline, &|| false)
}

/// [`wait_for`], and until `arrived`, for which the thread must be interrupted.
pub(crate) fn wait_until(
    call: &Call,
    deadline: Option<Deadline>,
    arrived: &dyn Fn() -> bool,
) -> End {
    let wanted = || arrived() || call.is_wanted();
    let limits = futex::Limits { deadline, interrupted: Some(&wanted) };
    futex::wait(&AtomicU32::new(0), 0, &limits)
}

/// Sleeps as a user thread; a cancellation point. What is left if a handler of the program has run
/// on the thread.
pub(crate) fn sleep_for(span: Duration) -> Duration {
    let point = Point::enter();
    let deadline = Deadline::after(span);
    let Some(me) = state::me() else {
        let limits = futex::Limits { deadline: Some(deadline), ..futex::Limits::NONE };
        while futex::wait(&AtomicU32::new(0), 0, &limits) != End::TimedOut {}
        return Duration::ZERO;
    };
    let call = Call::begin(me, false);
    let left = loop {
        match wait_for(&call, Some(deadline)) {
            End::TimedOut => break Duration::ZERO,
            // In the child of a fork the kernel calls handlers.
            End::Interrupted if signal::managed().is_none() => break deadline.left(),
            _ => {}
        }
        signal::deliver::deliver_here(me);
        cancel::test();
        if call.is_broken() {
            break deadline.left();
        }
    };
    drop(call);
    point.leave();
    left
}

/// See `sleep(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    let left = sleep_for(Duration::from_secs(seconds.into()));
    if left.is_zero() {
        0
    } else {
        left.as_secs() as c_uint + u32::from(left.subsec_millis() >= 500)
    }
}

/// See `usleep(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn usleep(microseconds: c_uint) -> c_int {
    if sleep_for(Duration::from_micros(microseconds.into())).is_zero() {
        0
    } else {
        sys::set_errno(libc::EINTR);
        -1
    }
}
