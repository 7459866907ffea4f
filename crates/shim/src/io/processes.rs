//! Waiting for processes, and making them.

use super::{EAGAIN_, Restart, aliases, always, off_worker, raw, returned, try_then_wait};
use crate::real::real;
use crate::signal::settle;
use core::ffi::c_int;
use core::ptr;
use libc::*;

/// A child has changed its state: so the signal that says so has been sent, and what the child had
/// sent before. That comes before the call returns.
fn after_child(found: bool) {
    if found {
        settle();
    }
}

fn wait_impl(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    let a =
        |options: c_int| [pid as usize, status as usize, options as usize, usage as usize, 0, 0];
    if options & WNOHANG != 0 {
        let result = raw(SYS_wait4, a(options));
        after_child(result > 0);
        return returned(result) as pid_t;
    }
    let first = || match raw(SYS_wait4, a(options | WNOHANG)) {
        0 => EAGAIN_,
        r => r,
    };
    let result = try_then_wait(Restart::Yes, first, |_| raw(SYS_wait4, a(options)));
    after_child(result > 0);
    returned(result) as pid_t
}

aliases! {
    /// See `wait(2)`.
    fn wait(status: *mut c_int) -> pid_t = wait_impl(-1, status, 0, ptr::null_mut());
    /// See `waitpid(2)`.
    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t =
        wait_impl(pid, status, options, ptr::null_mut());
    /// See `wait3(2)`.
    fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t =
        wait_impl(-1, status, options, usage);
    /// See `wait4(2)`.
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t =
        wait_impl(pid, status, options, usage);
    /// See `waitid(2)`.
    fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int = {
        let a = [kind as usize, id as usize, info as usize, options as usize, 0, 0];
        let result = if options & WNOHANG != 0 {
            returned(raw(SYS_waitid, a)) as c_int
        } else {
            always(Restart::Yes, SYS_waitid, a)
        };
        after_child(result == 0);
        result
    };
    /// See `pclose(3)`.
    fn pclose(stream: *mut FILE) -> c_int = {
        // SAFETY: handed on.
        let status = off_worker(|| unsafe { real!(pclose(stream => *mut FILE) -> c_int) });
        after_child(status != -1);
        status
    };
}
