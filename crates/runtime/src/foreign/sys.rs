//! System calls, made here and not in the C library: no `errno`, no cancellation, and no address at
//! which preemption is put off.

pub use crate::sys::{gettid as kernel_tid, is_nonblocking, is_syscall};

/// Makes a system call; the result is the kernel's: negative errors.
///
/// # Safety
///
/// The kernel does with the arguments what it does.
#[inline]
pub unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's contract.
    unsafe { crate::sys::syscall6(number, arguments.map(|a| a as u64)) as isize }
}
