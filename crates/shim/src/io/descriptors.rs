//! Descriptors that are closed or replaced while threads wait for them.

use super::{aliases, blocker, raw, returned};
use crate::cancel;
use core::ffi::{c_int, c_uint};
use libc::*;
use quaver::foreign::calls::descriptors::{leave, leave_range};

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
