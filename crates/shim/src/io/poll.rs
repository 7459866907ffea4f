//! Waiting for one of many: `poll`, `select`, `epoll_wait`, with the masks of some of them.

use super::{EAGAIN_, Restart, aliases, raw, returned, try_then_wait};
use crate::signal::mask::Temporary;
use crate::{sys, time};
use core::ffi::c_int;
use core::ptr;
use libc::*;

fn timed(t: *const timespec) -> Option<i128> {
    // SAFETY: the caller's contract: null or valid.
    unsafe { t.as_ref() }.map(|t| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec))
}

fn pointer(t: &Option<timespec>) -> usize {
    t.as_ref().map_or(0, |t| ptr::from_ref(t) as usize)
}

/// A call with a timeout in nanoseconds (`None`: for ever), which is 0 for the first try and
/// shrinks when it is repeated.
fn timed_call(span: Option<i128>, make: impl Fn(&Option<timespec>) -> isize) -> isize {
    let spec = |n: i128| {
        Some(timespec { tv_sec: (n / 1_000_000_000) as i64, tv_nsec: (n % 1_000_000_000) as i64 })
    };
    let end = span.map(|span| time::now(CLOCK_MONOTONIC) + span);
    let first = || match make(&spec(0)) {
        0 if span != Some(0) => EAGAIN_,
        r => r,
    };
    let real = |again: bool| match (span, end) {
        (Some(span), _) if !again => {
            make(&if span < 0 { Some(timespec { tv_sec: -1, tv_nsec: 0 }) } else { spec(span) })
        }
        (Some(_), Some(end)) => make(&spec((end - time::now(CLOCK_MONOTONIC)).max(0))),
        _ => make(&None),
    };
    returned(try_then_wait(Restart::Never, first, real))
}

/// A call that blocks other signals meanwhile: `f` is told what the kernel is to be told.
fn with_mask(mask: *const sigset_t, f: impl FnOnce(usize) -> isize) -> isize {
    // SAFETY: the caller's contract: null or a valid set.
    let temporary = unsafe { Temporary::begin(mask) };
    let result = f(temporary.for_kernel(mask));
    if result == 0 && temporary.is_interrupted() {
        sys::set_errno(EINTR);
        return -1;
    }
    let errno = sys::saved_errno();
    drop(temporary);
    sys::set_errno(errno);
    result
}

