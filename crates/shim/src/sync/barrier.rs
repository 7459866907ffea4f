//! Barriers: `12 shared | 16 Barrier`.

use super::word;
use crate::interrupt::through_handlers;
use crate::io::off_worker;
use crate::real::real;
use core::ffi::{c_int, c_uint};
use core::ptr;
use core::sync::atomic::Ordering::*;
use libc::*;
use quaver::foreign::barrier::Barrier;

const BARRIER_SHARED: usize = 12;

unsafe fn barrier<'a>(b: *mut pthread_barrier_t) -> Option<&'a Barrier> {
    // SAFETY: the caller's contract.
    unsafe {
        (word(b, BARRIER_SHARED).load(Relaxed) == 0)
            .then(|| &*b.cast::<u8>().add(16).cast::<Barrier>())
    }
}

/// See `pthread_barrier_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_init(
    b: *mut pthread_barrier_t,
    attr: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    let mut shared = 0;
    // SAFETY: the caller's contract.
    unsafe {
        if !attr.is_null() {
            pthread_barrierattr_getpshared(attr, &mut shared);
        }
        if shared == PTHREAD_PROCESS_SHARED {
            return real!(pthread_barrier_init(b => *mut pthread_barrier_t,
                attr => *const pthread_barrierattr_t,
                count => c_uint) -> c_int);
        }
        if count == 0 || count > i32::MAX as u32 {
            return EINVAL;
        }
        ptr::write_bytes(b, 0, 1);
        b.cast::<u8>().add(16).cast::<Barrier>().write(Barrier::new(count));
    }
    0
}

/// See `pthread_barrier_destroy(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(b: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match barrier(b) {
            Some(own) => {
                own.quiesce();
                0
            }
            None => real!(pthread_barrier_destroy(b => *mut pthread_barrier_t) -> c_int),
        }
    }
}

/// See `pthread_barrier_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_wait(b: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match barrier(b) {
            Some(own) => {
                if own.wait_through(|wait| through_handlers(None, wait)) {
                    PTHREAD_BARRIER_SERIAL_THREAD
                } else {
                    0
                }
            }
            None => {
                off_worker(|| real!(pthread_barrier_wait(b => *mut pthread_barrier_t) -> c_int))
            }
        }
    }
}
