//! Channels with many senders and one receiver, with the interface of [`std::sync::mpsc`].
//!
//! [`channel`] is never full; [`sync_channel`] has a capacity, and with capacity 0 every send waits
//! for its receive. Errors are the types of `std`. Senders and receivers may be user threads and
//! ordinary kernel threads in any mixture; a user thread that waits gives its worker to others.
//!
//! A value goes straight to a receiver that waits, and senders that wait are served first come,
//! first served. Values that were not received are dropped with the [`Receiver`].
//!
//! # Examples
//!
//! ```
//! use quaver::sync::mpsc;
//!
//! let (tx, rx) = mpsc::channel();
//! for id in 0..3 {
//!     let tx = tx.clone();
//!     std::thread::spawn(move || tx.send(id).unwrap());
//! }
//! drop(tx);
//! let mut got: Vec<_> = rx.iter().collect();
//! got.sort();
//! assert_eq!(got, [0, 1, 2]);
//! ```

// How it works: the state of a channel, values and waiting threads, lies under one spin lock
// (`unbounded`, `bounded`), so sending and receiving cost one atomic operation each. Values travel
// through the mailboxes of waiting threads (`mailbox`) where they can, so a receiver that was woken
// needs no second look at the channel.

mod blocks;
mod bounded;
mod flavor;
pub(crate) mod mailbox;
mod ring;
mod unbounded;

use crate::park;
use crate::park::shim::Arc;
use flavor::Flavor;
use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::time::Duration;

/// Creates a channel without limit: sending never waits.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let chan = Arc::new(unbounded::UnboundedChan::new());
    (Sender { chan: chan.clone() }, Receiver::new(Side::Unbounded(chan)))
}

/// Creates a channel that holds up to `capacity` values: sending waits while it is full. With
/// capacity 0, sending waits until the value is received. The memory for `capacity` values is
/// allocated at once.
///
/// # Panics
///
/// If `capacity` values exceed the address space.
///
/// # Examples
///
/// ```
/// use quaver::sync::mpsc::{TrySendError, sync_channel};
///
/// let (tx, rx) = sync_channel(1);
/// tx.send('a').unwrap();
/// assert_eq!(tx.try_send('b'), Err(TrySendError::Full('b')));
/// assert_eq!(rx.recv(), Ok('a'));
/// ```
#[must_use]
pub fn sync_channel<T>(capacity: usize) -> (SyncSender<T>, Receiver<T>) {
    let chan = Arc::new(bounded::BoundedChan::new(capacity));
    (SyncSender { chan: chan.clone() }, Receiver::new(Side::Bounded(chan)))
}

/// The sending side of a [`channel`]. Clones send to the same receiver.
///
/// # Examples
///
/// ```
/// let (tx, rx) = quaver::sync::mpsc::channel();
/// let other = tx.clone();
/// tx.send(1).unwrap();
/// drop(rx);
/// assert!(other.send(2).is_err());
/// ```
pub struct Sender<T> {
    chan: Arc<unbounded::UnboundedChan<T>>,
}

/// The sending side of a [`sync_channel`]. Clones send to the same receiver.
///
/// # Examples
///
/// ```
/// let (tx, rx) = quaver::sync::mpsc::sync_channel(0);
/// std::thread::spawn(move || tx.send("hello").unwrap());
/// assert_eq!(rx.recv(), Ok("hello"));
/// ```
pub struct SyncSender<T> {
    chan: Arc<bounded::BoundedChan<T>>,
}

/// The receiving side of a channel. There is one, used by one thread at a time.
///
/// # Examples
///
/// ```
/// let (tx, rx) = quaver::sync::mpsc::channel();
/// tx.send(7).unwrap();
/// drop(tx);
/// assert_eq!(rx.recv(), Ok(7));
/// assert!(rx.recv().is_err());
/// ```
pub struct Receiver<T> {
    side: Side<T>,
    /// One thread at a time: the channel has room for one waiting receiver.
    _not_sync: PhantomData<Cell<()>>,
}

enum Side<T> {
    Unbounded(Arc<unbounded::UnboundedChan<T>>),
    Bounded(Arc<bounded::BoundedChan<T>>),
}

/// Why [`SyncSender::send_timeout`] did not send; contains the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room in time.
    Timeout(T),
    /// The receiver is gone.
    Disconnected(T),
}

impl<T> SendTimeoutError<T> {
    /// The value.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(value) | SendTimeoutError::Disconnected(value) => value,
        }
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting for room in the channel",
            SendTimeoutError::Disconnected(_) => "sending on a closed channel",
        })
    }
}

impl<T> Error for SendTimeoutError<T> {}

impl<T> Sender<T> {
    /// Sends a value. Never waits.
    ///
    /// # Errors
    ///
    /// If the receiver is gone; the error contains the value. Success does not mean that it will be
    /// received.
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.chan.send(value)
    }
}

