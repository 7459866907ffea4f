//! Where a spare carrier waits for a slot.
//!
//! ```text
//!  giver: has taken the spare from its list     spare
//!  ------------------------------------         -------------------------------------
//!  word = the slot; wake the futex              word -> EMPTY; a slot? take it
//!                                               stopping, and still in the list? end
//!  who stops: stopping = 1                      sleep while word == EMPTY
//!  for all in the list: EMPTY -> CALLED, futex
//! ```
//!
//! The list decides who is right when both come at once: a spare that is not in it any more was
//! taken by a giver, and waits for the slot. The slot is the giver's last write: the spare may then
//! come to its end at once, and the word with it.
//!
//! The protocol uses nothing but this word, so that loom can run it (`models`).

use crate::park::shim::Futex;
use core::sync::atomic::Ordering::*;
use std::time::Duration;

/// Nothing has come.
const EMPTY: u32 = 0;
/// The spare is to look at what `ends` says.
const CALLED: u32 = 1;
/// The first slot.
const FIRST: u32 = 2;

/// A spare's place.
pub(crate) struct Seat(Futex);

impl Seat {
    pub(crate) fn new() -> Seat {
        Seat(Futex::new(EMPTY))
    }

    /// Gives the spare the slot of this number. The caller has taken it from the list of those that
    /// wait.
    pub(crate) fn give(&self, slot: usize) {
        let word = &raw const self.0;
        self.0.word().swap(FIRST + slot as u32, AcqRel);
        Futex::wake_at(word);
    }

    /// Wakes the spare, which is in the list, to look at what `ends` says.
    pub(crate) fn call(&self) {
        // Release: the spare sees what it is called for.
        let _ = self.0.word().compare_exchange(EMPTY, CALLED, AcqRel, Relaxed);
        self.0.wake();
    }

    /// Waits until a slot is given, or until `ends` says that none will be any more (`None`). It is
    /// asked whenever the spare was called, and every `limit`.
    pub(crate) fn wait(
        &self,
        mut ends: impl FnMut() -> bool,
        limit: impl Fn() -> Option<Duration>,
    ) -> Option<usize> {
        loop {
            match self.0.word().swap(EMPTY, AcqRel) {
                EMPTY | CALLED if ends() => return None,
                EMPTY | CALLED => self.0.wait(EMPTY, limit()),
                slot => return Some((slot - FIRST) as usize),
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models;
