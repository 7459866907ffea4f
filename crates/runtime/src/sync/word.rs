//! A word of state together with the list of those who wait for it to change.
//!
//! [`WaitWord`] is the common part of [`Mutex`](super::Mutex), [`RwLock`](super::RwLock),
//! [`Condvar`](super::Condvar) and [`Once`](super::Once). The two lowest bits are its own:
//!
//! * `HELD`: somebody holds the list's lock, which is this bit;
//! * `QUEUED`: the list is not empty.
//!
//! The others belong to the primitive.
//!
//! # The rule
//!
//! **While `HELD` is set, only its holder writes the word.** Everybody else changes the word by
//! compare-and-swap from a value without `HELD`. So the holder decides on a state that cannot move
//! under it, and publishes its decision and the release of the list in one plain store.
//!
//! One exception: a primitive may have a bit that whoever set it [clears](WaitWord::clear) at any
//! time. Nobody else does. A holder that publishes the bit [looks](Held::release_with) whether it
//! is still there.
//!
//! A holder is non-preemptible and follows the rules of `park::spin`; those who meet the bit wait
//! with [`Relax`](crate::park::Relax). Taking the bit is an `Acquire` and giving it back a
//! `Release` operation, so whatever was released into the word before a hold is still acquired by
//! those who read it after.

use super::list::{Node, Signal, WaitList};
use crate::park::shim::{AtomicU32, Gate, Gated, MutPtr, UnsafeCell, const_unless_loom};
use crate::park::{Relax, Section, Waiter};
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

/// The list's lock.
const HELD: u32 = 1;
/// The list is not empty.
pub(crate) const QUEUED: u32 = 2;
/// The lowest bit that primitives may use.
pub(crate) const FIRST_FREE: u32 = 4;

/// See the module documentation.
pub(crate) struct WaitWord<P> {
    word: AtomicU32,
    /// Whose wake-up is under way, by [`Waiter::number`]: of use to those primitives that have one
    /// at a time.
    woken: AtomicU32,
    gate: Gate,
    list: UnsafeCell<WaitList<P>>,
}

// SAFETY: the list is accessed under the HELD bit only, by one thread at a time.
unsafe impl<P: Send> Sync for WaitWord<P> {}
// SAFETY: as above.
unsafe impl<P: Send> Send for WaitWord<P> {}

impl<P> WaitWord<P> {
    const_unless_loom! {
        pub(crate) fn new(state: u32) -> Self {
            WaitWord {
                word: AtomicU32::new(state),
                woken: AtomicU32::new(Waiter::NO_RUNTIME),
                gate: Gate::new(),
                list: UnsafeCell::new(WaitList::new()),
            }
        }
    }

    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    /// Moves the word from `from`, which must not be held, to `to`.
    #[inline(always)]
    pub(crate) fn swap(&self, from: u32, to: u32, order: Ordering) -> bool {
        debug_assert_eq!(from & HELD, 0);
        self.word.compare_exchange(from, to, order, Relaxed).is_ok()
    }

    /// Takes `bit` away, also while somebody holds the list. `false`: another bit is set.
    #[inline(always)]
    pub(crate) fn clear(&self, bit: u32, order: Ordering) -> bool {
        self.word.fetch_and(!bit, order) & !bit == 0
    }

    /// The word when nobody holds it: waits for a holder to be done.
    #[inline]
    pub(crate) fn settled(&self) -> u32 {
        let state = self.word.load(Relaxed);
        if state & HELD == 0 { state } else { self.wait_settled() }
    }

    #[cold]
    fn wait_settled(&self) -> u32 {
        let mut relax = Relax::new();
        loop {
            drop(self.gate.enter());
            relax.relax();
            let state = self.word.load(Relaxed);
            if state & HELD == 0 {
                return state;
            }
        }
    }

    /// Was the one who was [woken](Held::note_woken) last a user thread that never runs again?
    /// Certain under the list's lock.
    pub(crate) fn woken_is_abandoned(&self) -> bool {
        Waiter::is_number_abandoned(self.woken.load(Relaxed))
    }

    /// Takes the list's lock if the word is still `state`, which must not be held.
    #[inline]
    pub(crate) fn hold_if(&self, state: u32) -> Option<Held<'_, P>> {
        let gate = self.gate.enter();
        let quiet = Section::new();
        if self.swap(state, state | HELD, Acquire) {
            Some(Held { word: self, state, gate, list: self.list.get_mut(), quiet })
        } else {
            None
        }
    }

    /// Takes the list's lock.
    #[inline]
    pub(crate) fn hold(&self) -> Held<'_, P> {
        loop {
            if let Some(held) = self.hold_if(self.settled()) {
                return held;
            }
        }
    }
}

/// The held list of a [`WaitWord`], and the right to decide on its next state.
#[must_use = "must be released"]
pub(crate) struct Held<'a, P> {
    word: &'a WaitWord<P>,
    state: u32,
    gate: Gated<'a>,
    list: MutPtr<WaitList<P>>,
    quiet: Section,
}

impl<P> Held<'_, P> {
    /// The word as it was when it was taken, and as it still is but for the bit.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        self.state
    }

    /// Notes who is being woken.
    #[inline]
    pub(crate) fn note_woken(&self, waiter: Waiter) {
        self.word.woken.store(waiter.number(), Relaxed);
    }

    #[inline]
    pub(crate) fn list(&mut self) -> &mut WaitList<P> {
        // SAFETY: we have the HELD bit, and `self` is borrowed exclusively.
        self.list.with(|list| unsafe { &mut *list })
    }

    /// Takes `node`, whose waiter's time is up, out of the list, unless somebody has just done so.
    /// Its signal says which; the state loses `handoff` if that was meant for it, the first.
    pub(crate) fn withdraw(&mut self, node: &Node<P>, handoff: u32) -> (Signal, u32) {
        let (mut state, signal) = (self.state, node.signal());
        if signal == Signal::Waiting {
            // SAFETY: list invariant 5: signals of nodes in this list are set under its lock.
            unsafe {
                if self.list().before(node).is_none() {
                    state &= !handoff;
                }
                self.list().remove(node);
            }
        }
        (signal, state)
    }

    /// Publishes `state` (its QUEUED bit is computed) and gives the list back. Whoever was taken
    /// out of the list is to be unparked while the result exists.
    #[inline]
    pub(crate) fn release(mut self, state: u32) -> Section {
        let state = self.with_queued(state);
        let Held { word, gate, list, quiet, .. } = self;
        drop(list);
        word.word.store(state, Release);
        drop(gate);
        quiet
    }

    /// The same, for a `state` with a bit that was set when the list was taken and that somebody
    /// may have [cleared](WaitWord::clear) since. `false`: that is so. Then the bit is the
    /// caller's: what its last owner did before it cleared the bit is acquired.
    #[inline]
    pub(crate) fn release_with(mut self, bit: u32, state: u32) -> bool {
        debug_assert_eq!(self.state & state & bit, bit);
        let (held, next) = (self.state | HELD, self.with_queued(state));
        let Held { word, gate, list, quiet: _quiet, .. } = self;
        drop(list);
        let is_there = word.word.compare_exchange(held, next, Release, Acquire).is_ok();
        if !is_there {
            word.word.store(next, Release);
        }
        drop(gate);
        is_there
    }

    fn with_queued(&mut self, state: u32) -> u32 {
        debug_assert_eq!(state & HELD, 0);
        let queued = if self.list().is_empty() { 0 } else { QUEUED };
        state & !QUEUED | queued
    }
}
