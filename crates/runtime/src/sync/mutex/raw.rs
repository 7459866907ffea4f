//! The lock without the data: who owns it, who waits, who gets it next.
//!
//! # States
//!
//! Bits of the word, besides those of [`WaitWord`]:
//!
//! * `LOCKED`: somebody owns the lock.
//! * `WAKING`: a waiter was taken out of the list and woken, and is on its way to try again. It
//!   clears the bit when it gets the lock or queues again. While it is set, unlocking wakes nobody
//!   else.
//! * `HANDOFF`: the first in the list has been passed over too often; the next unlock gives the
//!   lock to it.
//!
//! # Invariants
//!
//! 1. `QUEUED` and not `LOCKED` implies `WAKING`: if somebody waits for a free lock, somebody is
//!    coming for it.
//! 2. `HANDOFF` implies `LOCKED`, `QUEUED` and not `WAKING`.
//! 3. At most one waiter is `Woken` and not yet back in the list or owner; it is the one `WAKING`
//!    stands for. If it is a user thread that a shutdown has stopped, `WAKING` counts for nothing.
//!
//! An owner that sees no other bit clears `LOCKED` without looking again: that is cheaper than a
//! compare-and-swap. If another bit came between, 1 and 2 do not hold until that owner has looked
//! after those who wait ([`look_after`](RawMutex::look_after)), or, where somebody held the list at
//! that moment, until the holder has ([`give_back`](RawMutex::give_back)). Whoever finds the lock
//! free meanwhile may take it, and is then the one to do so.
//!
//! # Order
//!
//! Waiters stand in FIFO order, but a thread that finds the lock free takes it, past those who wait
//! (*barging*): on few workers, handing the lock to a thread that must first be scheduled would
//! cost every owner a context switch. To keep that from starving anybody, a woken waiter that finds
//! the lock taken goes back to the *front*, and after [`LOSSES`] such losses it gets the lock by
//! direct hand-over. So the first in line is passed over at most `LOSSES` wake-ups, and a waiter
//! with `n` before it waits for at most `(n + 1) * (LOSSES + 1)` wake-ups.
//!
//! # Timeouts
//!
//! A waiter whose time is up takes its node out of the list, and HANDOFF back if it was the first.
//! If it has been woken meanwhile it goes on like any woken one, and gives up from the list if it
//! loses: so a wake-up is never lost with it.
//!
//! # Spinning
//!
//! Only when the owner may be running on another CPU ([`patience`](park::patience)) and nobody is
//! queued, and then for a few pauses.

use crate::park;
use crate::park::shim::{const_unless_loom, spin_loop};
use crate::sync::list::{Node, Popped, Signal};
use crate::sync::word::{FIRST_FREE, Held, QUEUED, WaitWord};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

const LOCKED: u32 = FIRST_FREE;
const WAKING: u32 = FIRST_FREE << 1;
const HANDOFF: u32 = FIRST_FREE << 2;

/// How often a waiter may be woken in vain before the lock is handed to it.
pub(crate) const LOSSES: u32 = 2;

/// What a node in a mutex's list, or in that of a condition variable, waits for.
pub(crate) struct WantedMutex {
    /// The mutex to take before the wait is over.
    pub(crate) mutex: *const RawMutex,
    /// Is the node in the list of a condition variable? Accessed under that list's lock.
    pub(crate) on_condvar: Cell<bool>,
}

// SAFETY: the pointer is used while the waiter borrows the mutex; the cell has a lock.
unsafe impl Send for WantedMutex {}

/// See the module documentation.
pub(crate) struct RawMutex {
    word: WaitWord<WantedMutex>,
    /// An address on the stack of the thread that has locked it last: debuggers find the owner by
    /// it.
    #[cfg(not(loom))]
    owner: std::sync::atomic::AtomicUsize,
}

#[cfg(not(loom))]
impl RawMutex {
    /// For debuggers.
    pub(crate) const OWNER: usize = core::mem::offset_of!(RawMutex, owner);
}

