//! How many threads are preempted in the middle of a library (see
//! [`Builder::max_deferral`](crate::Builder::max_deferral)), or have come back from a system call
//! and queue for a worker, or wait for one of the library's locks.
//!
//! They may hold the library's locks, or have been woken to take one, which the rest of the process
//! wants after the runtime's end. So a shutdown first closes the door, then waits until those
//! inside run again, and only then stops threads: outside libraries. Who is preempted outside
//! meanwhile is not queued again, because it may want the locks that those inside wait for.

use crate::park::shim::{AtomicUsize, const_unless_loom};
use core::sync::atomic::Ordering::SeqCst;

/// Set when no more threads may enter.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The count, and whether the door is closed.
pub(crate) struct InLibrary(AtomicUsize);

impl InLibrary {
    const_unless_loom! {
        pub(crate) fn new() -> InLibrary {
            InLibrary(AtomicUsize::new(0))
        }
    }

    /// The calling thread is about to be preempted in a library. `false`: it must not be.
    pub(crate) fn enter(&self) -> bool {
        let closed = self.0.fetch_add(1, SeqCst) & CLOSED != 0;
        if closed {
            self.leave();
        }
        !closed
    }

    /// The calling thread waits for a lock of the library, whether the door is closed or not.
    pub(crate) fn wait(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// It runs again.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, SeqCst);
    }

    /// Is the door closed?
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(SeqCst) & CLOSED != 0
    }

    /// Closes the door. Do all that have entered run again?
    pub(crate) fn is_left(&self) -> bool {
        self.0.fetch_or(CLOSED, SeqCst) & !CLOSED == 0
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_enters_through_a_closed_door() {
        let door = InLibrary::new();
        assert!(door.enter() && door.enter() && !door.is_closed());
        assert!(!door.is_left() && door.is_closed());
        assert!(!door.enter());
        door.leave();
        assert!(!door.is_left());
        door.leave();
        assert!(door.is_left() && !door.enter() && door.is_left());
    }
}
