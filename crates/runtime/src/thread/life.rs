//! The word of a thread's life: who drops its result, who wakes its joiner, who recycles it.
//!
//! ```text
//!   the thread                                its JoinHandle
//!   ------------------------------------      ---------------------------------------------
//!   READY:   the result exists                DETACHED: nobody will take the result
//!   EXITING: it is leaving its stack          JOINING or SUSPENDED: somebody waits for the end
//!   DONE:    it has left its stack            RELEASED: the handle needs nothing more
//! ```
//!
//! Each row is a pair; whoever comes second has its duty:
//!
//! * READY and DETACHED: drop the result, which is code of the user.
//! * EXITING and JOINING: if the thread comes second, it wakes the joiner; if the joiner does, it
//!   does not sleep. EXITING comes before DONE so that the thread's worker can switch to the joiner
//!   directly. DONE follows within nanoseconds, for the thread is not preemptible any more: the
//!   joiner spins for that.
//! * EXITING and SUSPENDED: the same where the joiner is a user thread that waits for nothing else.
//!   The far side of the switch from the joiner sets SUSPENDED, so whoever comes second makes the
//!   joiner runnable, and the joiner's token has no part in it.
//! * DONE and RELEASED: recycle the thread. A handle that takes the result has seen DONE and
//!   recycles without RELEASED.
//!
//! Each bit is set once in a life, by addition: unlike an `or` whose old value is wanted, that is
//! one instruction. Only JOINING comes and goes with every timed join. A thread of which nothing
//! borrows sets READY together with EXITING. While its joiner is suspended nobody else changes the
//! word, so DONE is a store then.
//!
//! **Orderings.** All changes but [`begin`](Life::begin) acquire and release: whoever comes second
//! sees what the first did before, the result and the joiner among it, and whoever recycles sees
//! the last use by the other. Looks that only spare a change are relaxed. The end of the runtime
//! [looks for joiners](Life::is_joined) by a change that changes nothing: so either it finds
//! JOINING, or the joiner finds what was written before, that the runtime has stopped.
//!
//! The protocol uses nothing but this word and the joiner's token, so that loom can run it
//! (`models`).

use crate::park::Relax;
use crate::park::shim::{AtomicU32, const_unless_loom};
use core::sync::atomic::Ordering::*;

/// The result is in the packet.
const READY: u32 = 1;
/// The thread has left its stack. Debuggers look for it.
pub(crate) const DONE: u32 = 2;
/// The `JoinHandle` is being dropped, or there never was one.
const DETACHED: u32 = 4;
/// The `JoinHandle` is gone.
const RELEASED: u32 = 8;
/// There is somebody to wake at the end.
const JOINING: u32 = 16;
/// The thread is leaving its stack. Debuggers look for it.
pub(crate) const EXITING: u32 = 32;
/// The joiner is a user thread that is off its stack. Debuggers look for it.
pub(crate) const SUSPENDED: u32 = 64;

/// The word.
#[repr(transparent)]
pub(crate) struct Life(AtomicU32);

/// How a wait for a thread's end has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Done,
    TimedOut,
    ShutDown,
}

/// What a thread that leaves its stack must do about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nothing.
    Alone,
    /// Wake the joiner.
    Joined,
    /// Make the joiner runnable.
    Suspended,
    /// Drop the result: nobody will take it.
    Detached,
}

/// Before a thread's start.
impl Life {
    const_unless_loom! {
        /// No thread's.
        pub(crate) fn new() -> Life {
            Life(AtomicU32::new(0))
        }
    }

    /// A new life, with a handle or without. The caller has the thread.
    #[inline]
    pub(crate) fn begin(&self, detached: bool) {
        self.0.store(if detached { DETACHED | RELEASED } else { 0 }, Relaxed);
    }
}

