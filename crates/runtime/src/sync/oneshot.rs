//! A channel for one value.
//!
//! # Protocol
//!
//! ```text
//!   EMPTY --the receiver waits--> WAITING --its time is up--> EMPTY
//!   EMPTY or WAITING --send--> SENT --received--> CLOSED
//!   EMPTY or WAITING --sender dropped--> CLOSED
//!   EMPTY or SENT or CLOSED --receiver dropped--> GONE
//! ```
//!
//! The sender changes the state once, by a swap, and what it finds tells what to do: wake
//! (WAITING), take the value back (GONE), or nothing (EMPTY). The value belongs to the sender
//! before the swap and to the receiver after. The waiter belongs to the receiver, except that a
//! sender which found WAITING may read it: the receiver does not write it then, since it is written
//! only before the step from EMPTY to WAITING.

use crate::park::shim::{Arc, AtomicU32};
use crate::park::{self, Section, Waiter};
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use std::time::{Duration, Instant};

const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const SENT: u32 = 2;
const CLOSED: u32 = 3;
const GONE: u32 = 4;

/// Creates a channel for one value.
///
/// The sender and the receiver may be user threads or ordinary kernel threads; a user thread that
/// waits gives its worker to others. Sending and receiving cost one atomic operation each.
///
/// # Examples
///
/// ```
/// use quaver::sync::oneshot;
///
/// let (tx, rx) = oneshot::channel();
/// std::thread::spawn(move || tx.send(6 * 7).unwrap());
/// assert_eq!(rx.recv(), Ok(42));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(OneshotChan {
        state: AtomicU32::new(EMPTY),
        waiter: UnsafeCell::new(None),
        value: UnsafeCell::new(MaybeUninit::uninit()),
    });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

struct OneshotChan<T> {
    state: AtomicU32,
    waiter: UnsafeCell<Option<Waiter>>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the protocol gives each cell to one side at a time, and moves the value from one to the
// other.
unsafe impl<T: Send> Sync for OneshotChan<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for OneshotChan<T> {}

impl<T> OneshotChan<T> {
    /// The sender's one step. The result is the state before.
    fn finish(&self, state: u32) -> u32 {
        // A sender preempted between the swap and the wake-up would hold up the receiver.
        let _quiet = Section::new();
        let before = self.state.swap(state, AcqRel);
        if before == WAITING {
            // SAFETY: we found WAITING, so the waiter is written and will not be written again.
            if let Some(waiter) = unsafe { *self.waiter.get() } {
                park::unpark(waiter);
            }
        }
        before
    }

    /// # Safety
    ///
    /// The value has been written, belongs to the caller, and is not taken again.
    unsafe fn take(&self) -> T {
        // SAFETY: the caller's contract.
        unsafe { (*self.value.get()).assume_init_read() }
    }
}

/// The sending side of a [`channel`].
///
/// # Examples
///
/// ```
/// let (tx, rx) = quaver::sync::oneshot::channel::<u32>();
/// drop(tx);
/// assert!(rx.recv().is_err());
/// ```
#[must_use = "dropping the sender makes the receiver fail"]
pub struct Sender<T> {
    shared: Arc<OneshotChan<T>>,
}

/// The receiving side of a [`channel`].
///
/// # Examples
///
/// ```
/// use quaver::sync::oneshot::{self, TryRecvError};
///
/// let (tx, mut rx) = oneshot::channel();
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
/// tx.send("now").unwrap();
/// assert_eq!(rx.try_recv(), Ok("now"));
/// ```
#[must_use = "dropping the receiver makes the sender fail"]
pub struct Receiver<T> {
    shared: Arc<OneshotChan<T>>,
}

impl<T> Sender<T> {
    /// Sends the value. Never waits.
    ///
    /// # Errors
    ///
    /// If the receiver is gone; the error contains the value. Success does not mean that it will be
    /// received.
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped again.
        let shared = unsafe { std::ptr::read(&this.shared) };
        // SAFETY: before the swap the value belongs to the sender.
        unsafe { (*shared.value.get()).write(value) };
        if shared.finish(SENT) == GONE {
            // SAFETY: written above, and the receiver will not take it any more.
            return Err(SendError(unsafe { shared.take() }));
        }
        Ok(())
    }

    /// Is the receiver gone? Then the value need not be made.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.state.load(Relaxed) == GONE
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.finish(CLOSED);
    }
}

impl<T> Receiver<T> {
    /// Receives the value, waiting for it.
    ///
    /// # Errors
    ///
    /// If the sender was dropped.
    pub fn recv(mut self) -> Result<T, RecvError> {
        self.recv_deadline(None).map_err(|_| RecvError)
    }

    /// As [`recv`](Self::recv), for at most `timeout`. May be called again after a timeout.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError::Timeout`], or [`RecvTimeoutError::Disconnected`] if the sender was
    /// dropped or the value has been received already.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_deadline(park::deadline_after(timeout))
    }

    /// Receives the value if it is there at this moment. Never waits.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`], or [`TryRecvError::Disconnected`] if the sender was dropped or the
    /// value has been received already.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.shared.state.load(Acquire) {
            SENT => {
                // The sender is done with the state.
                self.shared.state.store(CLOSED, Relaxed);
                // SAFETY: SENT, so the value is there and ours; the state says that it is taken.
                Ok(unsafe { self.shared.take() })
            }
            CLOSED => Err(TryRecvError::Disconnected),
            _ => Err(TryRecvError::Empty),
        }
    }

    fn recv_deadline(&mut self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let me = park::current();
        let mut waiting = false;
        loop {
            match self.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            let state = &self.shared.state;
            if !waiting {
                // SAFETY: the state is not WAITING: only we could have made it so.
                unsafe { *self.shared.waiter.get() = Some(me) };
                waiting = state.compare_exchange(EMPTY, WAITING, AcqRel, Relaxed).is_ok();
                if !waiting {
                    continue;
                }
            }
            let _waiting = park::waits_for(c"channel", &raw const *self.shared);
            if !park::park_deadline(me, deadline)
                && state.compare_exchange(WAITING, EMPTY, Acquire, Relaxed).is_ok()
            {
                return Err(RecvTimeoutError::Timeout);
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.state.swap(GONE, AcqRel) == SENT {
            // SAFETY: SENT, so the value is there and ours.
            drop(unsafe { self.shared.take() });
        }
    }
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
