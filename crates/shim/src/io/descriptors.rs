//! Descriptors that are made, and those that are closed or replaced while threads wait for them.

use super::{aliases, blocker, raw, returned};
use crate::real::real;
use crate::{cancel, refuse, sys};
use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong};
use libc::*;
use quaver::foreign::calls::descriptors::{Made, has_set, leave, leave_range, made};

/// A call that makes a descriptor.
fn make(number: c_long, a: [usize; 3], what: Made) -> c_int {
    let new = returned(raw(number, [a[0], a[1], a[2], 0, 0, 0])) as c_int;
    if new >= 0 {
        made(new, what);
    }
    new
}

/// A call that may change whether calls on a file wait, and how long.
pub(super) fn set(number: c_long, a: [usize; 6]) -> c_int {
    let result = returned(raw(number, a)) as c_int;
    has_set(number, a);
    result
}

/// [`leave`] for the descriptor of a stream, which the C library closes unseen.
///
/// # Safety
///
/// It is a stream.
unsafe fn leave_stream(stream: *mut FILE) {
    let errno = sys::saved_errno();
    // SAFETY: the caller's contract.
    leave(unsafe { fileno(stream) });
    sys::set_errno(errno);
}

fn close_impl(fd: c_int) -> c_int {
    if blocker().is_some() {
        cancel::test();
    }
    leave(fd);
    returned(raw(SYS_close, [fd as usize, 0, 0, 0, 0, 0])) as c_int
}

fn close_range_impl(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOEXEC: c_int = CLOSE_RANGE_CLOEXEC as c_int;
    if first <= last && flags & CLOEXEC == 0 {
        leave_range(first, last);
    }
    let Some(flags) = refuse::close_range(flags) else { return -1 };
    let a = [first as usize, last as usize, flags as usize, 0, 0, 0];
    returned(raw(SYS_close_range, a)) as c_int
}

fn dup_impl(old: c_int, new: c_int, flags: Option<c_int>) -> c_int {
    if old != new {
        leave(new);
    }
    let (old, new) = (old as usize, new as usize);
    returned(match flags {
        None => raw(SYS_dup2, [old, new, 0, 0, 0, 0]),
        Some(flags) => raw(SYS_dup3, [old, new, flags as usize, 0, 0, 0]),
    }) as c_int
}

aliases! {
    /// See `socket(2)`.
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int =
        make(SYS_socket, [family as usize, kind as usize, protocol as usize], Made::Socket);
    /// See `socketpair(2)`.
    fn socketpair(family: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int = {
        let a = [family as usize, kind as usize, protocol as usize, pair as usize, 0, 0];
        let result = returned(raw(SYS_socketpair, a)) as c_int;
        if result == 0 {
            // SAFETY: the kernel has written both.
            let both = unsafe { pair.cast::<[c_int; 2]>().read_unaligned() };
            both.into_iter().for_each(|new| made(new, Made::Socket));
        }
        result
    };
    /// See `epoll_create(2)`.
    fn epoll_create(size: c_int) -> c_int =
        make(SYS_epoll_create, [size as usize, 0, 0], Made::Epoll);
    /// See `epoll_create1(2)`.
    fn epoll_create1(flags: c_int) -> c_int =
        make(SYS_epoll_create1, [flags as usize, 0, 0], Made::Epoll);
    /// See `fclose(3)`.
    fn fclose(stream: *mut FILE) -> c_int = {
        // SAFETY: the caller's contract.
        unsafe {
            leave_stream(stream);
            real!(fclose(stream => *mut FILE) -> c_int)
        }
    };
    /// See `freopen(3)`.
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE = {
        // SAFETY: the caller's contract.
        unsafe {
            leave_stream(stream);
            real!(freopen(path => *const c_char, mode => *const c_char, stream => *mut FILE)
                -> *mut FILE)
        }
    };
    /// `freopen` for large files.
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE =
        // SAFETY: the caller's contract; the same function.
        unsafe { freopen(path, mode, stream) };
    /// See `closefrom(3)`.
    fn closefrom(first: c_int) -> () = {
        leave_range(first.max(0) as c_uint, c_uint::MAX);
        // SAFETY: handed on.
        unsafe { real!(closefrom(first => c_int) -> ()) }
    };
    /// See `ioctl(2)`.
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int =
        set(SYS_ioctl, [fd as usize, request as usize, argument, 0, 0, 0]);
    /// See `close(2)`.
    fn close(fd: c_int) -> c_int = close_impl(fd);
    /// `close` as called by libraries.
    fn __close(fd: c_int) -> c_int = close_impl(fd);
    /// See `close_range(2)`.
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int =
        close_range_impl(first, last, flags);
    /// See `dup2(2)`.
    fn dup2(old: c_int, new: c_int) -> c_int = dup_impl(old, new, None);
    /// `dup2` as called by libraries.
    fn __dup2(old: c_int, new: c_int) -> c_int = dup_impl(old, new, None);
    /// See `dup3(2)`.
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int = dup_impl(old, new, Some(flags));
}
