//! What a thread may do: its capabilities, and what it must not gain or call any more. The kernel
//! keeps that for each kernel thread, and a thread of the program may run on any of them. So it is
//! the process's here: what one thread gives up, all have given up. Natively so it is for programs
//! that do this before they make threads.
//!
//! Filters of system calls see those of the runtime as well.

use crate::memory;
use crate::refuse::{on_user_thread, refused};
use crate::say::Once;
use crate::sys::{call, returned};
use crate::thread::{gettid, with_thread};
use core::ffi::{c_int, c_long, c_ulong, c_void};
use libc::pid_t;
use quaver::foreign::everywhere;

/// As `prctl(2)`, where that is about what a thread may do. `None`: it is not.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn prctl(option: c_int, a: [c_ulong; 4]) -> Option<c_int> {
    if !on_user_thread() {
        return None;
    }
    let changes = match option {
        libc::PR_SET_SECCOMP => {
            // SAFETY: the caller's contract.
            return unsafe {
                match a[0] as u32 {
                    libc::SECCOMP_MODE_STRICT => Some(strict()),
                    libc::SECCOMP_MODE_FILTER => Some(filter(0, a[1] as usize)),
                    _ => None,
                }
            };
        }
        libc::PR_CAP_AMBIENT => a[0] as c_int != libc::PR_CAP_AMBIENT_IS_SET,
        libc::PR_CAPBSET_DROP
        | libc::PR_SET_KEEPCAPS
        | libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_SET_SECUREBITS
        | libc::PR_SET_SPECULATION_CTRL => true,
        _ => false,
    };
    // SAFETY: numbers.
    changes.then(|| unsafe { everywhere(libc::SYS_prctl, [option as u64, a[0], a[1], a[2], a[3]]) })
}

/// As `seccomp(2)`.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn seccomp(operation: c_int, flags: u32, a: usize) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match operation as u32 {
            libc::SECCOMP_SET_MODE_STRICT if on_user_thread() && flags == 0 && a == 0 => strict(),
            libc::SECCOMP_SET_MODE_FILTER if on_user_thread() => filter(flags, a),
            _ => {
                let a = [operation as usize, flags as usize, a, 0, 0, 0];
                returned(call(libc::SYS_seccomp, a)) as c_int
            }
        }
    }
}

/// Reading, writing and ending is not enough for the runtime.
fn strict() -> c_int {
    refused(Once::Strict, "SECCOMP_MODE_STRICT", "forbids the runtime's own system calls")
}

/// A filter, for all kernel threads at once. Those that there will be inherit it.
///
/// # Safety
///
/// As for the call.
unsafe fn filter(flags: u32, program: usize) -> c_int {
    const ALL: c_ulong = libc::SECCOMP_FILTER_FLAG_TSYNC;
    let asked = c_ulong::from(flags);
    let listens = asked & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0;
    // Who gets a descriptor cannot be told of a thread.
    let says = if listens { libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH } else { 0 };
    let flags = (asked | ALL | says) as usize;
    let a = [libc::SECCOMP_SET_MODE_FILTER as usize, flags, program, 0, 0, 0];
    // SAFETY: the caller's contract.
    let r = unsafe { call(libc::SYS_seccomp, a) };
    let is_thread = r > 0 && !listens && asked & ALL == 0;
    returned(if is_thread { -(libc::ESRCH as isize) } else { r }) as c_int
}

/// As `landlock_restrict_self(2)`.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn landlock(rules: c_int, flags: u32) -> c_int {
    const NUMBER: c_long = libc::SYS_landlock_restrict_self;
    // SAFETY: the caller's contract, and numbers.
    unsafe {
        if on_user_thread() {
            everywhere(NUMBER, [rules as u64, flags.into(), 0, 0, 0])
        } else {
            returned(call(NUMBER, [rules as usize, flags as usize, 0, 0, 0, 0])) as c_int
        }
    }
}

/// Whose capabilities are meant.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Header {
    version: u32,
    pid: pid_t,
}

/// Does `f` with a header that means the calling kernel thread, if the program's means whom
/// `is_own` says; else with the program's own.
///
/// # Safety
///
/// A header, if anything can be read there.
unsafe fn with_header(
    header: *mut Header,
    is_own: impl FnOnce(pid_t) -> bool,
    f: impl FnOnce(*mut Header, bool) -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let given = match unsafe { memory::get(header) } {
        Ok(given) if is_own(given.pid) => given,
        // The kernel finds what is wrong.
        _ => return f(header, false),
    };
    let mut own = Header { pid: 0, ..given };
    let result = f(&mut own, true);
    // The kernel's version, if it does not know the program's.
    if own.version != given.version {
        // SAFETY: as above.
        let _ = unsafe { memory::put(header, Header { version: own.version, ..given }) };
    }
    result
}

/// See `capget(2)`: the capabilities of one thread are those of all.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn capget(header: *mut Header, data: *mut c_void) -> c_int {
    let get = |header: *mut Header, _| {
        // SAFETY: the caller's contract.
        let r = unsafe { call(libc::SYS_capget, [header as usize, data as usize, 0, 0, 0, 0]) };
        returned(r) as c_int
    };
    // SAFETY: as above.
    unsafe { with_header(header, |pid| with_thread(pid, |_| ()).is_some(), get) }
}

/// See `capset(2)`: for all threads.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn capset(header: *mut Header, data: *const c_void) -> c_int {
    let set = |header: *mut Header, is_own| {
        // SAFETY: the caller's contract; both stay until all have made the call.
        unsafe {
            if is_own && on_user_thread() {
                everywhere(libc::SYS_capset, [header as u64, data as u64, 0, 0, 0])
            } else {
                returned(call(libc::SYS_capset, [header as usize, data as usize, 0, 0, 0, 0]))
                    as c_int
            }
        }
    };
    // SAFETY: as above.
    unsafe { with_header(header, |pid| pid == 0 || pid == gettid(), set) }
}