/// What the thread does, in this order.
impl Life {
    /// The result is in the packet, where others must know that before the end: a scope. `true`:
    /// the thread is to drop it.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        self.is_detached() || self.0.fetch_add(READY, AcqRel) & DETACHED != 0
    }

    /// Will nobody take the result? Then the thread is to drop it. (`false` may change.)
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.0.load(Acquire) & DETACHED != 0
    }

    /// The thread is about to leave its stack and is not preemptible any more. `dropped`: there is
    /// no result.
    #[inline]
    pub(crate) fn exiting(&self, dropped: bool) -> Leaving {
        let seen = self.0.load(Relaxed);
        if seen & RELEASED != 0 && (dropped || seen & READY != 0) {
            return Leaving::Alone;
        }
        let ready = if seen & READY == 0 { READY } else { 0 };
        let seen = self.0.fetch_add(EXITING + ready, AcqRel);
        if seen & SUSPENDED != 0 {
            Leaving::Suspended
        } else if seen & JOINING != 0 {
            Leaving::Joined
        } else if seen & DETACHED != 0 && ready != 0 && !dropped {
            Leaving::Detached
        } else {
            Leaving::Alone
        }
    }

    /// The thread has left its stack. `true`: the caller is to recycle it; otherwise it is not the
    /// caller's any more.
    #[inline]
    pub(crate) fn done(&self) -> bool {
        let seen = self.0.load(Relaxed);
        if seen & SUSPENDED != 0 {
            self.0.store(seen + DONE, Release);
            return false;
        }
        self.0.fetch_add(DONE, AcqRel) & RELEASED != 0
    }
}

/// What its handle does.
impl Life {
    /// Has the thread ended? Then the result may be taken, and the thread is to be recycled.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Acquire) & DONE != 0
    }

    /// Waits for DONE. The joiner has been stored. `sleep` waits for its token: `false` means that
    /// the time is over. `stopped`: the end will not come.
    ///
    /// After `Done` and `TimedOut` nobody looks for the joiner any more.
    pub(crate) fn wait(&self, mut sleep: impl FnMut() -> bool, stopped: impl Fn() -> bool) -> Wait {
        let mut seen = self.0.fetch_add(JOINING, AcqRel);
        while seen & EXITING == 0 {
            if stopped() {
                return Wait::ShutDown;
            }
            if sleep() {
                seen = self.0.load(Acquire);
                continue;
            }
            // Either the thread has not looked for a joiner and will find none, or it is about to
            // be DONE.
            seen = self.0.fetch_sub(JOINING, AcqRel);
            if seen & EXITING == 0 {
                return Wait::TimedOut;
            }
        }
        self.wait_until_done();
        Wait::Done
    }

    /// The joiner is off its stack, says the far side of the switch, and waits for nothing but the
    /// end. `true`: it need not wait, and the caller is to make it runnable.
    #[inline]
    pub(crate) fn suspend(&self) -> bool {
        self.0.fetch_add(SUSPENDED, AcqRel) & EXITING != 0
    }

    /// A joiner that was [suspended](Life::suspend) runs again: waits for DONE.
    #[inline]
    pub(crate) fn wait_until_done(&self) {
        let mut relax = Relax::new();
        while !self.is_done() {
            relax.relax();
        }
    }

    /// Nobody will take the result. `true`: the handle is to drop it.
    #[inline]
    pub(crate) fn detach(&self) -> bool {
        self.0.fetch_add(DETACHED, AcqRel) & READY != 0
    }

    /// The handle needs nothing more of the thread, and has [detached](Life::detach) it. `true`: it
    /// is to recycle it.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        self.0.fetch_add(RELEASED, AcqRel) & DONE != 0
    }
}

/// The end of the runtime.
impl Life {
    /// Does somebody wait for an end that will not come? After `stopped` has been made to say so.
    pub(crate) fn is_joined(&self) -> bool {
        self.0.fetch_add(0, AcqRel) & (JOINING | DONE) == JOINING
    }
}

#[cfg(all(test, loom))]
mod models;
