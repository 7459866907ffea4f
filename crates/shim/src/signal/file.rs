//! Signals that the program reads from files (`signalfd`).
//!
//! Such a file shows what the kernel has for the process. So those of its signals that no thread
//! would take are left there: the courier does not take them, and what the process sends itself
//! goes there, too. As soon as a thread allows one, or waits for it, the courier takes it again.

use super::{UNBLOCKABLE, bit, bits, courier, managed, queue};
use crate::real::real;
use crate::sys::call;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering::*};
use libc::sigset_t;

/// Signals of all files that there have been.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

/// Signals that the kernel keeps.
pub(super) fn left() -> u64 {
    let all = SIGNALS.load(SeqCst);
    if all == 0 {
        return 0;
    }
    let locked = queue::locked();
    (1..=super::SIGNALS as c_int)
        .filter(|&s| all & bit(s) != 0 && courier::taker(&locked, s).is_none())
        .map(bit)
        .sum()
}

/// Does the kernel keep this one, if it is sent to the process?
pub(super) fn is_left(signal: c_int) -> bool {
    SIGNALS.load(SeqCst) & bit(signal) != 0 && left() & bit(signal) != 0
}

/// Some thread takes signals of `set` from now on, or does not any more.
pub(super) fn changed(set: u64) {
    if SIGNALS.load(SeqCst) & set != 0 {
        courier::synchronise();
    }
}

/// [`changed`], in a handler.
pub(super) fn may_have_changed(set: u64) {
    if SIGNALS.load(SeqCst) & set != 0 {
        courier::tell();
    }
}

/// What the kernel keeps at the moment.
pub(super) fn pending() -> u64 {
    let mut set = 0u64;
    if SIGNALS.load(SeqCst) != 0 {
        // SAFETY: room for a set of the kernel's.
        unsafe { call(libc::SYS_rt_sigpending, [&raw mut set as usize, 8, 0, 0, 0, 0]) };
    }
    set & SIGNALS.load(SeqCst)
}

/// Gives the kernel what is pending for the process already.
fn give_back(set: u64) {
    let process = super::process() as usize;
    loop {
        let locked = queue::locked();
        let Some(info) = queue::PROCESS.take(&locked, set) else { return };
        drop(locked);
        let (signal, at) = (info.si_signo as usize, &raw const info as usize);
        // SAFETY: complete. Who sent it the kernel lets only senders with a value say.
        unsafe {
            if call(libc::SYS_rt_sigqueueinfo, [process, signal, at, 0, 0, 0]) != 0 {
                call(libc::SYS_kill, [process, signal, 0, 0, 0, 0]);
            }
        }
    }
}

/// See `signalfd(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int {
    // SAFETY: handed on.
    let file =
        unsafe { real!(signalfd(fd => c_int, mask => *const sigset_t, flags => c_int) -> c_int) };
    if file >= 0 && managed().is_some() && !super::in_child_of_vfork() {
        // SAFETY: the caller's contract.
        let set = unsafe { bits(mask) } & !UNBLOCKABLE;
        SIGNALS.fetch_or(set, SeqCst);
        courier::synchronise();
        give_back(left() & set);
    }
    file
}
