//! Wait lists: who waits, in which order, and how a waiter learns that its wait is over.
//!
//! A list is a doubly linked FIFO of [`Node`]s that lie on the stacks of the waiters. The list
//! itself lies inside some lock (a [`SpinLock`](crate::park::SpinLock) or a
//! [`WaitWord`](super::word::WaitWord)), here called *the list's lock*.
//!
//! # Invariants
//!
//! 1. Links of a node and ends of a list are accessed only under the list's lock.
//! 2. A node is in at most one list. Its [`Signal`] is `Waiting` while it is in a list, and on the
//!    way from one list to another.
//! 3. Whoever takes a node out of a list owes it a signal. Setting the signal is the **last
//!    access** to the node: its owner may return at once and reuse the stack. The [`Waiter`] is
//!    therefore read before, and unparked after.
//! 4. The owner leaves its frame only when the signal is set, or after it has removed the node
//!    itself, under the list's lock.
//! 5. A node whose signal is set under the list's lock is in the list exactly while, under that
//!    lock, its signal is `Waiting`. Timed waiters rely on it: on timeout they lock, and remove the
//!    node or find their signal.
//!
//! 6. A wake-up that must reach somebody goes to a waiter that can still run
//!    ([`WaitList::pop_live`]). Others are passed over: they leave the list with the signal
//!    `Abandoned`, after which they may still look at it but wait on.
//!
//! The signal is set with `Release` and read with `Acquire`, so what the waker wrote is visible to
//! the waiter.

use crate::park::shim::AtomicU32;
use crate::park::{self, Section, Waiter};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

/// What a waker tells a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Signal {
    /// Nothing yet.
    Waiting = 0,
    /// Look again: what was waited for may be available now.
    Woken = 1,
    /// What was waited for is yours.
    Granted = 2,
    /// It will never come.
    Closed = 3,
    /// The waiter was passed over, because its runtime has been told to stop: it waits on, for
    /// ever.
    Abandoned = 4,
}

impl Signal {
    fn from_u32(value: u32) -> Signal {
        match value {
            0 => Signal::Waiting,
            1 => Signal::Woken,
            2 => Signal::Granted,
            3 => Signal::Closed,
            _ => Signal::Abandoned,
        }
    }
}

/// A place in a wait list, on the stack of the one who waits. `P` says what it waits for.
pub(crate) struct Node<P> {
    next: Cell<*const Node<P>>,
    prev: Cell<*const Node<P>>,
    waiter: Waiter,
    signal: AtomicU32,
    payload: P,
}

impl<P> Node<P> {
    /// A place for the calling thread, which is `waiter`.
    pub(crate) fn new(waiter: Waiter, payload: P) -> Node<P> {
        Node {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            waiter,
            signal: AtomicU32::new(Signal::Waiting as u32),
            payload,
        }
    }

    pub(crate) fn payload(&self) -> &P {
        &self.payload
    }

    /// Who waits.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// The present signal.
    pub(crate) fn signal(&self) -> Signal {
        Signal::from_u32(self.signal.load(Acquire))
    }

    /// Owner only, while the node is in no list and its signal has been received: makes it ready to
    /// wait again.
    pub(crate) fn rearm(&self) {
        self.signal.store(Signal::Waiting as u32, Relaxed);
    }

    /// Owner only: waits for a signal.
    pub(crate) fn wait(&self) -> Signal {
        loop {
            match self.signal() {
                Signal::Waiting | Signal::Abandoned => park::park(self.waiter),
                signal => return signal,
            }
        }
    }

    /// Owner only: waits for a signal until `deadline`. `None`: timed out, and the node is still in
    /// its list or on its way to another, or it has been passed over.
    pub(crate) fn wait_deadline(&self, deadline: Option<Instant>) -> Option<Signal> {
        loop {
            match self.signal() {
                Signal::Waiting | Signal::Abandoned => {
                    if !park::park_deadline(self.waiter, deadline) {
                        return None;
                    }
                }
                signal => return Some(signal),
            }
        }
    }
}

/// A node that was taken out of a list and is owed a signal.
#[must_use = "its owner waits for a signal"]
pub(crate) struct Popped<P>(NonNull<Node<P>>);

impl<P> Popped<P> {
    pub(crate) fn payload(&self) -> &P {
        // SAFETY: invariant 4: the node lives until it is signalled, which consumes `self`.
        unsafe { &self.0.as_ref().payload }
    }

    /// Ends the wait. The caller unparks the result, before it becomes preemptible.
    #[inline]
    pub(crate) fn signal(self, signal: Signal) -> Waiter {
        // SAFETY: as in `payload`; the store is the last access.
        unsafe {
            let node = self.0.as_ptr();
            let waiter = (*node).waiter;
            (*node).signal.store(signal as u32, Release);
            waiter
        }
    }