impl<T> SyncSender<T> {
    /// Sends a value, waiting while the channel is full, or with capacity 0 until it is received.
    ///
    /// # Errors
    ///
    /// If the receiver is gone or goes away in the meantime; the error contains the value.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.chan.send(value, None).map_err(|e| SendError(e.into_inner()))
    }

    /// As [`send`](Self::send), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`SendTimeoutError`], which contains the value: there was no room in time (with capacity 0,
    /// it was not received), or the receiver is gone.
    ///
    /// ```
    /// use quaver::sync::mpsc::{SendTimeoutError, sync_channel};
    /// use std::time::Duration;
    ///
    /// let (tx, rx) = sync_channel(1);
    /// tx.send('a').unwrap();
    /// let full = tx.send_timeout('b', Duration::from_millis(1));
    /// assert_eq!(full, Err(SendTimeoutError::Timeout('b')));
    /// assert_eq!(rx.recv(), Ok('a'));
    /// ```
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.chan.send(value, park::deadline_after(timeout))
    }

    /// Sends a value if there is room at this moment, or with capacity 0 if the receiver waits.
    /// Never waits.
    ///
    /// # Errors
    ///
    /// [`TrySendError::Full`] or [`TrySendError::Disconnected`], with the value.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.chan.try_send(value)
    }
}

impl<T> Receiver<T> {
    fn new(side: Side<T>) -> Receiver<T> {
        Receiver { side, _not_sync: PhantomData }
    }

    /// Receives the oldest value, waiting for one if there is none.
    ///
    /// # Errors
    ///
    /// If there is none and all senders are gone.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(None).map_err(|_| RecvError)
    }

    /// As [`recv`](Self::recv), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError::Timeout`] or [`RecvTimeoutError::Disconnected`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(Some(timeout))
    }

    /// Receives the oldest value if there is one at this moment. Never waits.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] or [`TryRecvError::Disconnected`].
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.side {
            Side::Unbounded(chan) => chan.recv_or_wait(None),
            Side::Bounded(chan) => chan.recv_or_wait(None),
        }
    }

    /// The values as they come, until all senders are gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// The values that are there, without waiting.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    #[inline]
    fn recv_until(&self, timeout: Option<Duration>) -> Result<T, RecvTimeoutError> {
        match &self.side {
            Side::Unbounded(chan) => flavor::recv(&**chan, timeout),
            Side::Bounded(chan) => flavor::recv(&**chan, timeout),
        }
    }
}

#[cfg(not(loom))]
impl<T> super::select::sealed::Sealed for Receiver<T> {
    fn is_ready(&self) -> bool {
        match &self.side {
            Side::Unbounded(chan) => chan.is_ready(),
            Side::Bounded(chan) => chan.is_ready(),
        }
    }

    fn watched(&self) -> &super::watch::Watched {
        match &self.side {
            Side::Unbounded(chan) => &chan.watched,
            Side::Bounded(chan) => &chan.watched,
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.chan.add_sender();
        Sender { chan: self.chan.clone() }
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        self.chan.add_sender();
        SyncSender { chan: self.chan.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.chan.remove_sender();
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        self.chan.remove_sender();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        match &self.side {
            Side::Unbounded(chan) => chan.remove_receiver(),
            Side::Bounded(chan) => chan.remove_receiver(),
        }
    }
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for SyncSender<T> {}
impl<T> RefUnwindSafe for SyncSender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

/// Iterator over received values that waits; from [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// Iterator over received values that does not wait; from [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// Iterator over received values that waits and owns the receiver.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    /// Senders that wait for room are served in the order in which they came.
    #[test]
    fn blocked_senders_are_served_in_order() {
        for capacity in 0..3 {
            const N: usize = 20;
            let (tx, rx) = sync_channel(capacity);
            for i in 0..capacity {
                tx.send(i).unwrap();
            }
            let senders: Vec<_> = (capacity..capacity + N)
                .map(|i| {
                    let sender = thread::spawn({
                        let tx = tx.clone();
                        move || tx.send(i).unwrap()
                    });
                    while tx.chan.blocked() <= i - capacity {
                        thread::yield_now();
                    }
                    sender
                })
                .collect();
            drop(tx);
            assert!(rx.iter().eq(0..capacity + N));
            for s in senders {
                s.join().unwrap();
            }
        }
    }

    /// More senders than a batch holds.
    #[test]
    fn blocked_senders_get_their_values_back() {
        const N: usize = 40;
        let (tx, rx) = sync_channel(0);
        let senders: Vec<_> = (0..N)
            .map(|i| {
                let tx = tx.clone();
                thread::spawn(move || tx.send(Box::new(i)))
            })
            .collect();
        while tx.chan.blocked() < N {
            thread::yield_now();
        }
        drop(rx);
        for (i, s) in senders.into_iter().enumerate() {
            assert_eq!(s.join().unwrap(), Err(SendError(Box::new(i))));
        }
    }
}
