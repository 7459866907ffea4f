//! `<threads.h>`: the same objects by other names. glibc's functions of these names call its own
//! mutexes and condition variables and not ours.

use crate::{cond, mutex};
use libc::{pthread_cond_t, pthread_mutex_t, timespec};
use std::ffi::c_int;

fn outcome(errno: c_int) -> c_int {
    match errno {
        0 => 0,
        libc::EBUSY => 1,
        libc::ENOMEM => 3,
        libc::ETIMEDOUT => 4,
        _ => 2,
    }
}

/// Defines functions that only translate their result.
macro_rules! translated {
    ($($section:literal, $abi:literal $name:ident($($arg:ident: $ty:ty),*) = $f:path;)*) => {$(
        #[doc = concat!("See C11, ", $section, ".")]
        ///
        /// # Safety
        ///
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern $abi fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: the caller's contract.
            outcome(unsafe { $f($($arg),*) })
        }
    )*};
}

translated! {
    "7.26.4.3", "C" mtx_lock(m: *mut pthread_mutex_t) = mutex::pthread_mutex_lock;
    "7.26.4.4", "C" mtx_timedlock(m: *mut pthread_mutex_t, at: *const timespec)
        = mutex::pthread_mutex_timedlock;
    "7.26.4.5", "C" mtx_trylock(m: *mut pthread_mutex_t) = mutex::pthread_mutex_trylock;
    "7.26.4.6", "C" mtx_unlock(m: *mut pthread_mutex_t) = mutex::pthread_mutex_unlock;
    "7.26.3.1", "C" cnd_broadcast(c: *mut pthread_cond_t) = cond::pthread_cond_broadcast;
    "7.26.3.4", "C" cnd_signal(c: *mut pthread_cond_t) = cond::pthread_cond_signal;
    "7.26.3.5", "C-unwind" cnd_timedwait(
        c: *mut pthread_cond_t, m: *mut pthread_mutex_t, at: *const timespec)
        = cond::pthread_cond_timedwait;
    "7.26.3.6", "C-unwind" cnd_wait(c: *mut pthread_cond_t, m: *mut pthread_mutex_t)
        = cond::pthread_cond_wait;
}