impl RawMutex {
    const_unless_loom! {
        pub(crate) fn new() -> Self {
            RawMutex {
                word: WaitWord::new(0),
                #[cfg(not(loom))]
                owner: std::sync::atomic::AtomicUsize::new(0),
            }
        }
    }

    /// The calling thread has it.
    #[inline(always)]
    pub(crate) fn note_owner(&self) {
        #[cfg(not(loom))]
        {
            let here: usize;
            // SAFETY: reads the stack pointer.
            unsafe {
                core::arch::asm!(
                    "mov {}, rsp",
                    out(reg) here,
                    options(nomem, nostack, preserves_flags)
                );
            }
            self.owner.store(here, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if !self.word.swap(0, LOCKED, Acquire) {
            self.lock_contended(None);
        }
        self.note_owner();
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        if self.word.swap(0, LOCKED, Acquire) {
            self.note_owner();
            return true;
        }
        loop {
            let state = self.word.settled();
            if state & LOCKED != 0 {
                return false;
            }
            if self.word.swap(state, state | LOCKED, Acquire) {
                self.note_owner();
                return true;
            }
        }
    }

    /// Owner only. Touches the lock after others may have it: the caller keeps it alive.
    #[inline]
    pub(crate) fn unlock(&self) {
        if self.word.load(Relaxed) != LOCKED {
            self.unlock_contended();
        } else if !self.word.clear(LOCKED, Release) {
            self.look_after();
        }
    }

    /// The lock was freed while somebody came: sees to it that somebody has it or is woken.
    #[cold]
    fn look_after(&self) {
        loop {
            let state = self.word.settled();
            // A new owner does it when it unlocks.
            if state == 0 || state & LOCKED != 0 {
                return;
            }
            if self.word.swap(state, state | LOCKED, Acquire) {
                return self.unlock_contended();
            }
        }
    }

    /// Gives the list back. If `state` has LOCKED, and its owner has unlocked meanwhile, the caller
    /// does what else the owner would have done.
    fn give_back(&self, held: Held<'_, WantedMutex>, state: u32) {
        if state & LOCKED == 0 {
            drop(held.release(state));
        } else if !held.release_with(LOCKED, state) {
            self.unlock_contended();
        }
    }

    /// As [`lock`](Self::lock), until `deadline`. `false`: it came first.
    #[inline]
    pub(crate) fn lock_deadline(&self, deadline: Option<Instant>) -> bool {
        let locked = self.word.swap(0, LOCKED, Acquire) || self.lock_contended(deadline);
        if locked {
            self.note_owner();
        }
        locked
    }

    #[cold]
    fn lock_contended(&self, deadline: Option<Instant>) -> bool {
        let me = park::current();
        let mut patience = park::patience(me);
        let node = Node::new(me, WantedMutex { mutex: ptr::null(), on_condvar: Cell::new(false) });
        loop {
            let state = self.word.settled();
            if state & LOCKED == 0 {
                if self.word.swap(state, state | LOCKED, Acquire) {
                    return true;
                }
            } else if patience > 0 && state & QUEUED == 0 {
                patience -= 1;
                spin_loop();
            } else if let Some(mut held) = self.word.hold_if(state) {
                // SAFETY: the node is new; `acquire_queued` returns only after it has been
                // signalled and is in no list.
                unsafe { held.list().push_back(NonNull::from(&node)) };
                self.give_back(held, state);
                break;
            }
        }
        self.acquire_queued(&node, deadline)
    }

    /// Waits until the calling thread owns the lock. Its `node` has been put into the list, or has
    /// been admitted ([`admit`](Self::admit)) or soon will be; on return it is in no list. `false`:
    /// `deadline` came first. There may be one only for a node that is in this list already.
    pub(crate) fn acquire_queued(
        &self,
        node: &Node<WantedMutex>,
        deadline: Option<Instant>,
    ) -> bool {
        let mut losses = 0;
        let _waiting = park::waits_for(c"mutex", self);
        loop {
            match node.wait_deadline(deadline) {
                Some(Signal::Granted) => return true,
                Some(_) => {}
                None => match self.give_up(node) {
                    Signal::Granted => return true,
                    Signal::Woken => {}
                    _ => return false,
                },
            }
            // Woken: WAKING stands for us.
            loop {
                let state = self.word.settled();
                if state & LOCKED == 0 {
                    if self.word.swap(state, (state | LOCKED) & !WAKING, Acquire) {
                        return true;
                    }
                } else if let Some(mut held) = self.word.hold_if(state) {
                    losses += 1;
                    let handoff = if losses >= LOSSES { HANDOFF } else { 0 };
                    node.rearm();
                    // SAFETY: the node has been signalled, so it is in no list; as above for how
                    // long it stays.
                    unsafe { held.list().push_front(NonNull::from(node)) };
                    self.give_back(held, (state | handoff) & !WAKING);
                    break;
                }
            }
        }
    }

    /// Takes the node of a waiter whose time is up out of the list. The result is its signal: if it
    /// has one, it was taken out at the last moment.
    #[cold]
    fn give_up(&self, node: &Node<WantedMutex>) -> Signal {
        let mut held = self.word.hold();
        let (signal, state) = held.withdraw(node, HANDOFF);
        self.give_back(held, state);
        signal
    }

    #[cold]
    fn unlock_contended(&self) {
        loop {
            let state = self.word.settled();
            debug_assert_ne!(state & LOCKED, 0, "unlock of a mutex that is not locked");
            let is_waking = state & WAKING != 0 && !self.word.woken_is_abandoned();
            if state & HANDOFF == 0 && (state & QUEUED == 0 || is_waking) {
                let kept = if is_waking { state } else { state & !WAKING };
                if self.word.swap(state, kept & !LOCKED, Release) {
                    return;
                }
            } else if let Some(mut held) = self.word.hold_if(state) {
                if state & WAKING != 0 && !self.word.woken_is_abandoned() {
                    // Another wake-up than the one that was looked at.
                    drop(held.release(state));
                    continue;
                }
                let Some(first) = held.list().pop_live() else {
                    // Those who waited were abandoned.
                    drop(held.release(state & !(LOCKED | HANDOFF | WAKING)));
                    return;
                };
                // Whoever is granted it knows that the list is held, and so does not clear LOCKED.
                let (next, signal) = if state & HANDOFF != 0 {
                    (state & !HANDOFF, Signal::Granted)
                } else {
                    (state & !LOCKED | WAKING, Signal::Woken)
                };
                let waiter = first.signal(signal);
                held.note_woken(waiter);
                let _quiet = held.release(next);
                park::unpark(waiter);
                return;
            }
        }
    }

    /// Makes a thread that was taken out of a condition variable's list a waiter of this mutex, or
    /// wakes it if the mutex is free. So a thread that is notified while the notifier owns the
    /// mutex sleeps on until it can have it.
    ///
    /// # Safety
    ///
    /// The node's owner is in `acquire_queued` of this mutex or about to call it.
    pub(crate) unsafe fn admit(&self, popped: Popped<WantedMutex>) {
        let mut held = self.word.hold();
        let state = held.state();
        if state & LOCKED == 0 && (state & WAKING == 0 || self.word.woken_is_abandoned()) {
            let waiter = popped.signal(Signal::Woken);
            held.note_woken(waiter);
            let _quiet = held.release(state | WAKING);
            park::unpark(waiter);
        } else {
            // SAFETY: the node is in no list and unsignalled; its owner stays until it is
            // signalled.
            unsafe { held.list().push_back(popped.into_node()) };
            self.give_back(held, state);
        }
    }

    /// How many wait in the list.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn waiting(&self) -> usize {
        let mut held = self.word.hold();
        let n = held.list().len();
        let state = held.state();
        // Nobody unlocks: it is free, or the owner asks.
        drop(held.release(state));
        n
    }

    /// Is it locked? Out of date at once.
    pub(crate) fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }
}
