//! The lock without the data: who reads, who writes, who gets it next.
//!
//! # States
//!
//! Bits of the word, besides those of [`WaitWord`]:
//!
//! * `WRITER`: a writer owns the lock.
//! * `WAKING`: a writer was taken out of the list and woken, and is on its way to try again. While
//!   it is set, nobody else is woken.
//! * `HANDOFF`: the first in the list is a writer that has been passed over too often; it gets the
//!   lock directly.
//! * `READER` and above: how many readers own the lock.
//!
//! # Invariants
//!
//! 1. Never `WRITER` and readers at once.
//! 2. `QUEUED` and free (no writer, no readers) implies `WAKING`.
//! 3. `HANDOFF` implies `QUEUED`, not free, and not `WAKING`.
//!
//! # Order
//!
//! One FIFO list for readers and writers. A thread that finds the lock *free* takes it, as in
//! [`Mutex`](crate::sync::Mutex) and for the same reason. A reader joins other readers only when
//! nobody is queued, so a stream of readers cannot keep a writer out. When the lock becomes free,
//! the head of the list decides: a writer is woken and tries again, and after [`LOSSES`] losses
//! gets the lock by hand-over; readers, all that stand together at the head, are given the lock
//! directly, since they do not exclude each other. So neither side starves.

use crate::park;
use crate::park::shim::{const_unless_loom, spin_loop};
use crate::sync::list::{Batch, Node, Signal};
use crate::sync::mutex::raw::LOSSES;
use crate::sync::word::{FIRST_FREE, Held, QUEUED, WaitWord};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

const WRITER: u32 = FIRST_FREE;
const WAKING: u32 = FIRST_FREE << 1;
const HANDOFF: u32 = FIRST_FREE << 2;
const READER: u32 = FIRST_FREE << 3;
const READERS: u32 = !(READER - 1);

/// What a node in the list waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

/// See the module documentation.
pub(crate) struct RawRwLock {
    word: WaitWord<Access>,
}

fn is_free(state: u32) -> bool {
    state & (WRITER | READERS) == 0
}

/// May a reader that arrives now come in?
fn admits_reader(state: u32) -> bool {
    is_free(state) || state & (WRITER | QUEUED) == 0
}

fn one_more_reader(state: u32) -> u32 {
    assert!(state & READERS != READERS, "too many readers of one RwLock");
    state + READER
}

impl RawRwLock {
    const_unless_loom! {
        pub(crate) fn new() -> Self {
            RawRwLock { word: WaitWord::new(0) }
        }
    }

    #[inline]
    pub(crate) fn read(&self) {
        if !self.try_read() {
            self.read_contended(None);
        }
    }

    /// As [`read`](Self::read), until `deadline`. `false`: it came first.
    #[inline]
    pub(crate) fn read_deadline(&self, deadline: Option<Instant>) -> bool {
        self.try_read() || self.read_contended(deadline)
    }

    /// As [`write`](Self::write), until `deadline`. `false`: it came first.
    #[inline]
    pub(crate) fn write_deadline(&self, deadline: Option<Instant>) -> bool {
        self.try_write() || self.write_contended(deadline)
    }

    #[inline]
    pub(crate) fn try_read(&self) -> bool {
        loop {
            let state = self.word.settled();
            if !admits_reader(state) {
                return false;
            }
            if self.word.swap(state, one_more_reader(state), Acquire) {
                return true;
            }
        }
    }

    #[inline]
    pub(crate) fn write(&self) {
        if !self.word.swap(0, WRITER, Acquire) {
            self.write_contended(None);
        }
    }

    #[inline]
    pub(crate) fn try_write(&self) -> bool {
        loop {
            let state = self.word.settled();
            if !is_free(state) {
                return false;
            }
            if self.word.swap(state, state | WRITER, Acquire) {
                return true;
            }
        }
    }

    #[cold]
    fn read_contended(&self, deadline: Option<Instant>) -> bool {
        let me = park::current();
        let mut patience = park::patience(me);
        let node = Node::new(me, Access::Read);
        loop {
            let state = self.word.settled();
            if admits_reader(state) {
                if self.word.swap(state, one_more_reader(state), Acquire) {
                    return true;
                }
            } else if patience > 0 && state & QUEUED == 0 {
                patience -= 1;
                spin_loop();
            } else if let Some(mut held) = self.word.hold_if(state) {
                // SAFETY: the node is new, and we leave when it has been signalled.
                unsafe { held.list().push_back(NonNull::from(&node)) };
                drop(held.release(state));
                break;
            }
        }
        let _waiting = park::waits_for(c"reading", self);
        // Readers are only ever granted.
        node.wait_deadline(deadline).is_some() || self.give_up(&node) == Signal::Granted
    }

    /// Takes the node of a waiter whose time is up out of the list. The result is its signal: if it
    /// has one, it was taken out at the last moment.
    #[cold]
    fn give_up(&self, node: &Node<Access>) -> Signal {
        let mut held = self.word.hold();
        let (signal, state) = held.withdraw(node, HANDOFF);
        if signal == Signal::Waiting && !is_free(state) && state & WRITER == 0 {
            // Readers may have stood behind this writer only.
            self.admit_readers(held, state);
        } else {
            drop(held.release(state));
        }
        signal
    }