    /// The node, for moving it to another list.
    pub(crate) fn into_node(self) -> NonNull<Node<P>> {
        self.0
    }
}

/// A FIFO list of waiters.
pub(crate) struct WaitList<P> {
    head: *const Node<P>,
    tail: *const Node<P>,
    len: usize,
}

// SAFETY: the pointers lead to nodes that other threads may access under the list's lock (invariant
// 1), and to payloads that a waker may read or take from another thread.
unsafe impl<P: Send> Send for WaitList<P> {}

impl<P> WaitList<P> {
    pub(crate) const fn new() -> WaitList<P> {
        WaitList { head: ptr::null(), tail: ptr::null(), len: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What the longest waiting one waits for that can still run.
    pub(crate) fn front_live(&mut self) -> Option<&P> {
        // SAFETY: nodes in the list live (invariant 4), and we hold the list's lock.
        while unsafe { self.head.as_ref() }.is_some_and(|node| node.waiter.is_abandoned()) {
            self.abandon_front();
        }
        // SAFETY: as above.
        unsafe { self.head.as_ref().map(|node| &node.payload) }
    }

    #[cold]
    fn abandon_front(&mut self) {
        if let Some(first) = self.pop_front() {
            first.signal(Signal::Abandoned);
        }
    }

    /// Takes out the one that has waited longest of those that can still run.
    #[inline]
    pub(crate) fn pop_live(&mut self) -> Option<Popped<P>> {
        self.front_live()?;
        self.pop_front()
    }

    /// The node behind `node`, or the first.
    ///
    /// # Safety
    ///
    /// The node is in this list, and the result is used while it is in the list and this is locked.
    pub(crate) unsafe fn after<'a>(&self, node: Option<&Node<P>>) -> Option<&'a Node<P>> {
        // SAFETY: nodes in the list live (invariant 4), and we hold the list's lock.
        unsafe { node.map_or(self.head, |node| node.next.get()).as_ref() }
    }

    /// The node before `node`.
    ///
    /// # Safety
    ///
    /// As for [`after`](Self::after).
    pub(crate) unsafe fn before<'a>(&self, node: &Node<P>) -> Option<&'a Node<P>> {
        // SAFETY: as in `after`.
        unsafe { node.prev.get().as_ref() }
    }

    /// Puts `node` behind `place`.
    ///
    /// # Safety
    ///
    /// As for [`push_back`](Self::push_back), and `place` is in this list.
    pub(crate) unsafe fn insert_after(&mut self, place: &Node<P>, node: &Node<P>) {
        let next = place.next.get();
        node.prev.set(place);
        node.next.set(next);
        place.next.set(node);
        // SAFETY: neighbours are in the list, so they live; the list's lock is held.
        match unsafe { next.as_ref() } {
            None => self.tail = node,
            Some(next) => next.prev.set(node),
        }
        self.len += 1;
    }

    /// Takes out `node`, which is owed a signal.
    ///
    /// # Safety
    ///
    /// The node is in this list.
    pub(crate) unsafe fn take(&mut self, node: &Node<P>) -> Popped<P> {
        // SAFETY: the caller's contract.
        unsafe { self.remove(node) };
        Popped(NonNull::from(node))
    }

    /// Appends `node`.
    ///
    /// # Safety
    ///
    /// The node is in no list, its signal is `Waiting`, and it will stay where it is until it is
    /// signalled or removed.
    #[inline]
    pub(crate) unsafe fn push_back(&mut self, node: NonNull<Node<P>>) {
        let new = node.as_ptr().cast_const();
        // SAFETY: the node is live by contract, the tail by invariant 4; the list's lock is held.
        unsafe {
            (*new).next.set(ptr::null());
            (*new).prev.set(self.tail);
            match self.tail.as_ref() {
                None => self.head = new,
                Some(tail) => tail.next.set(new),
            }
        }
        self.tail = new;
        self.len += 1;
    }

    /// Puts `node` before all others.
    ///
    /// # Safety
    ///
    /// As for [`push_back`](Self::push_back).
    pub(crate) unsafe fn push_front(&mut self, node: NonNull<Node<P>>) {
        let new = node.as_ptr().cast_const();
        // SAFETY: the node is live by contract, the head by invariant 4; the list's lock is held.
        unsafe {
            (*new).prev.set(ptr::null());
            (*new).next.set(self.head);
            match self.head.as_ref() {
                None => self.tail = new,
                Some(head) => head.prev.set(new),
            }
        }
        self.head = new;
        self.len += 1;
    }

    /// Takes out the one that has waited longest.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Popped<P>> {
        let first = NonNull::new(self.head.cast_mut())?;
        // SAFETY: nodes in the list live (invariant 4), and we hold the list's lock.
        unsafe {
            self.head = first.as_ref().next.get();
            match self.head.as_ref() {
                None => self.tail = ptr::null(),
                Some(head) => head.prev.set(ptr::null()),
            }
        }
        self.len -= 1;
        Some(Popped(first))
    }

    /// Takes out `node`, wherever it stands.
    ///
    /// # Safety
    ///
    /// The node is in this list.
    pub(crate) unsafe fn remove(&mut self, node: &Node<P>) {
        let (prev, next) = (node.prev.get(), node.next.get());
        // SAFETY: neighbours are in the list, so they live; the list's lock is held.
        unsafe {
            match prev.as_ref() {
                None => self.head = next,
                Some(prev) => prev.next.set(next),
            }
            match next.as_ref() {
                None => self.tail = prev,
                Some(next) => next.prev.set(prev),
            }
        }
        self.len -= 1;
    }
}

/// A few waiters to unpark once the list's lock is released. Large crowds are woken batch by batch,
/// so that no non-preemptible region grows with their number.
pub(crate) struct Batch {
    waiters: [MaybeUninit<Waiter>; Batch::CAPACITY],
    len: usize,
}

impl Batch {
    pub(crate) const CAPACITY: usize = 16;

