//! Spin locks: 1 free, 0 taken, as in the C library, so that process-shared ones work too.

use crate::signal::deliver;
use crate::{cancel, state};
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering::*};
use libc::EBUSY;
use quaver::foreign::thread;

/// See `pthread_spin_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_init(l: *mut c_int, _shared: c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { l.write(1) };
    0
}

/// See `pthread_spin_destroy(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_spin_destroy(_l: *mut c_int) -> c_int {
    0
}

/// See `pthread_spin_trylock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_trylock(l: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    let l = unsafe { &*l.cast::<AtomicI32>() };
    if l.compare_exchange(1, 0, Acquire, Relaxed).is_ok() { 0 } else { EBUSY }
}

/// See `pthread_spin_lock(3)`. Spins a little; then lets others run, among them, one hopes, the
/// owner.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_spin_lock(l: *mut c_int) -> c_int {
    let mut tries = 0u32;
    // SAFETY: the caller's contract.
    while unsafe { pthread_spin_trylock(l) } != 0 {
        tries += 1;
        if tries.is_multiple_of(64) {
            thread::try_yield();
            if let Some(me) = state::me() {
                deliver::deliver_here(me);
                if me.is_cancelled_anywhere() {
                    cancel::test();
                }
            }
        } else {
            core::hint::spin_loop();
        }
    }
    0
}

/// See `pthread_spin_unlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(l: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { &*l.cast::<AtomicI32>() }.store(1, Release);
    0
}
