//! Which call a handler interrupts.
//!
//! Handlers run on the thread itself, so a call that waits has been interrupted when the thread's
//! count of handlers has grown since it began. Those that were installed with `SA_RESTART` let most
//! calls go on.

use crate::cancel;
use crate::signal::deliver;
use crate::state::{self, Thread};
use libc::c_int;
use quaver::foreign::futex::{Deadline, End, Limits};

/// A call of the thread's that may wait, from its beginning to its end. Nests, in handlers.
pub(crate) struct Call {
    thread: &'static Thread,
    restarts: bool,
    before: u32,
}

impl Call {
    /// Begins. `restarts`: handlers with `SA_RESTART` let it go on.
    pub(crate) fn begin(thread: &'static Thread, restarts: bool) -> Call {
        thread.calls.set(thread.calls.get() + 1);
        Call { thread, restarts, before: Call::count(thread, restarts) }
    }

    /// One that no handler lets go on, and that began when `before` handlers had run.
    pub(crate) fn since(thread: &'static Thread, before: u32) -> Call {
        let mut call = Call::begin(thread, false);
        call.before = before;
        call
    }

    fn count(thread: &Thread, restarts: bool) -> u32 {
        let of = &thread.signals;
        if restarts { of.handled_hard.get() } else { of.handled.get() }
    }

    /// Whose call it is.
    pub(crate) fn thread(&self) -> &'static Thread {
        self.thread
    }

    /// Has a handler interrupted it?
    pub(crate) fn is_broken(&self) -> bool {
        Call::count(self.thread, self.restarts) != self.before
    }

    /// Should the thread look up from whatever it waits for?
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_broken() || self.thread.is_cancelled() || deliver::is_due(self.thread)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.thread.calls.set(self.thread.calls.get() - 1);
    }
}

/// Waits by `wait` until it has what it waits for, or the deadline comes: handlers run meanwhile
/// and do not end it.
pub(crate) fn through_handlers(
    deadline: Option<Deadline>,
    mut wait: impl FnMut(&Limits<'_>) -> End,
) -> End {
    let Some(me) = state::me() else { return wait(&Limits { deadline, interrupted: None }) };
    let wanted = || deliver::is_due(me) || me.is_cancelled_anywhere();
    let limits = Limits { deadline, interrupted: Some(&wanted) };
    loop {
        match wait(&limits) {
            End::Interrupted => {
                deliver::deliver_here(me);
                if me.is_cancelled_anywhere() {
                    cancel::test();
                }
            }
            end => return end,
        }
    }
}

/// [`through_handlers`], with the errors of C.
pub(crate) fn outcome(end: End) -> c_int {
    match end {
        End::TimedOut => libc::ETIMEDOUT,
        _ => 0,
    }
}
