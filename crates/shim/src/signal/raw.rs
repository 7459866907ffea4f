//! The system calls of signals that a program makes by `syscall(2)`: the functions of the C
//! library, with the kernel's sets, which are shorter, and its actions.

use super::action::sigaction;
use super::mask::{sigpending, sigprocmask, sigsuspend};
use super::send::is_own;
use super::wait::sigtimedwait;
use super::{bits, set_of, settle};
use crate::memory;
use crate::sys::{call, failed, returned};
use core::ffi::{c_int, c_long};
use core::ptr;
use libc::{siginfo_t, sigset_t, timespec};

type Arguments = [c_long; 6];

/// How long the kernel's sets are.
const SIZE: usize = size_of::<u64>();

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// Answers a call that is about signals. `None`: it is not, or the C library has no function that
/// does the same.
///
/// # Safety
///
/// As for `syscall`.
pub(crate) unsafe fn answer(number: c_long, a: &Arguments) -> Option<c_int> {
    // SAFETY: the caller's contract is that of the call.
    unsafe {
        Some(match number {
            libc::SYS_rt_sigqueueinfo | libc::SYS_pidfd_send_signal => sent(number, a),
            libc::SYS_rt_sigprocmask => sized(a[3], || masked(a)),
            libc::SYS_rt_sigaction if !(32..34).contains(&a[0]) => sized(a[3], || changed(a)),
            libc::SYS_rt_sigpending => sized(a[1], || pending(a)),
            libc::SYS_rt_sigsuspend => sized(a[1], || suspended(a)),
            libc::SYS_rt_sigtimedwait => sized(a[3], || waited(a)),
            _ => return None,
        })
    }
}

/// The call, if the program's sets are as long as the kernel's.
fn sized(size: c_long, f: impl FnOnce() -> Result<c_int, c_int>) -> c_int {
    if size == SIZE as c_long { f().unwrap_or_else(failed) } else { failed(libc::EINVAL) }
}

/// Sends a signal by way of the kernel, which knows no threads of the program. If that was for this
/// process, it comes before the call returns.
///
/// # Safety
///
/// As for the call.
unsafe fn sent(number: c_long, a: &Arguments) -> c_int {
    let mut a = a.map(|x| x as usize);
    if number == libc::SYS_rt_sigqueueinfo && is_own(a[0] as c_int) {
        a[0] = super::process() as usize;
    }
    // SAFETY: handed on.
    let r = returned(unsafe { call(number, a) });
    if r == 0 {
        settle();
    }
    r as c_int
}

/// Programs ask with a `how` that there is not whether memory can be read.
///
/// # Safety
///
/// As for the call.
unsafe fn masked(a: &Arguments) -> Result<c_int, c_int> {
    let (new, old) = (a[1] as *const u64, a[2] as *mut u64);
    // SAFETY: the caller's contract, and all zeroes are a set.
    unsafe {
        let set = memory::get_if_any(new)?.map(set_of);
        let set = set.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut before: sigset_t = core::mem::zeroed();
        let r = sigprocmask(a[0] as c_int, set, &mut before);
        if r == 0 && !old.is_null() {
            memory::put(old, bits(&before))?;
        }
        Ok(r)
    }
}

/// What a handler returns to is the C library's, whatever the program names.
///
/// # Safety
///
/// As for the call.
unsafe fn changed(a: &Arguments) -> Result<c_int, c_int> {
    let (new, old) = (a[1] as *const KernelAction, a[2] as *mut KernelAction);
    // SAFETY: the caller's contract; all zeroes are an action.
    unsafe {
        let action = memory::get_if_any(new)?.map(|new| libc::sigaction {
            sa_sigaction: new.handler,
            sa_mask: set_of(new.mask),
            sa_flags: new.flags as c_int,
            sa_restorer: None,
        });
        let given = action.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut before: libc::sigaction = core::mem::zeroed();
        let r = sigaction(a[0] as c_int, given, &mut before);
        if r == 0 && !old.is_null() {
            let before = KernelAction {
                handler: before.sa_sigaction,
                flags: u64::from(before.sa_flags as u32),
                restorer: before.sa_restorer.map_or(0, |f| f as usize),
                mask: bits(&before.sa_mask),
            };
            memory::put(old, before)?;
        }
        Ok(r)
    }
}

/// # Safety
///
/// As for the call.
unsafe fn pending(a: &Arguments) -> Result<c_int, c_int> {
    // SAFETY: all zeroes are a set; the caller's contract.
    unsafe {
        let mut set: sigset_t = core::mem::zeroed();
        let r = sigpending(&mut set);
        memory::put(a[0] as *mut u64, bits(&set))?;
        Ok(r)
    }
}

/// # Safety
///
/// As for the call.
unsafe fn suspended(a: &Arguments) -> Result<c_int, c_int> {
    // SAFETY: the caller's contract.
    unsafe { Ok(sigsuspend(&set_of(memory::get(a[0] as *const u64)?))) }
}

/// # Safety
///
/// As for the call.
unsafe fn waited(a: &Arguments) -> Result<c_int, c_int> {
    // SAFETY: the caller's contract; all zeroes are a description.
    unsafe {
        let set = set_of(memory::get(a[0] as *const u64)?);
        let limit = memory::get_if_any(a[2] as *const timespec)?;
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut info: siginfo_t = core::mem::zeroed();
        let r = sigtimedwait(&set, &mut info, limit);
        let to = a[1] as *mut siginfo_t;
        if r > 0 && !to.is_null() {
            memory::put(to, info)?;
        }
        Ok(r)
    }
}
