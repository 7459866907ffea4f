//! What cannot work is refused when it is called, with the reason: functions that would do
//! something else on user threads than the program expects. They work in the children of forks,
//! which have no user threads.
//!
//! `QUAVER_SHIM_ALLOW` lists names to let pass, separated by commas, for users who know better.

use crate::real::real;
use crate::say::{Once, once};
use crate::signal;
use crate::state::LIVE;
use crate::{sys, vfork};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A function that cannot work.
#[derive(Clone, Copy)]
enum Function {
    Unshare,
    Setns,
    Clone,
    CloseRange,
}

impl Function {
    const ALL: [Function; 4] =
        [Function::Unshare, Function::Setns, Function::Clone, Function::CloseRange];

    fn name(self) -> &'static str {
        match self {
            Function::Unshare => "unshare",
            Function::Setns => "setns",
            Function::Clone => "clone",
            Function::CloseRange => "close_range",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Function::Clone => "makes kernel threads of its own, or processes with half a thread",
            Function::CloseRange => "gives descriptors of its own to one kernel thread",
            _ => "changes the kernel thread that happens to run the caller",
        }
    }

    fn said(self) -> Once {
        match self {
            Function::Clone => Once::Clone,
            _ => Once::KernelThread,
        }
    }
}

/// Those that the user lets pass.
static ALLOWED: AtomicU32 = AtomicU32::new(0);

/// Finds out what the user lets pass. Before `main`.
pub(crate) fn start() {
    let allowed = std::env::var("QUAVER_SHIM_ALLOW").unwrap_or_default();
    for f in Function::ALL {
        if allowed.split(',').any(|name| name == f.name()) {
            ALLOWED.fetch_or(1 << f as u32, Relaxed);
        }
    }
}

/// Is the caller a thread of the program's on whatever kernel thread, not the child of a fork?
pub(crate) fn on_user_thread() -> bool {
    signal::managed().is_some() && !signal::in_child_of_vfork()
}

/// The flags of a `close_range` as it is to be called. `None`: not at all, and `errno` is set. Who
/// wants descriptors of its own has them where there is no other thread.
pub(crate) fn close_range(flags: c_int) -> Option<c_int> {
    const UNSHARE: c_int = libc::CLOSE_RANGE_UNSHARE as c_int;
    const OTHERS: c_int = !(UNSHARE | libc::CLOSE_RANGE_CLOEXEC as c_int);
    // What the kernel refuses anyway is left to it.
    if flags & UNSHARE == 0 || flags & OTHERS != 0 || !on_user_thread() {
        Some(flags)
    } else if LIVE.load(Relaxed) == 1 {
        Some(flags & !UNSHARE)
    } else {
        may_call(Function::CloseRange).then_some(flags)
    }
}

/// May it be called? Else `errno` is set. The children of forks may, and threads of the runtime's
/// own.
fn may_call(f: Function) -> bool {
    if !on_user_thread() || ALLOWED.load(Relaxed) & 1 << f as u32 != 0 {
        return true;
    }
    refused(f.said(), f.name(), f.why());
    false
}

/// Says once why `name` fails on user threads; the result is that of such a call.
pub(crate) fn refused(said: Once, name: &str, why: &str) -> c_int {
    once(said, format_args!("{name}, which {why}, was called: it fails on user threads (EPERM)"));
    sys::failed(libc::EPERM)
}

/// See `unshare(2)`: fails with `EPERM` on user threads.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    if may_call(Function::Unshare) {
        // SAFETY: handed on.
        unsafe { real!(unshare(flags => c_int) -> c_int) }
    } else {
        -1
    }
}

/// See `setns(2)`: fails with `EPERM` on user threads.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(fd: c_int, kind: c_int) -> c_int {
    if may_call(Function::Setns) {
        // SAFETY: handed on.
        unsafe { real!(setns(fd => c_int, kind => c_int) -> c_int) }
    } else {
        -1
    }
}

/// See `clone(2)`: fails with `EPERM` on user threads. The last three arguments are there if the
/// flags say so, and else whatever is in their place.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    f: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut c_void,
    tls: *mut c_void,
    child: *mut c_void,
) -> c_int {
    if may_call(Function::Clone) {
        if flags & libc::CLONE_VM != 0 && flags & libc::CLONE_THREAD == 0 {
            vfork::is_made_by_clone();
        }
        // SAFETY: handed on.
        unsafe {
            real!(clone(f => *mut c_void, stack => *mut c_void, flags => c_int,
                argument => *mut c_void,
                parent => *mut c_void, tls => *mut c_void, child => *mut c_void) -> c_int)
        }
    } else {
        -1
    }
}
