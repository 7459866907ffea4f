//! The channel that is never full.

use super::blocks::{Block, Blocks};
use super::flavor::Flavor;
use super::mailbox::Mailbox;
use crate::park::{self, SpinLock};
use crate::sync::list::{Node, Signal, WaitList};
use crate::sync::watch::Watched;
use std::ptr::NonNull;
use std::sync::mpsc::{SendError, TryRecvError};

/// Invariant: when the receiver waits, the queue is empty and there are senders.
pub(super) struct UnboundedChan<T> {
    state: SpinLock<UnboundedState<T>>,
    pub(super) watched: Watched,
}

struct UnboundedState<T> {
    queue: Blocks<T>,
    /// The receiver, if it waits.
    receiver: WaitList<Mailbox<T>>,
    senders: usize,
    receiver_lives: bool,
}

impl<T> UnboundedChan<T> {
    /// A channel with one sender and the receiver.
    pub(super) fn new() -> UnboundedChan<T> {
        UnboundedChan {
            state: SpinLock::new(UnboundedState {
                queue: Blocks::new(),
                receiver: WaitList::new(),
                senders: 1,
                receiver_lives: true,
            }),
            watched: Watched::new(),
        }
    }

    pub(super) fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut spare: Option<Box<Block<T>>> = None;
        loop {
            let mut state = self.state.lock();
            if !state.receiver_lives {
                drop(state);
                return Err(SendError(value));
            }
            if let Some(first) = state.receiver.pop_live() {
                // SAFETY: we took the receiver's node out, and its mailbox is empty.
                unsafe { first.payload().put(value) };
                let waiter = first.signal(Signal::Granted);
                let _quiet = state.unlock();
                park::unpark(waiter);
                return Ok(());
            }
            if state.queue.make_room(&mut spare) {
                // SAFETY: room was made just now.
                unsafe { state.queue.push(value) };
                drop(state);
                self.watched.wake();
                return Ok(());
            }
            drop(state);
            spare = Some(Block::new());
        }
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
        state.queue.len() != 0 || state.senders == 0
    }
}

impl<T> Flavor<T> for UnboundedChan<T> {
    fn recv_or_wait(&self, node: Option<&Node<Mailbox<T>>>) -> Result<T, TryRecvError> {
        let mut garbage = None;
        let mut state = self.state.lock();
        if let Some(value) = state.queue.pop(&mut garbage) {
            drop(state);
            return Ok(value);
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
        let mut state = self.state.lock();
        state.receiver_lives = false;
        let unreceived = std::mem::replace(&mut state.queue, Blocks::new());
        drop(state);
        // Values of users are dropped outside the lock.
        drop(unreceived);
    }
}
