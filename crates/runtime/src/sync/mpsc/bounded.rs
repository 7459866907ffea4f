//! The channel with a capacity, and the rendezvous channel, whose capacity is 0.

use super::SendTimeoutError;
use super::flavor::Flavor;
use super::mailbox::Mailbox;
use super::ring::Ring;
use crate::park::{self, SpinGuard, SpinLock};
use crate::sync::list::{Batch, Node, Signal, WaitList};
use crate::sync::watch::Watched;
use std::ptr::NonNull;
use std::sync::mpsc::{TryRecvError, TrySendError};
use std::time::Instant;

/// Invariants: when the receiver waits, the ring is empty, no sender waits, and there are senders.
/// When senders wait, the ring is full and there is a receiver (but for the time that its removal
/// takes).
///
/// A waiting sender keeps its value in its mailbox. The receiver that makes room moves it, so
/// senders stay in FIFO order and are woken only when their value is on its way.
pub(super) struct BoundedChan<T> {
    state: SpinLock<BoundedState<T>>,
    pub(super) watched: Watched,
}

struct BoundedState<T> {
    ring: Ring<T>,
    /// The receiver, if it waits.
    receiver: WaitList<Mailbox<T>>,
    blocked: WaitList<Mailbox<T>>,
    senders: usize,
    receiver_lives: bool,
}

impl<T> BoundedChan<T> {
    /// A channel with one sender and the receiver.
    pub(super) fn new(capacity: usize) -> BoundedChan<T> {
        BoundedChan {
            state: SpinLock::new(BoundedState {
                ring: Ring::new(capacity),
                receiver: WaitList::new(),
                blocked: WaitList::new(),
                senders: 1,
                receiver_lives: true,
            }),
            watched: Watched::new(),
        }
    }

    /// Sends, waiting until `deadline` at most.
    pub(super) fn send(
        &self,
        value: T,
        deadline: Option<Instant>,
    ) -> Result<(), SendTimeoutError<T>> {
        let me = park::current();
        let (value, mut state) = match self.send_now(value) {
            Ok(()) => return Ok(()),
            Err((value, Some(state))) => (value, state),
            Err((value, None)) => return Err(SendTimeoutError::Disconnected(value)),
        };
        let node = Node::new(me, Mailbox::filled(value));
        // SAFETY: the node is new, and we leave when it has been signalled.
        unsafe { state.blocked.push_back(NonNull::from(&node)) };
        drop(state);
        self.watched.wake();
        let waiting = park::waits_for(c"room in channel", self);
        let signal = node.wait_deadline(deadline).unwrap_or_else(|| self.give_up_sending(&node));
        drop(waiting);
        if signal == Signal::Granted {
            return Ok(());
        }
        // SAFETY: the wait is over, so the mailbox is ours, and nobody took the value.
        let value = unsafe { node.payload().take() };
        Err(if signal == Signal::Closed {
            SendTimeoutError::Disconnected(value)
        } else {
            SendTimeoutError::Timeout(value)
        })
    }

    /// Takes the node of a sender whose time is up out of the list. The result is its signal: if it
    /// has one, it was taken out at the last moment.
    #[cold]
    fn give_up_sending(&self, node: &Node<Mailbox<T>>) -> Signal {
        let mut state = self.state.lock();
        let signal = node.signal();
        if signal == Signal::Waiting {
            // SAFETY: list invariant 5: signals of senders are set under this lock.
            unsafe { state.blocked.remove(node) };
        }
        signal
    }

    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.send_now(value) {
            Ok(()) => Ok(()),
            Err((value, Some(state))) => {
                drop(state);
                Err(TrySendError::Full(value))
            }
            Err((value, None)) => Err(TrySendError::Disconnected(value)),
        }
    }

    /// Gives the value to the receiver or the ring. Otherwise gives it back, with the locked state
    /// if the ring is full, and without if there is no receiver.
    #[allow(clippy::type_complexity)] // Named nowhere else.
    fn send_now(&self, value: T) -> Result<(), (T, Option<SpinGuard<'_, BoundedState<T>>>)> {
        let mut state = self.state.lock();
        if !state.receiver_lives {
            drop(state);
            return Err((value, None));
        }
        if let Some(first) = state.receiver.pop_live() {
            // SAFETY: we took the receiver's node out, and its mailbox is empty.
            unsafe { first.payload().put(value) };
            let waiter = first.signal(Signal::Granted);
            let _quiet = state.unlock();
            park::unpark(waiter);
        } else if state.ring.is_full() {
            return Err((value, Some(state)));
        } else {
            state.ring.push(value);
            drop(state);
            self.watched.wake();
        }
        Ok(())
    }

    pub(super) fn add_sender(&self) {
        self.state.lock().senders += 1;
    }

    pub(super) fn remove_sender(&self) {
        let mut state = self.state.lock();
        state.senders -= 1;
        if state.senders != 0 {
            return;
        }
        if let Some(first) = state.receiver.pop_live() {
            let waiter = first.signal(Signal::Closed);
            let _quiet = state.unlock();
            park::unpark(waiter);
        } else {
            drop(state);
            self.watched.wake();
        }
    }

    /// Is there a value, or will there never be one?
    #[cfg(not(loom))]
    pub(super) fn is_ready(&self) -> bool {
        let state = self.state.lock();
        !state.ring.is_empty() || !state.blocked.is_empty() || state.senders == 0
    }

    /// How many senders wait.
    #[cfg(all(test, not(loom)))]
    pub(super) fn blocked(&self) -> usize {
        self.state.lock().blocked.len()
    }
}

impl<T> Flavor<T> for BoundedChan<T> {
    fn recv_or_wait(&self, node: Option<&Node<Mailbox<T>>>) -> Result<T, TryRecvError> {
        let mut state = self.state.lock();
        let oldest = state.ring.pop();
        if let Some(first) = state.blocked.pop_front() {
            // SAFETY: we took the sender's node out, and its mailbox is filled.
            let value = unsafe { first.payload().take() };
            let oldest = match oldest {
                Some(oldest) => {
                    state.ring.push(value);
                    oldest
                }
                // Rendezvous.
                None => value,
            };
            let waiter = first.signal(Signal::Granted);
            let _quiet = state.unlock();
            park::unpark(waiter);
            return Ok(oldest);
        }
        if let Some(oldest) = oldest {
            return Ok(oldest);
        }
        if state.senders == 0 {
            return Err(TryRecvError::Disconnected);
        }
        if let Some(node) = node {
            // SAFETY: the trait's contract.
            unsafe { state.receiver.push_back(NonNull::from(node)) };
        }
        Err(TryRecvError::Empty)
    }

    fn give_up(&self, node: &Node<Mailbox<T>>) -> bool {
        let mut state = self.state.lock();
        let waiting = node.signal() == Signal::Waiting;
        if waiting {
            // SAFETY: list invariant 5: signals of receivers are set under this lock.
            unsafe { state.receiver.remove(node) };
        }
        waiting
    }

    fn remove_receiver(&self) {
        let nothing = Ring::new(0);
        let mut state = self.state.lock();
        state.receiver_lives = false;
        let unreceived = std::mem::replace(&mut state.ring, nothing);
        loop {
            let mut batch = Batch::new();
            while !batch.is_full() {
                let Some(first) = state.blocked.pop_front() else { break };
                batch.push(first.signal(Signal::Closed));
            }
            let done = state.blocked.is_empty();
            batch.unpark(state.unlock());
            if done {
                break;
            }
            state = self.state.lock();
        }
        // Values of users are dropped outside the lock.
        drop(unreceived);
    }
}
