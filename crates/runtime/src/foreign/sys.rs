//! System calls, made here and not in the C library: no `errno`, no cancellation, and no address at
//! which preemption is put off.

pub use crate::sys::{call, gettid as kernel_tid, is_nonblocking, is_syscall};
