//! System calls, made here and not in the C library: no `errno`, no cancellation, and no address at
//! which preemption is put off.

use core::arch::asm;

/// Makes a system call; the result is the kernel's: negative errors.
///
/// # Safety
///
/// The kernel does with the arguments what it does.
#[inline]
pub(crate) unsafe fn call(number: i64, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller's contract; the kernel changes rax, rcx, r11 and memory.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// The calling kernel thread.
pub(crate) fn kernel_tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

/// Is the file description of `fd` in non-blocking mode?
pub(crate) fn nonblocking(fd: i32) -> bool {
    // SAFETY: no memory.
    let flags = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as i32 & libc::O_NONBLOCK != 0
}

/// Is `fd` ready for `events` (or in error)?
pub(crate) fn ready(fd: i32, events: i16) -> bool {
    let mut p = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    unsafe { call(libc::SYS_poll, [&raw mut p as usize, 1, 0, 0, 0, 0]) != 0 }
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
