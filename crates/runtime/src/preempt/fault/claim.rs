//! Who has the slot of a carrier that sleeps in a page fault: it, or who takes it away.
//!
//! ```text
//!  who takes                               carrier, asleep in a fault of thread t
//!  ------------------------------          --------------------------------------------
//!  ask(run): word 0 -> run
//!  signal the carrier
//!  it still sleeps in the fault, with      it wakes: the handler comes before any other
//!  the signal pending, and runs `run`      instruction, and begins with
//!  take(run): word run -> TAKEN              found(): word -> 0
//!    succeeds: the slot is the taker's         was TAKEN: it has no slot any more
//!    fails: nothing happened                   was run: a request like any other
//! ```
//!
//! The two last steps are atomic instructions on one word: exactly one side has the slot. A look
//! that finds the carrier asleep with the signal pending is what makes the taker's step sound: no
//! code of the thread's runs between that look and the handler.
//!
//! The protocol uses nothing but this word, so that loom can run it (`models`).

use crate::park::shim::AtomicU64;
use core::sync::atomic::Ordering::*;

/// Nobody asks.
const NONE: u64 = 0;
/// The slot was taken. No run generation: they are times.
const TAKEN: u64 = u64::MAX;
/// It was taken, and the handler could not let the thread go where it was.
const STRAYS: u64 = u64::MAX - 1;

/// What a handler finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::preempt) enum Found {
    /// The thread has its slot.
    Nothing,
    /// The slot was taken since the thread fell asleep.
    Taken,
    /// An earlier handler has found that, and had to let the thread go on.
    Strays,
}

/// Of one thread.
pub(crate) struct Claim(AtomicU64);

impl Claim {
    pub(crate) fn new() -> Claim {
        Claim(AtomicU64::new(NONE))
    }

    /// The slot of the dispatch `run` is wanted; the signal follows. One taker at a time.
    pub(super) fn ask(&self, run: u64) {
        // Release: the signal's handler sees it. (Signals order as locks do.)
        self.0.store(run, Release);
    }

    /// Takes the slot. `false`: the handler came first.
    pub(super) fn take(&self, run: u64) -> bool {
        self.0.compare_exchange(run, TAKEN, AcqRel, Relaxed).is_ok()
    }

    /// Nobody wants it any more.
    pub(super) fn forget(&self, run: u64) {
        let _ = self.0.compare_exchange(run, NONE, Relaxed, Relaxed);
    }

    /// Is there anything for a handler to look at?
    #[inline(always)]
    pub(in crate::preempt) fn is_set(&self) -> bool {
        self.0.load(Relaxed) != NONE
    }

    /// By the handler, before it looks at the slot.
    pub(in crate::preempt) fn found(&self) -> Found {
        match self.0.swap(NONE, AcqRel) {
            TAKEN => Found::Taken,
            STRAYS => Found::Strays,
            _ => Found::Nothing,
        }
    }

    /// By the handler: the next one is to try again.
    pub(super) fn strays(&self) {
        self.0.store(STRAYS, Relaxed);
    }
}

#[cfg(all(test, loom))]
mod models;
