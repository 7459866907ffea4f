//! Semaphores: `0 Semaphore | 8 shared`.

use super::word;
use crate::cancel::{self, Point};
use crate::io::cancellable_off_worker;
use crate::real::real;
use crate::{sys, time};
use core::ffi::{c_int, c_uint};
use core::ptr;
use core::sync::atomic::Ordering::*;
use libc::*;
use quaver::foreign::futex::End;
use quaver::foreign::semaphore::{self, Semaphore};

const SEM_SHARED: usize = 8;

unsafe fn sem<'a>(sem: *mut sem_t) -> Option<&'a Semaphore> {
    // SAFETY: the caller's contract.
    unsafe { (word(sem, SEM_SHARED).load(Relaxed) == 0).then(|| &*sem.cast::<Semaphore>()) }
}

fn fail(errno: c_int) -> c_int {
    sys::set_errno(errno);
    -1
}

/// See `sem_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_init(s: *mut sem_t, shared: c_int, value: c_uint) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if shared != 0 {
            return real!(sem_init(s => *mut sem_t, shared => c_int, value => c_uint) -> c_int);
        }
        if value > semaphore::MAX {
            return fail(EINVAL);
        }
        ptr::write_bytes(s, 0, 1);
        s.cast::<Semaphore>().write(Semaphore::new(value));
    }
    0
}

unsafe fn sem_take(s: *mut sem_t, clock: clockid_t, at: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(own) = sem(s) else {
            let r = real!(sem_trywait(s => *mut sem_t) -> c_int);
            if r == 0 || *__errno_location() != EAGAIN {
                return r;
            }
            let wait = || {
                if at.is_null() {
                    real!(sem_wait(s => *mut sem_t) -> c_int)
                } else {
                    real!(sem_clockwait(s => *mut sem_t, clock => clockid_t, at => *const timespec)
                        -> c_int)
                }
            };
            loop {
                let point = Point::enter();
                let r = cancellable_off_worker(wait);
                // Perhaps a signal of the shim's has interrupted it.
                if r == 0 || *__errno_location() != EINTR || !point.deliver() {
                    return r;
                }
            }
        };
        let point = Point::enter();
        if own.try_take() {
            return 0;
        }
        let deadline = match time::deadline(clock, at) {
            Ok(deadline) => deadline,
            Err(errno) => return fail(errno),
        };
        loop {
            match point.wait(deadline, |limits| own.take(limits)) {
                End::Woken => return 0,
                End::TimedOut => return fail(ETIMEDOUT),
                End::Interrupted => {
                    let goes_on = point.deliver();
                    cancel::test();
                    if !goes_on {
                        return fail(EINTR);
                    }
                }
            }
        }
    }
}

/// See `sem_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(s: *mut sem_t) -> c_int {
    // SAFETY: handed on.
    unsafe { sem_take(s, CLOCK_REALTIME, ptr::null()) }
}

/// See `sem_timedwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(s: *mut sem_t, at: *const timespec) -> c_int {
    // SAFETY: handed on.
    unsafe { sem_take(s, CLOCK_REALTIME, at) }
}

/// See `sem_clockwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(
    s: *mut sem_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: handed on.
    unsafe { sem_take(s, clock, at) }
}

/// See `sem_trywait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_trywait(s: *mut sem_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match sem(s) {
            Some(own) => {
                if own.try_take() {
                    0
                } else {
                    fail(EAGAIN)
                }
            }
            None => real!(sem_trywait(s => *mut sem_t) -> c_int),
        }
    }
}

/// See `sem_post(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(s: *mut sem_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match sem(s) {
            Some(own) => {
                if own.post() {
                    0
                } else {
                    fail(EOVERFLOW)
                }
            }
            None => real!(sem_post(s => *mut sem_t) -> c_int),
        }
    }
}

/// See `sem_getvalue(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_getvalue(s: *mut sem_t, value: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match sem(s) {
            Some(own) => {
                value.write(own.value() as c_int);
                0
            }
            None => real!(sem_getvalue(s => *mut sem_t, value => *mut c_int) -> c_int),
        }
    }
}
