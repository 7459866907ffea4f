//! Read-write locks: `0 RwLock | 28 shared | 48 flags`.

use super::word;
use crate::interrupt::{outcome, through_handlers};
use crate::io::off_worker;
use crate::real::real;
use crate::{state, time};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::*;
use libc::*;
use quaver::foreign::rwlock::RwLock;

const RWLOCK_SHARED: usize = 28;
const RWLOCK_FLAGS: usize = 48;
const PREFER_WRITERS: c_int = 2;

/// See `pthread_rwlock_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attr: *const pthread_rwlockattr_t,
) -> c_int {
    // SAFETY: the caller's contract. The C library's leaves zeroes, the mark and the flags.
    unsafe {
        real!(pthread_rwlock_init(lock => *mut pthread_rwlock_t,
            attr => *const pthread_rwlockattr_t) -> c_int)
    }
}

/// See `pthread_rwlock_destroy(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(_lock: *mut pthread_rwlock_t) -> c_int {
    0
}

unsafe fn rwlock<'a>(lock: *mut pthread_rwlock_t) -> Option<(&'a RwLock, bool)> {
    // SAFETY: the caller's contract.
    unsafe {
        if word(lock, RWLOCK_SHARED).load(Relaxed) != 0 {
            return None;
        }
        let writers_first = word(lock, RWLOCK_FLAGS).load(Relaxed) as c_int == PREFER_WRITERS;
        Some((&*lock.cast::<RwLock>(), writers_first))
    }
}

unsafe fn read(lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some((l, writers_first)) = rwlock(lock) else {
            return off_worker(|| {
                if at.is_null() {
                    real!(pthread_rwlock_rdlock(lock => *mut pthread_rwlock_t) -> c_int)
                } else {
                    real!(pthread_rwlock_clockrdlock(lock => *mut pthread_rwlock_t,
                        clock => clockid_t,
                        at => *const timespec) -> c_int)
                }
            });
        };
        if l.writer() != 0 && l.writer() == state::my_number() {
            return EDEADLK;
        }
        if l.try_read(writers_first) {
            return 0;
        }
        match time::deadline(clock, at) {
            Ok(deadline) => {
                outcome(through_handlers(deadline, |limits| l.read(writers_first, limits)))
            }
            Err(errno) => errno,
        }
    }
}

unsafe fn write(lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some((l, _)) = rwlock(lock) else {
            return off_worker(|| {
                if at.is_null() {
                    real!(pthread_rwlock_wrlock(lock => *mut pthread_rwlock_t) -> c_int)
                } else {
                    real!(pthread_rwlock_clockwrlock(lock => *mut pthread_rwlock_t,
                        clock => clockid_t,
                        at => *const timespec) -> c_int)
                }
            });
        };
        let me = state::my_number();
        if l.writer() == me {
            return EDEADLK;
        }
        if l.try_write(me) {
            return 0;
        }
        match time::deadline(clock, at) {
            Ok(deadline) => outcome(through_handlers(deadline, |limits| l.write(me, limits))),
            Err(errno) => errno,
        }
    }
}

macro_rules! rwlock_functions {
    ($($(#[$doc:meta])* $plain:ident, $timed:ident, $clocked:ident, $try:ident => $f:ident,
        $t:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $plain(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: handed on.
            unsafe { $f(lock, CLOCK_REALTIME, ptr::null()) }
        }

        /// With a deadline of the clock of the day.
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $timed(lock: *mut pthread_rwlock_t, at: *const timespec)
            -> c_int {
            // SAFETY: handed on.
            unsafe { $f(lock, CLOCK_REALTIME, at) }
        }

        /// With a deadline.
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $clocked(
            lock: *mut pthread_rwlock_t,
            clock: clockid_t,
            at: *const timespec,
        ) -> c_int {
            // SAFETY: handed on.
            unsafe { $f(lock, clock, at) }
        }

        /// Without waiting.
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $try(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: the caller's contract.
            unsafe {
                match rwlock(lock) {
                    Some((l, writers_first)) => if $t(l, writers_first) { 0 } else { EBUSY },
                    None => real!($try(lock => *mut pthread_rwlock_t) -> c_int),
                }
            }
        }
    )*};
}

rwlock_functions! {
    /// See `pthread_rwlock_rdlock(3)`.
    pthread_rwlock_rdlock, pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock,
        pthread_rwlock_tryrdlock
        => read, |l: &RwLock, writers_first| l.try_read(writers_first);
    /// See `pthread_rwlock_wrlock(3)`.
    pthread_rwlock_wrlock, pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock,
        pthread_rwlock_trywrlock
        => write, |l: &RwLock, _| l.try_write(state::my_number());
}

/// See `pthread_rwlock_unlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match rwlock(lock) {
            Some((l, _)) => {
                if l.unlock() {
                    0
                } else {
                    EPERM
                }
            }
            None => real!(pthread_rwlock_unlock(lock => *mut pthread_rwlock_t) -> c_int),
        }
    }
}
