//! Queues, semaphores of System V, and the resolver.

use super::{Restart, aliases, always, off_worker, when_ready};
use crate::real::real;
use crate::signal;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::*;
use quaver::foreign::names::are_numbers;

aliases! {
    /// See `msgrcv(2)`.
    fn msgrcv(id: c_int, message: *mut c_void, n: usize, kind: c_long, flags: c_int) -> isize =
        always(Restart::Never, SYS_msgrcv,
            [id as usize, message as usize, n, kind as usize, flags as usize, 0]) as isize;
    /// See `msgsnd(2)`.
    fn msgsnd(id: c_int, message: *const c_void, n: usize, flags: c_int) -> c_int =
        always(Restart::Never, SYS_msgsnd,
            [id as usize, message as usize, n, flags as usize, 0, 0]);
    /// See `semop(2)`.
    fn semop(id: c_int, operations: *mut c_void, n: usize) -> c_int =
        always(Restart::Never, SYS_semop, [id as usize, operations as usize, n, 0, 0, 0]);
    /// See `getaddrinfo(3)`.
    fn getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo,
        result: *mut *mut addrinfo)
        -> c_int = {
            let real = || {
                // SAFETY: handed on.
                unsafe {
                    real!(getaddrinfo(node => *const c_char, service => *const c_char,
                        hints => *const addrinfo, result => *mut *mut addrinfo) -> c_int)
                }
            };
            // SAFETY: null, or texts that live across the call.
            let text = |at: *const c_char| (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) });
            if are_numbers(text(node), text(service)) { real() } else { off_worker(real) }
        };
    /// See `semtimedop(2)`.
    fn semtimedop(id: c_int, operations: *mut c_void, n: usize, timeout: *const timespec) -> c_int =
        always(Restart::Never, SYS_semtimedop,
            [id as usize, operations as usize, n, timeout as usize, 0, 0]);
    /// See `mq_receive(3)`.
    fn mq_receive(queue: c_int, message: *mut c_char, n: usize, priority: *mut c_uint) -> isize =
        when_ready(queue, POLLIN, SYS_mq_timedreceive,
            [queue as usize, message as usize, n, priority as usize, 0, 0]);
    /// See `mq_timedreceive(3)`.
    fn mq_timedreceive(queue: c_int, message: *mut c_char, n: usize, priority: *mut c_uint,
        at: *const timespec)
        -> isize = when_ready(queue, POLLIN, SYS_mq_timedreceive,
            [queue as usize, message as usize, n, priority as usize, at as usize, 0]);
    /// See `mq_send(3)`.
    fn mq_send(queue: c_int, message: *const c_char, n: usize, priority: c_uint) -> c_int =
        notified(when_ready(queue, POLLOUT, SYS_mq_timedsend,
            [queue as usize, message as usize, n, priority as usize, 0, 0]) as c_int);
    /// See `mq_timedsend(3)`.
    fn mq_timedsend(queue: c_int, message: *const c_char, n: usize, priority: c_uint,
        at: *const timespec)
        -> c_int = notified(when_ready(queue, POLLOUT, SYS_mq_timedsend,
            [queue as usize, message as usize, n, priority as usize, at as usize, 0]) as c_int);
    /// See `mq_notify(3)`.
    fn mq_notify(queue: c_int, how: *const sigevent) -> c_int = {
        // SAFETY: handed on.
        let result = unsafe {
            real!(mq_notify(queue => c_int, how => *const sigevent) -> c_int)
        };
        // SAFETY: null or the caller's.
        let how = unsafe { how.as_ref() };
        if result == 0 && how.is_some_and(|how| how.sigev_notify == SIGEV_SIGNAL) {
            NOTIFIES.store(true, Relaxed);
        }
        result
    };
}

/// Has the program asked for a signal when a message comes?
static NOTIFIES: AtomicBool = AtomicBool::new(false);

/// A message has been sent, if `result` is 0. A signal that tells this process of it comes before
/// the call returns.
fn notified(result: c_int) -> c_int {
    if result == 0 && NOTIFIES.load(Relaxed) {
        signal::settle();
    }
    result
}
