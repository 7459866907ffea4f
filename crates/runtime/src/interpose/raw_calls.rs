//! System calls by libc's function `syscall` that a host of other programs answers itself: where
//! threads are the program's and not the kernel's, their numbers, masks and signals are not those
//! that the kernel knows, and a wait for a futex is not one that a signal ends.

use super::futex;
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use std::time::Instant;

/// Who answers. Both are asked wherever the program is, in handlers of signals too.
#[derive(Debug)]
pub struct Host {
    /// Answers a call of this number with these arguments as `syscall` does, `errno` included;
    /// `None`: it is the kernel's. Not asked about futexes.
    pub answer: unsafe fn(c_long, &[c_long; 6]) -> Option<c_long>,
    /// Waits for a futex on a user thread. The error is the errno.
    pub wait: fn(&FutexWait) -> Result<(), c_int>,
}

static HOST: AtomicPtr<Host> = AtomicPtr::new(core::ptr::null_mut());

/// From now on `host` is asked first.
pub fn set_host(host: &'static Host) {
    HOST.store(core::ptr::from_ref(host).cast_mut(), Release);
}

fn host() -> Option<&'static Host> {
    // SAFETY: only `set_host` stores there.
    unsafe { HOST.load(Acquire).as_ref() }
}

/// # Safety
///
/// As for libc's `syscall`.
pub(super) unsafe fn answer(number: c_long, arguments: &[c_long; 6]) -> Option<c_long> {
    // SAFETY: the caller's contract is handed on.
    unsafe { (host()?.answer)(number, arguments) }
}

/// Makes a system call for a host that has found it in a program's code, where it is made without
/// the C library. A user thread's private futex waits do not block its worker, and [`Host::answer`]
/// is not asked. The result is the kernel's: an error is a negative number, and `errno` stays.
///
/// # Safety
///
/// As for libc's `syscall`.
pub unsafe fn inline(number: c_long, arguments: &[c_long; 6]) -> c_long {
    // SAFETY: the caller's contract is handed on.
    unsafe { futex::inline(number, arguments) }
}

/// A wait for a futex by `syscall`, on a user thread.
#[derive(Debug)]
pub struct FutexWait {
    pub(super) word: *const AtomicU32,
    pub(super) expected: u32,
    pub(super) bits: u32,
    pub(super) at: Option<Instant>,
}

impl FutexWait {
    /// Does it end at some time?
    pub fn has_limit(&self) -> bool {
        self.at.is_some()
    }

    /// Waits as a user thread until woken; `EINTR` if `interrupted` says so, which is asked before
    /// the thread sleeps and whenever it has been interrupted. May be called again after that.
    pub fn wait(&self, interrupted: &dyn Fn() -> bool) -> Result<(), c_int> {
        // SAFETY: whoever made it knows that the word is valid and the caller may park.
        unsafe { futex::wait(self.word, self.expected, self.bits, self.at, interrupted) }
    }

    /// As the host does it, or to the end.
    pub(super) fn ask(&self) -> Result<(), c_int> {
        host().map_or_else(|| self.wait(&|| false), |host| (host.wait)(self))
    }
}