fn poll_impl(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int {
    let span = (timeout >= 0).then_some(i128::from(timeout) * 1_000_000);
    timed_call(span, |t| raw(SYS_ppoll, [fds as usize, n as usize, pointer(t), 0, 8, 0])) as c_int
}

fn epoll_impl(fd: c_int, events: *mut epoll_event, n: c_int, timeout: c_int, mask: usize) -> c_int {
    let end = (timeout > 0).then(|| time::now(CLOCK_MONOTONIC) + i128::from(timeout) * 1_000_000);
    let make = |ms: c_int| {
        raw(SYS_epoll_pwait, [fd as usize, events as usize, n as usize, ms as usize, mask, 8])
    };
    let first = || match make(0) {
        0 if timeout != 0 => EAGAIN_,
        r => r,
    };
    let real = |again: bool| match end {
        Some(end) if again => {
            let left = (end - time::now(CLOCK_MONOTONIC)).max(0);
            make((left / 1_000_000) as c_int + c_int::from(left % 1_000_000 != 0))
        }
        _ => make(timeout),
    };
    returned(try_then_wait(Restart::Never, first, real)) as c_int
}

aliases! {
    /// See `poll(2)`.
    fn poll(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int = poll_impl(fds, n, timeout);
    /// `poll` of code that checks the sizes of its buffers.
    fn __poll_chk(fds: *mut pollfd, n: nfds_t, timeout: c_int, _size: usize) -> c_int =
        poll_impl(fds, n, timeout);
    /// See `ppoll(2)`.
    fn ppoll(fds: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t)
        -> c_int = {
        let span = timed(timeout);
        with_mask(mask, |mask| {
            timed_call(span, |t| raw(SYS_ppoll, [fds as usize, n as usize, pointer(t), mask, 8, 0]))
        }) as c_int
    };
    /// See `select(2)`.
    fn select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *mut timeval)
        -> c_int = {
        let nanos =
            |t: &timeval| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_usec) * 1000;
        // SAFETY: the caller's contract.
        let span = unsafe { timeout.as_ref() }.map(nanos);
        let sets = Sets::save([r, w, e], n);
        let began = time::now(CLOCK_MONOTONIC);
        let result = timed_call(span, |t| {
            sets.restore();
            raw(SYS_pselect6, [n as usize, r as usize, w as usize, e as usize, pointer(t), 0])
        });
        if let Some(span) = span {
            // Linux says what is left.
            let left = (span - (time::now(CLOCK_MONOTONIC) - began)).max(0);
            let (tv_sec, tv_usec) = (left / 1_000_000_000, left % 1_000_000_000 / 1000);
            let left = timeval { tv_sec: tv_sec as i64, tv_usec: tv_usec as i64 };
            // SAFETY: not null.
            unsafe { timeout.write(left) };
        }
        result as c_int
    };
    /// See `pselect(2)`.
    fn pselect(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *const timespec,
        mask: *const sigset_t)
        -> c_int = {
        let (span, sets) = (timed(timeout), Sets::save([r, w, e], n));
        with_mask(mask, |mask| {
            let mask = [mask, 8];
            timed_call(span, |t| {
                sets.restore();
                raw(SYS_pselect6, [n as usize, r as usize, w as usize, e as usize, pointer(t),
                    &raw const mask as usize])
            })
        }) as c_int
    };
    /// See `epoll_wait(2)`.
    fn epoll_wait(fd: c_int, events: *mut epoll_event, n: c_int, timeout: c_int) -> c_int =
        epoll_impl(fd, events, n, timeout, 0);
    /// See `epoll_pwait(2)`.
    fn epoll_pwait(fd: c_int, events: *mut epoll_event, n: c_int, timeout: c_int,
        mask: *const sigset_t) -> c_int =
        with_mask(mask, |mask| epoll_impl(fd, events, n, timeout, mask) as isize) as c_int;
    /// See `epoll_pwait2(2)`.
    fn epoll_pwait2(fd: c_int, events: *mut epoll_event, n: c_int, timeout: *const timespec,
        mask: *const sigset_t)
        -> c_int = with_mask(mask, |mask| timed_call(timed(timeout), |t| {
            raw(SYS_epoll_pwait2, [fd as usize, events as usize, n as usize, pointer(t), mask, 8])
        })) as c_int;
}

/// Sets of `select`, which every try overwrites.
struct Sets {
    at: [*mut fd_set; 3],
    saved: [fd_set; 3],
    bytes: usize,
}

impl Sets {
    fn save(at: [*mut fd_set; 3], n: c_int) -> Sets {
        let bytes = (n.clamp(0, FD_SETSIZE as c_int) as usize).div_ceil(64) * 8;
        // SAFETY: all-zero sets; those of the program have room for `n` bits.
        let mut saved: [fd_set; 3] = unsafe { core::mem::zeroed() };
        for (from, to) in at.iter().zip(&mut saved) {
            if !from.is_null() {
                // SAFETY: as above.
                unsafe {
                    ptr::copy_nonoverlapping(from.cast::<u8>(), ptr::from_mut(to).cast(), bytes)
                };
            }
        }
        Sets { at, saved, bytes }
    }

    fn restore(&self) {
        for (to, from) in self.at.iter().zip(&self.saved) {
            if !to.is_null() {
                // SAFETY: as above.
                unsafe {
                    ptr::copy_nonoverlapping(
                        ptr::from_ref(from).cast::<u8>(),
                        to.cast(),
                        self.bytes,
                    )
                };
            }
        }
    }
}
