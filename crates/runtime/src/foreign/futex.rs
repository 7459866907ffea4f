//! Waiting for a word to change, with limits.
//!
//! As the kernel's `futex`, but a user thread that waits gives its worker to others. The table of
//! those who wait is that of the interposed `syscall` (`interpose::futex`), with the order among
//! user threads and kernel threads that is documented there.

#[cfg(not(loom))]
use crate::{
    interpose::{self, Sleepers},
    sys,
    thread::raw,
};
#[cfg(not(loom))]
use core::sync::atomic::AtomicU32;
use std::time::Instant;

#[cfg(shuttle)]
pub use crate::sync::fairness::futex::{wait, wait_if, wake};

pub use crate::deadline::Deadline;

/// What ends a wait besides being woken.
#[derive(Clone, Copy, Default)]
pub struct Limits<'a> {
    /// Give up at this moment.
    pub deadline: Option<Deadline>,
    /// Give up when this says so. It is asked before the thread sleeps, and whenever it has been
    /// woken by [`interrupt`](super::thread::UserThread::interrupt). A kernel thread also gives up
    /// when the kernel says `EINTR`.
    pub interrupted: Option<&'a dyn Fn() -> bool>,
}

impl core::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Limits").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Limits<'_> {
    /// None: wait for ever.
    pub const NONE: Limits<'static> = Limits { deadline: None, interrupted: None };

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|ask| ask())
    }

    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.deadline.map(Deadline::at)
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Woken, or the word had another value already, or for no reason: look at the word again.
    Woken,
    /// The deadline came.
    TimedOut,
    /// The limit `interrupted` said so.
    Interrupted,
}

/// Waits until woken, if `word` has the value `expected`.
#[cfg(not(loom))]
pub fn wait(word: &AtomicU32, expected: u32, limits: &Limits<'_>) -> End {
    if raw::may_park() {
        let at = limits.ends_at();
        // SAFETY: a reference is valid.
        return match unsafe {
            interpose::futex_wait(word, expected, u32::MAX, at, || limits.is_interrupted())
        } {
            Err(libc::ETIMEDOUT) => End::TimedOut,
            Err(libc::EINTR) => End::Interrupted,
            _ => End::Woken,
        };
    }
    if limits.is_interrupted() {
        return End::Interrupted;
    }
    let left = limits.deadline.map(Deadline::left);
    if left.is_some_and(|left| left.is_zero()) {
        return End::TimedOut;
    }
    let result = interpose::futex_in_kernel(word.as_ptr() as usize, || {
        sys::futex_wait(word, expected, left)
    });
    match result {
        Err(libc::ETIMEDOUT) => End::TimedOut,
        Err(libc::EINTR) if limits.interrupted.is_some() => End::Interrupted,
        _ => End::Woken,
    }
}

/// Wakes up to `n` threads that wait for the word at `address`, which is not read: it may be gone.
#[cfg(not(loom))]
pub fn wake(address: *const AtomicU32, n: u32) {
    if n > 0 {
        let kernel = |n: u32| sys::futex_wake(address, n.min(i32::MAX as u32)) as u32;
        interpose::futex_wake(address as usize, n, u32::MAX, Sleepers::Counted, kernel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_kernel_thread_learns_that_its_time_is_over() {
        let word = AtomicU32::new(7);
        let after = |ms| Some(Deadline::after(Duration::from_millis(ms)));
        let wait =
            |expected, ms| wait(&word, expected, &Limits { deadline: after(ms), ..Limits::NONE });
        assert_eq!(wait(7, 2), End::TimedOut);
        assert_eq!(wait(7, 0), End::TimedOut);
        assert_eq!(wait(8, 60_000), End::Woken);
    }
}
