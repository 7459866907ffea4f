//! Onces, whose word has the C library's values.

use crate::interrupt::through_handlers;
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;
use libc::pthread_once_t;
use quaver::foreign::{futex, once};

/// See `pthread_once(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_once(
    control: *mut pthread_once_t,
    routine: unsafe extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        once::call_or_wait(
            &*control.cast::<AtomicU32>(),
            || routine(),
            |word, value| {
                through_handlers(None, |limits| futex::wait(word, value, limits));
            },
        );
    }
    0
}

/// See `call_once(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn call_once(
    control: *mut c_void,
    routine: unsafe extern "C-unwind" fn(),
) {
    // SAFETY: the caller's contract.
    unsafe { pthread_once(control.cast(), routine) };
}
