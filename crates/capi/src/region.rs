//! Non-preemptible regions and calls that block.

use crate::report;
use crate::status::{Failure, Status};
use core::ffi::{c_int, c_void};
use quaver::foreign::{blocking, region};

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_no_preempt_begin() {
    region::begin();
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_no_preempt_end() -> c_int {
    report(region::end().then_some(()).ok_or_else(|| {
        Failure::new(Status::State, "quaver_no_preempt_end: no region has been begun")
    }))
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_is_preemptible() -> bool {
    quaver::is_preemptible()
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_blocking_begin() {
    blocking::begin();
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_blocking_end() {
    blocking::end();
}

/// See `quaver.h`.
///
/// # Safety
///
/// `function` may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn quaver_block_in_place(
    function: Option<unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void>,
    argument: *mut c_void,
) -> *mut c_void {
    let Some(function) = function else { return core::ptr::null_mut() };
    // SAFETY: the caller's contract.
    quaver::block_in_place(|| unsafe { function(argument) })
}
