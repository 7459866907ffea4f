//! The functions of `include/quaver_lock.h`, which documents them.
//!
//! A panic would end the process, as it must at the edge to C; none is expected.

use crate::monitor::{self, Source};
use crate::raw::Lock;
use std::ffi::c_char;
use std::time::Duration;

/// # Safety
///
/// `lock` points to a lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn quaver_lock_lock(lock: *const Lock) {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.lock();
}

/// # Safety
///
/// `lock` points to a lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn quaver_lock_trylock(lock: *const Lock) -> bool {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.try_lock()
}

/// # Safety
///
/// `lock` points to a lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn quaver_lock_timedlock(lock: *const Lock, nanoseconds: u64) -> bool {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.try_lock_for(Duration::from_nanos(nanoseconds))
}

/// # Safety
///
/// `lock` points to a lock, which the calling thread holds.
#[unsafe(no_mangle)]
unsafe extern "C" fn quaver_lock_unlock(lock: *const Lock) {
    // SAFETY: the caller's lock, and the calling thread holds it.
    unsafe { (*lock).unlock() }
}

/// # Safety
///
/// `why` is null, or points to `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn quaver_lock_attach(why: *mut c_char, size: usize) -> u32 {
    match monitor::attach() {
        Ok(Source::Lockd) => 1,
        Ok(Source::Own) => 2,
        Err(absent) => {
            if !why.is_null() && size > 0 {
                let text = absent.to_string();
                let mut length = text.len().min(size - 1);
                while !text.is_char_boundary(length) {
                    length -= 1;
                }
                // SAFETY: `size` bytes, of which this writes `length` and a zero.
                unsafe {
                    why.copy_from_nonoverlapping(text.as_ptr().cast(), length);
                    why.add(length).write(0);
                }
            }
            0
        }
    }
}
