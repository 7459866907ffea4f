//! The words of a request to preempt: one is under way at a time, and it is meant for one dispatch.
//!
//! ```text
//!  sender                                  carrier
//!  ------------------------------          --------------------------------------------
//!  run = slot.run; decide                  dispatch: run = another; over()
//!  begin(run): pending 0 -> 1, tag         handler: tag is not run -> over(), stale
//!  signal                                           section        -> flag, and over() at its end
//!                                                   otherwise      -> switch: a dispatch
//! ```
//!
//! Whatever the handler decides, `over` follows, or the dispatch does it: `pending` is never left
//! behind while the thread runs, and a decision that finds it set is made again later. Two senders
//! may begin one after the other when a dispatch comes between them; the tag is then the later
//! one's or the earlier one's, and a request with the wrong tag is stale.
//!
//! The protocol uses nothing but these words, so that loom can run it (`models`).

use crate::park::shim::{AtomicBool, AtomicU64};
use core::sync::atomic::Ordering::*;

/// Of one worker.
pub(crate) struct Request {
    /// A signal has been sent, and what it asks for has not been judged yet.
    pending: AtomicBool,
    /// When `pending` was set: a signal that hit a carrier without a slot is forgotten after a
    /// while.
    since: AtomicU64,
    /// The run generation that it is meant for.
    tag: AtomicU64,
    /// It has been said that it is late.
    urged: AtomicBool,
}

impl Request {
    pub(crate) fn new() -> Request {
        Request {
            pending: AtomicBool::new(false),
            since: AtomicU64::new(0),
            tag: AtomicU64::new(0),
            urged: AtomicBool::new(false),
        }
    }

    /// A request for the dispatch `run` begins, and the caller sends the signal (or calls
    /// [`over`](Request::over), if it cannot). It may be `urged` from the first, and is never late
    /// then. `false`: one is under way. One that is older than `lost_after` is forgotten.
    pub(crate) fn begin(&self, run: u64, now: u64, lost_after: u64, urged: bool) -> bool {
        // Acquire: what the carrier did before the last one was over comes before this one.
        if self.pending.compare_exchange(false, true, AcqRel, Relaxed).is_err() {
            if now.saturating_sub(self.since.load(Relaxed)) > lost_after {
                self.over();
            }
            return false;
        }
        self.since.store(now, Relaxed);
        self.urged.store(urged, Relaxed);
        self.tag.store(run, Release);
        true
    }

    /// Has the one under way not been taken for `after`? Says so once.
    pub(crate) fn is_late(&self, now: u64, after: u64) -> bool {
        now.saturating_sub(self.since.load(Relaxed)) > after
            && self.pending.load(Relaxed)
            && !self.urged.swap(true, Relaxed)
    }

    /// When [`is_late`](Request::is_late) says so, if it is going to; `after` 0: never.
    pub(crate) fn late_at(&self, after: u64) -> Option<u64> {
        let waits = after != 0 && self.pending.load(Relaxed) && !self.urged.load(Relaxed);
        waits.then(|| self.since.load(Relaxed).saturating_add(after + 1))
    }

    /// Is the request that the signal brings meant for this dispatch?
    #[inline]
    pub(crate) fn is_for(&self, run: u64) -> bool {
        self.tag.load(Acquire) == run
    }

    /// The request has been judged, or nothing of it is left: the next may begin.
    #[inline(always)]
    pub(crate) fn over(&self) {
        self.pending.store(false, Release);
    }

    /// The run generation has changed: a request for what ran before is over. By the carrier, after
    /// `run` has been stored.
    #[inline(always)]
    pub(crate) fn new_run(&self) {
        if self.pending.load(Relaxed) {
            self.over();
        }
    }

    /// Is one under way?
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.pending.load(Relaxed)
    }

    /// What it is meant for, for reports.
    #[cfg(feature = "inspect")]
    pub(crate) fn tag(&self) -> u64 {
        self.tag.load(Relaxed)
    }
}

#[cfg(all(test, loom))]
mod models;
