//! What the receiver needs from a channel, and the receive loop.

use super::mailbox::Mailbox;
use crate::park;
use crate::sync::list::{Node, Signal};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// The receiving side of a channel. Called by the one receiver only.
pub(super) trait Flavor<T> {
    /// Takes the oldest value. If there is none but may be one later, the result is `Empty`, and
    /// `node`, if given, is in the receiver's list: the caller stays until it is signalled or
    /// [`give_up`](Self::give_up) returns `true`. The node is new or has been taken out.
    fn recv_or_wait(&self, node: Option<&Node<Mailbox<T>>>) -> Result<T, TryRecvError>;

    /// Takes the waiting receiver's node out; `false` if it has been signalled.
    fn give_up(&self, node: &Node<Mailbox<T>>) -> bool;

    /// The receiver is gone: drops what was not received, and lets waiting senders fail.
    fn remove_receiver(&self);
}

/// Receives, waiting for at most `timeout`.
pub(super) fn recv<T>(
    channel: &impl Flavor<T>,
    timeout: Option<Duration>,
) -> Result<T, RecvTimeoutError> {
    let node = Node::new(park::current(), Mailbox::empty());
    match channel.recv_or_wait(Some(&node)) {
        Ok(value) => return Ok(value),
        Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
        Err(TryRecvError::Empty) => {}
    }
    let deadline = timeout.and_then(park::deadline_after);
    let _waiting = park::waits_for(c"channel", channel);
    let signal = match node.wait_deadline(deadline) {
        Some(signal) => signal,
        None if channel.give_up(&node) => return Err(RecvTimeoutError::Timeout),
        None => node.signal(),
    };
    match signal {
        // SAFETY: the wait is over, so the mailbox is ours, and it was filled.
        Signal::Granted => Ok(unsafe { node.payload().take() }),
        Signal::Abandoned => Err(RecvTimeoutError::Timeout),
        _ => Err(RecvTimeoutError::Disconnected),
    }
}
