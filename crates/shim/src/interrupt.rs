//! Which call a handler interrupts.
//!
//! A call that waits ends with `EINTR` when a handler of the program has run during it. Handlers may run on another thread than
//! the one whose call it is (see [`signal`](crate::signal)), and end when that thread is in its next call already, which must not be
//! interrupted: so calls have numbers. [`Thread::call`] is the one that the thread is in, [`Thread::broken`] the one that
//! has been interrupted.

use crate::state::Thread;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// A call of the thread's that may wait: from its beginning, before anybody else runs, to its end. Nests, in handlers.
pub(crate) struct Call {
    thread: &'static Thread,
    number: u64,
    outer: u64,
}

impl Call {
    /// Begins.
    pub(crate) fn begin(thread: &'static Thread) -> Call {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Relaxed);
        let outer = thread.call.swap(number, SeqCst);
        Call { thread, number, outer }
    }

    /// Whose call it is.
    pub(crate) fn thread(&self) -> &'static Thread {
        self.thread
    }

    /// Has a handler run since it began?
    pub(crate) fn is_broken(&self) -> bool {
        self.thread.broken.load(SeqCst) == self.number
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.thread.call.store(self.outer, SeqCst);
    }
}

/// Is `thread` blocked in the kernel in a call that has been interrupted? Then it must be kicked until it is not.
pub(crate) fn is_stuck(thread: &Thread) -> bool {
    let call = thread.call.load(SeqCst);
    call != 0 && call == thread.broken.load(SeqCst) && thread.blocked_in.load(SeqCst) != 0
}
