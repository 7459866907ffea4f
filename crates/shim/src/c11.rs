//! `<threads.h>`: the same objects by other names.

use crate::state::Start;
use crate::{mutex, sync, thread};
use core::ffi::{c_int, c_void};
use core::ptr;
use libc::{pthread_cond_t, pthread_mutex_t, pthread_t, timespec};

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

fn outcome(errno: c_int) -> c_int {
    match errno {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM | libc::EAGAIN => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// See C11, 7.26.5.1.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    t: *mut pthread_t,
    f: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: on this ABI the result is in the lower half of the register; `thrd_join` looks at
    // nothing else.
    let f = unsafe {
        core::mem::transmute::<unsafe extern "C-unwind" fn(*mut c_void) -> c_int, Start>(f)
    };
    // SAFETY: the caller's contract.
    outcome(unsafe { thread::pthread_create(t, ptr::null(), f, argument) })
}

/// See C11, 7.26.5.6.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_join(t: pthread_t, result: *mut c_int) -> c_int {
    let mut value = ptr::null_mut();
    // SAFETY: the caller's contract.
    unsafe {
        let r = thread::pthread_join(t, &mut value);
        if r == 0 && !result.is_null() {
            result.write(value as usize as c_int);
        }
        outcome(r)
    }
}

/// See C11, 7.26.5.3.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_detach(t: pthread_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { thread::pthread_detach(t) })
}

/// See C11, 7.26.5.5.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn thrd_exit(result: c_int) -> ! {
    thread::pthread_exit(result as usize as *mut c_void)
}

/// See C11, 7.26.4.3.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mtx_lock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { mutex::pthread_mutex_lock(m) })
}

/// See C11, 7.26.4.4.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mtx_timedlock(
    m: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { mutex::pthread_mutex_timedlock(m, at) })
}

/// See C11, 7.26.4.5.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_trylock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { mutex::pthread_mutex_trylock(m) })
}

/// See C11, 7.26.4.6.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_unlock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { mutex::pthread_mutex_unlock(m) })
}

/// See C11, 7.26.3.3.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_init(c: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { sync::cond::pthread_cond_init(c, ptr::null()) })
}

/// See C11, 7.26.3.2.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_destroy(c: *mut pthread_cond_t) {
    // SAFETY: the caller's contract.
    unsafe { sync::cond::pthread_cond_destroy(c) };
}

/// See C11, 7.26.3.6.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cnd_wait(c: *mut pthread_cond_t, m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { sync::cond::pthread_cond_wait(c, m) })
}

/// See C11, 7.26.3.5.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cnd_timedwait(
    c: *mut pthread_cond_t,
    m: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { sync::cond::pthread_cond_timedwait(c, m, at) })
}

/// See C11, 7.26.3.4.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_signal(c: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { sync::cond::pthread_cond_signal(c) })
}

/// See C11, 7.26.3.1.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_broadcast(c: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    outcome(unsafe { sync::cond::pthread_cond_broadcast(c) })
}
