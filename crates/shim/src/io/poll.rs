//! Waiting for one of many: `poll`, `select`, `epoll_wait`, with the masks of some of them.

use super::{Masked, Shim, aliases, returned};
use crate::signal::mask::Temporary;
use crate::sys;
use core::ffi::c_int;
use libc::*;
use quaver::foreign::calls::{self, Epoll, Span};

/// A call that blocks other signals meanwhile: `f` is told by whom it is to be made, and what the
/// kernel is to be told. Its result is the kernel's.
fn with_mask(mask: *const sigset_t, f: impl FnOnce(Masked<'_>, usize) -> isize) -> c_int {
    // SAFETY: the caller's contract: null or a valid set.
    let temporary = match unsafe { Temporary::begin(mask) } {
        Ok(temporary) => temporary,
        Err(errno) => return sys::failed(errno),
    };
    let mut result = f(Masked(&temporary), temporary.for_kernel(mask));
    if result == 0 && temporary.is_interrupted() {
        result = -(EINTR as isize);
    }
    drop(temporary);
    returned(result) as c_int
}

/// The span of a call, or the error that it is.
fn span(span: Option<Span>) -> Result<Span, c_int> {
    span.ok_or_else(|| {
        sys::set_errno(EINVAL);
        -1
    })
}

fn poll_impl(files: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int {
    let span = Span::of_millis(timeout);
    // SAFETY: the program's own arguments.
    returned(unsafe { calls::poll(Shim, files, n as usize, span, 0) }) as c_int
}

aliases! {
    /// See `poll(2)`.
    fn poll(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int = poll_impl(fds, n, timeout);
    /// `poll` as called by libraries.
    fn __poll(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int = poll_impl(fds, n, timeout);
    /// `poll` of code that checks the sizes of its buffers.
    fn __poll_chk(fds: *mut pollfd, n: nfds_t, timeout: c_int, _size: usize) -> c_int =
        poll_impl(fds, n, timeout);
    /// `ppoll` of code that checks the sizes of its buffers.
    fn __ppoll_chk(fds: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        _size: usize) -> c_int =
        // SAFETY: the caller's contract.
        unsafe { ppoll(fds, n, timeout, mask) };
    /// See `ppoll(2)`.
    fn ppoll(fds: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t)
        -> c_int = {
        // SAFETY: the caller's contract: null or valid.
        let span = match span(Span::of_timespec(unsafe { timeout.as_ref() })) {
            Ok(span) => span,
            Err(r) => return r,
        };
        // SAFETY: the caller's contract.
        with_mask(mask, |by, mask| unsafe { calls::poll(by, fds, n as usize, span, mask) })
    };
    /// See `select(2)`.
    fn select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *mut timeval)
        -> c_int = {
        // SAFETY: the caller's contract: null or valid.
        let span = match span(Span::of_timeval(unsafe { timeout.as_ref() })) {
            Ok(span) => span,
            Err(r) => return r,
        };
        // SAFETY: the caller's contract.
        let result = unsafe { calls::select(Shim, n, [r, w, e], span, 0) };
        if !timeout.is_null() {
            // Linux says what is left.
            let micros = span.rest() / 1000;
            let (tv_sec, tv_usec) = ((micros / 1_000_000) as i64, (micros % 1_000_000) as i64);
            // SAFETY: not null.
            unsafe { timeout.write(timeval { tv_sec, tv_usec }) };
        }
        returned(result) as c_int
    };
    /// See `pselect(2)`.
    fn pselect(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *const timespec,
        mask: *const sigset_t)
        -> c_int = {
        // SAFETY: the caller's contract: null or valid.
        let span = match span(Span::of_timespec(unsafe { timeout.as_ref() })) {
            Ok(span) => span,
            Err(r) => return r,
        };
        // SAFETY: the caller's contract.
        with_mask(mask, |by, mask| unsafe { calls::select(by, n, [r, w, e], span, mask) })
    };
    /// See `epoll_wait(2)`.
    fn epoll_wait(fd: c_int, events: *mut epoll_event, n: c_int, timeout: c_int) -> c_int =
        // SAFETY: the caller's contract.
        returned(unsafe { calls::epoll_wait(Shim, fd, events, n, Epoll::Millis(timeout), 0) })
            as c_int;
    /// See `epoll_pwait(2)`.
    fn epoll_pwait(fd: c_int, events: *mut epoll_event, n: c_int, timeout: c_int,
        mask: *const sigset_t) -> c_int =
        // SAFETY: the caller's contract.
        with_mask(mask, |by, mask| unsafe {
            calls::epoll_wait(by, fd, events, n, Epoll::Millis(timeout), mask)
        });
    /// See `epoll_pwait2(2)`.
    fn epoll_pwait2(fd: c_int, events: *mut epoll_event, n: c_int, timeout: *const timespec,
        mask: *const sigset_t)
        -> c_int = {
        // SAFETY: the caller's contract: null or valid.
        let time = match span(Span::of_timespec(unsafe { timeout.as_ref() })) {
            Ok(span) => Epoll::Exact(span),
            Err(r) => return r,
        };
        // SAFETY: the caller's contract.
        with_mask(mask, |by, mask| unsafe { calls::epoll_wait(by, fd, events, n, time, mask) })
    };
}
