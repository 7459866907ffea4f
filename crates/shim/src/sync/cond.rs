//! Condition variables: `0 Condvar | 36 flags`.

use super::word;
use crate::cancel::Point;
use crate::io::cancellable_off_worker;
use crate::mutex;
use crate::real::real;
use crate::time;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::*;
use libc::*;
use quaver::foreign::condvar::Condvar;
use quaver::foreign::futex::{End, Limits};

const COND_FLAGS: usize = 36;
const COND_SHARED: u32 = 1;
const COND_MONOTONIC: u32 = 2;

/// See `pthread_cond_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    cond: *mut pthread_cond_t,
    attr: *const pthread_condattr_t,
) -> c_int {
    let (mut shared, mut clock) = (0, CLOCK_REALTIME);
    // SAFETY: the caller's contract.
    unsafe {
        if !attr.is_null() {
            pthread_condattr_getpshared(attr, &mut shared);
            pthread_condattr_getclock(attr, &mut clock);
        }
        if shared == PTHREAD_PROCESS_SHARED {
            return real!(pthread_cond_init(cond => *mut pthread_cond_t,
                attr => *const pthread_condattr_t) -> c_int);
        }
        ptr::write_bytes(cond, 0, 1);
        let flags = if clock == CLOCK_MONOTONIC { COND_MONOTONIC } else { 0 };
        word(cond, COND_FLAGS).store(flags, Relaxed);
    }
    0
}

/// See `pthread_cond_destroy(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            return real!(pthread_cond_destroy(cond => *mut pthread_cond_t) -> c_int);
        }
        (*cond.cast::<Condvar>()).quiesce();
    }
    0
}

/// Locks again when a handler ends the thread in the middle of a wait: what it unwinds through
/// believes in having the mutex.
struct Relock(*mut pthread_mutex_t);

impl Drop for Relock {
    fn drop(&mut self) {
        // SAFETY: the mutex of the wait.
        unsafe { mutex::relock(self.0) };
    }
}

unsafe fn cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: Option<clockid_t>,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let flags = word(cond, COND_FLAGS).load(Relaxed);
        let own = if flags & COND_MONOTONIC != 0 { CLOCK_MONOTONIC } else { CLOCK_REALTIME };
        let deadline = match time::deadline(clock.unwrap_or(own), at) {
            Ok(deadline) => deadline,
            Err(errno) => return errno,
        };
        let point = Point::enter();
        let c = &*cond.cast::<Condvar>();
        let registered = c.register();
        let r = mutex::pthread_mutex_unlock(mutex);
        if r != 0 {
            c.wait(registered, &Limits { deadline: None, interrupted: Some(&|| true) });
            return r;
        }
        let end = point.wait(deadline, |limits| c.wait(registered, limits));
        let relock = Relock(mutex);
        if end == End::Interrupted {
            // The mutex may be what a handler waits for.
            point.deliver();
        }
        core::mem::forget(relock);
        let r = mutex::relock(mutex);
        match end {
            End::Woken => r,
            End::TimedOut if r == 0 => ETIMEDOUT,
            End::TimedOut => r,
            End::Interrupted => {
                point.leave();
                r
            }
        }
    }
}

unsafe fn cond_shared(cond: *mut pthread_cond_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { word(cond, COND_FLAGS) }.load(Relaxed) & COND_SHARED != 0
}

/// The C library's wait, if the condition variable is process-shared.
unsafe fn wait_shared(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    wait: impl FnOnce() -> c_int,
) -> Option<c_int> {
    // SAFETY: the caller's contract.
    unsafe {
        cond_shared(cond).then(|| {
            if mutex::belongs_to_keeper(mutex) { ENOTSUP } else { cancellable_off_worker(wait) }
        })
    }
}

/// See `pthread_cond_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(r) = wait_shared(cond, mutex, || {
            real!(pthread_cond_wait(cond => *mut pthread_cond_t, mutex => *mut pthread_mutex_t)
                -> c_int)
        }) {
            return r;
        }
        cond_wait(cond, mutex, None, ptr::null())
    }
}

/// See `pthread_cond_timedwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(r) = wait_shared(cond, mutex, || {
            real!(pthread_cond_timedwait(cond => *mut pthread_cond_t, mutex => *mut pthread_mutex_t,
                    at => *const timespec) -> c_int)
        }) {
            return r;
        }
        cond_wait(cond, mutex, None, at)
    }
}

/// See `pthread_cond_clockwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(r) = wait_shared(cond, mutex, || {
            real!(pthread_cond_clockwait(cond => *mut pthread_cond_t, mutex => *mut pthread_mutex_t,
                    clock => clockid_t, at => *const timespec) -> c_int)
        }) {
            return r;
        }
        cond_wait(cond, mutex, Some(clock), at)
    }
}

/// See `pthread_cond_signal(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            return real!(pthread_cond_signal(cond => *mut pthread_cond_t) -> c_int);
        }
        (*cond.cast::<Condvar>()).notify(1);
    }
    0
}

/// See `pthread_cond_broadcast(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            return real!(pthread_cond_broadcast(cond => *mut pthread_cond_t) -> c_int);
        }
        (*cond.cast::<Condvar>()).notify(u32::MAX);
    }
    0
}
