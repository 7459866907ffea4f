//! System calls, and `errno`.

use core::ffi::c_int;
use quaver::foreign::overlay;
pub(crate) use quaver::foreign::sys::{call, is_nonblocking, is_syscall, kernel_tid};

/// What a function that sets `errno` returns after this error; 0: there was none.
pub(crate) fn failed(errno: c_int) -> c_int {
    returned(-(errno as isize)) as c_int
}

/// Is `fd` ready for `events` (or in error)?
pub(crate) fn ready(fd: i32, events: i16) -> bool {
    let mut p = libc::pollfd { fd, events, revents: 0 };
    let a = [&raw mut p as usize, 1, 0, 0, 0, 0];
    // SAFETY: one entry.
    unsafe {
        let found = overlay::call(libc::SYS_poll, a, false);
        found.unwrap_or_else(|| call(libc::SYS_poll, a)) != 0
    }
}

/// Sets `errno` if `result` is an error, as the C library's wrappers do.
pub(crate) fn returned(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        set_errno(-result as i32);
        -1
    } else {
        result
    }
}

pub(crate) fn set_errno(errno: i32) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
}

pub(crate) fn saved_errno() -> i32 {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}
