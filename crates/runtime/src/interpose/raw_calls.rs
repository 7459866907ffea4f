//! System calls by libc's function `syscall` that a host of other programs answers itself: where
//! threads are the program's and not the kernel's, their numbers, masks and signals are not those
//! that the kernel knows.

use core::ffi::c_long;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// Answers a call of this number with these arguments as `syscall` does, `errno` included; `None`:
/// it is the kernel's. It is asked wherever the program is, in handlers of signals too.
pub type Answer = unsafe fn(c_long, &[c_long; 6]) -> Option<c_long>;

static ANSWER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// From now on `answer` is asked first, but for futexes.
pub fn set_answer(answer: Answer) {
    ANSWER.store(answer as *mut (), Release);
}

/// # Safety
///
/// As for libc's `syscall`.
pub(super) unsafe fn answer(number: c_long, arguments: &[c_long; 6]) -> Option<c_long> {
    let answer = ANSWER.load(Acquire);
    if answer.is_null() {
        return None;
    }
    // SAFETY: only `set_answer` stores there; the caller's contract is handed on.
    unsafe { core::mem::transmute::<*mut (), Answer>(answer)(number, arguments) }
}