    pub(crate) fn new() -> Batch {
        Batch { waiters: [const { MaybeUninit::uninit() }; Batch::CAPACITY], len: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == Batch::CAPACITY
    }

    /// Adds one; there must be room.
    pub(crate) fn push(&mut self, waiter: Waiter) {
        self.waiters[self.len].write(waiter);
        self.len += 1;
    }

    /// Unparks all of them, then lets preemption happen.
    pub(crate) fn unpark(self, quiet: Section) {
        for waiter in &self.waiters[..self.len] {
            // SAFETY: the first `len` entries were written by `push`.
            park::unpark(unsafe { waiter.assume_init() });
        }
        drop(quiet);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn drain(list: &mut WaitList<u32>) -> Vec<u32> {
        let mut out = Vec::new();
        while let Some(popped) = list.pop_front() {
            out.push(*popped.payload());
            popped.signal(Signal::Granted);
        }
        out
    }

    #[test]
    fn keeps_order_and_removes_anywhere() {
        let me = park::current();
        let nodes: Vec<_> = (0..5).map(|i| Node::new(me, i)).collect();
        for gone in 0..5 {
            let mut list = WaitList::new();
            for node in &nodes {
                node.rearm();
                // SAFETY: in no list (the previous round emptied it), and it outlives the round.
                unsafe { list.push_back(NonNull::from(node)) };
            }
            assert_eq!((list.len(), list.front_live()), (5, Some(&0)));
            // SAFETY: it was pushed above.
            unsafe { list.remove(&nodes[gone]) };
            assert_eq!(nodes[gone].signal(), Signal::Waiting);
            // SAFETY: it was just removed.
            unsafe { list.push_front(NonNull::from(&nodes[gone])) };
            let mut expected: Vec<_> = (0..5).filter(|&i| i != gone as u32).collect();
            expected.insert(0, gone as u32);
            assert_eq!(drain(&mut list), expected);
            assert!(list.is_empty());
            assert!(nodes.iter().all(|n| n.signal() == Signal::Granted));
        }
    }

    #[test]
    fn a_signal_ends_the_wait_at_once() {
        let node = Node::new(park::current(), ());
        let mut list = WaitList::new();
        // SAFETY: the node is new and outlives the list.
        unsafe { list.push_back(NonNull::from(&node)) };
        assert_eq!(node.wait_deadline(Some(Instant::now())), None);
        list.pop_front().unwrap().signal(Signal::Closed);
        assert_eq!(node.wait(), Signal::Closed);
        assert_eq!(node.wait_deadline(Some(Instant::now())), Some(Signal::Closed));
    }

    #[test]
    fn abandoned_waiters_are_passed_over() {
        let (gone, me) =
            (Waiter::User { handle: 0, runtime: Waiter::NO_RUNTIME - 1 }, park::current());
        let nodes: Vec<_> =
            [gone, me, gone, gone].into_iter().zip(0..).map(|(w, i)| Node::new(w, i)).collect();
        let mut list = WaitList::new();
        for node in &nodes {
            // SAFETY: the nodes are new and outlive the list.
            unsafe { list.push_back(NonNull::from(node)) };
        }
        let live = list.pop_live().unwrap();
        assert_eq!(*live.payload(), 1);
        live.signal(Signal::Granted);
        assert!(list.pop_live().is_none() && list.is_empty());
        for i in [0, 2, 3] {
            assert_eq!(nodes[i].signal(), Signal::Abandoned);
        }
    }
}