    #[cold]
    fn write_contended(&self, deadline: Option<Instant>) -> bool {
        let me = park::current();
        let mut patience = park::patience(me);
        let node = Node::new(me, Access::Write);
        let mut losses = None;
        // Goes round once for the first attempt and once for each wake-up.
        loop {
            loop {
                let state = self.word.settled();
                // Once woken, WAKING stands for us.
                let kept = if losses.is_some() { state & !WAKING } else { state };
                if is_free(state) {
                    if self.word.swap(state, kept | WRITER, Acquire) {
                        return true;
                    }
                } else if losses.is_none() && patience > 0 && state & QUEUED == 0 {
                    patience -= 1;
                    spin_loop();
                } else if let Some(mut held) = self.word.hold_if(state) {
                    let mut next = kept;
                    let place = NonNull::from(&node);
                    match &mut losses {
                        // SAFETY: the node is new, and we leave when it has been signalled.
                        None => unsafe { held.list().push_back(place) },
                        Some(losses) => {
                            *losses += 1;
                            if *losses >= LOSSES {
                                next |= HANDOFF;
                            }
                            node.rearm();
                            // SAFETY: the node has been signalled, so it is in no list; as above
                            // for the rest.
                            unsafe { held.list().push_front(place) }
                        }
                    }
                    drop(held.release(next));
                    break;
                }
            }
            let _waiting = park::waits_for(c"writing", self);
            let signal = match node.wait_deadline(deadline) {
                Some(signal) => signal,
                None => self.give_up(&node),
            };
            match signal {
                Signal::Granted => return true,
                Signal::Waiting | Signal::Abandoned => return false,
                Signal::Woken | Signal::Closed => {}
            }
            losses.get_or_insert(0u32);
        }
    }

    /// A reader leaves.
    #[inline]
    pub(crate) fn read_unlock(&self) {
        let state = self.word.load(Relaxed);
        if state & (READER - 1) != 0 || !self.word.swap(state, state - READER, Release) {
            self.leave(READER);
        }
    }

    /// The writer leaves.
    #[inline]
    pub(crate) fn write_unlock(&self) {
        if !self.word.swap(WRITER, 0, Release) {
            self.leave(WRITER);
        }
    }

    /// The owner of `share` (the writer or one reader) leaves.
    #[cold]
    fn leave(&self, share: u32) {
        loop {
            let state = self.word.settled();
            let rest = state - share;
            let pass_on = is_free(rest)
                && (rest & HANDOFF != 0 || (rest & QUEUED != 0 && !self.is_waking(rest)));
            if !pass_on {
                if self.word.swap(state, rest, Release) {
                    return;
                }
            } else if let Some(held) = self.word.hold_if(state) {
                if !self.is_waking(rest) {
                    return self.pass_on(held, rest & !WAKING);
                }
                // Another wake-up than the one that was looked at.
                drop(held.release(state));
            }
        }
    }

    /// Is a writer on its way? Not one that a shutdown has stopped.
    fn is_waking(&self, state: u32) -> bool {
        state & WAKING != 0 && !self.word.woken_is_abandoned()
    }

    /// Gives the lock, which is free in `rest`, to the head of the list or wakes it.
    fn pass_on<'a>(&'a self, mut held: Held<'a, Access>, rest: u32) {
        match held.list().front_live() {
            Some(Access::Read) => self.admit_readers(held, rest),
            Some(Access::Write) => {
                let (next, signal) = if rest & HANDOFF != 0 {
                    (rest & !HANDOFF | WRITER, Signal::Granted)
                } else {
                    (rest | WAKING, Signal::Woken)
                };
                let waiter = held.list().pop_front().map(|first| first.signal(signal));
                waiter.inspect(|&waiter| held.note_woken(waiter));
                let _quiet = held.release(next);
                if let Some(waiter) = waiter {
                    park::unpark(waiter);
                }
            }
            // Those who waited were abandoned.
            None => drop(held.release(rest & !HANDOFF)),
        }
    }

    /// Gives shares to the readers at the head of the list. `state` has no writer.
    ///
    /// After a full batch preemption may happen. It is no loss if the lock moves on in between: the
    /// readers that remain are then at the head of the list like any other.
    fn admit_readers<'a>(&'a self, mut held: Held<'a, Access>, mut state: u32) {
        loop {
            let mut batch = Batch::new();
            while !batch.is_full()
                && state & READERS != READERS
                && held.list().front_live() == Some(&Access::Read)
            {
                if let Some(first) = held.list().pop_front() {
                    batch.push(first.signal(Signal::Granted));
                    state += READER;
                }
            }
            let more = batch.is_full();
            batch.unpark(held.release(state));
            if !more {
                return;
            }
            held = self.word.hold();
            state = held.state();
            if state & WRITER != 0 || held.list().front_live() != Some(&Access::Read) {
                drop(held.release(state));
                return;
            }
        }
    }

    /// The writer becomes a reader, and readers at the head of the list join it.
    pub(crate) fn downgrade(&self) {
        if !self.word.swap(WRITER, READER, Release) {
            let held = self.word.hold();
            let state = held.state() - WRITER + READER;
            self.admit_readers(held, state);
        }
    }

    /// How many wait in the list.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn waiting(&self) -> usize {
        let mut held = self.word.hold();
        let n = held.list().len();
        let state = held.state();
        drop(held.release(state));
        n
    }
}
