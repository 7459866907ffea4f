//! Spinlocks, with glibc's values: 1 is free. So `pthread_spin_init` is glibc's, and a lock in
//! shared memory may be used by processes without this library.
//!
//! While the monitor sees no preempted holder, a waiter spins. Otherwise it gives its CPU away
//! between looks, so that the holder gets one. It never sleeps: 4 bytes have no room for waiters.

use libc::pthread_spinlock_t;
use quaver_lock::parts::{self, Spin};
use std::ffi::c_int;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const FREE: i32 = 1;
const HELD: i32 = 0;

/// # Safety
///
/// `lock` is an initialised spinlock and stays so.
unsafe fn of<'a>(lock: *mut pthread_spinlock_t) -> &'a AtomicI32 {
    // SAFETY: the caller's, an int.
    unsafe { &*lock.cast::<AtomicI32>() }
}

fn take(word: &AtomicI32) -> bool {
    parts::enter();
    let taken = word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok();
    if !taken {
        parts::leave();
    }
    taken
}

/// See `pthread_spin_lock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's contract.
    let word = unsafe { of(lock) };
    while !take(word) {
        let mut spin = Spin::new();
        while word.load(Relaxed) != FREE {
            if !spin.again() {
                std::thread::yield_now();
                spin = Spin::new();
            }
        }
    }
    0
}

/// See `pthread_spin_trylock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's contract.
    if take(unsafe { of(lock) }) { 0 } else { libc::EBUSY }
}

/// See `pthread_spin_unlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { of(lock) }.store(FREE, Release);
    parts::leave();
    0
}
