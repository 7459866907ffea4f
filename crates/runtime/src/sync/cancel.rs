//! Asking threads to stop.

use super::select::sealed::Sealed;
use super::watch::{self, Watched};
use crate::park;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A flag that asks threads to stop, and ends the waits that take it.
///
/// Cancellation is cooperative: a thread is never stopped from outside. It asks
/// [`is_cancelled`](Self::is_cancelled) now and then, sleeps with [`sleep`](Self::sleep), and waits
/// for a channel *or* the token with [`select`](super::select). Waits that take no token go on:
/// give them a timeout. A clone stands for the same flag; once set it stays set.
///
/// # Examples
///
/// ```
/// use quaver::sync::CancelToken;
/// use std::time::Duration;
///
/// let stop = CancelToken::new();
/// let beats = std::thread::spawn({
///     let stop = stop.clone();
///     move || {
///         let mut beats = 1;
///         while stop.sleep(Duration::from_millis(1)).is_ok() {
///             beats += 1;
///         }
///         beats
///     }
/// });
/// stop.cancel();
/// assert!(beats.join().unwrap() > 0);
/// ```
#[derive(Clone, Default)]
pub struct CancelToken {
    shared: Arc<TokenState>,
}

struct TokenState {
    cancelled: AtomicBool,
    watched: Watched,
}

impl Default for TokenState {
    fn default() -> TokenState {
        TokenState { cancelled: AtomicBool::new(false), watched: Watched::new() }
    }
}

/// The wait has ended because its [`CancelToken`] was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Sets the flag and ends the waits that take it. Never blocks.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, SeqCst);
        self.shared.watched.wake();
    }

    /// Has it been cancelled? Costs as much as reading a variable.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(SeqCst)
    }

    /// Waits until it is cancelled.
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// Sleeps for at least `duration`; see [`quaver::sleep`](crate::sleep).
    ///
    /// # Errors
    ///
    /// [`Cancelled`], as soon as it is.
    pub fn sleep(&self, duration: Duration) -> Result<(), Cancelled> {
        match self.wait_until(Some(duration)) {
            true => Err(Cancelled),
            false => Ok(()),
        }
    }

    fn wait_until(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.and_then(park::deadline_after);
        let ready = || self.is_cancelled().then_some(());
        watch::wait(std::iter::once(&self.shared.watched), deadline, ready).is_some()
    }
}

/// For waits that are no [`Source`](super::Source).
pub(crate) fn watched(token: &CancelToken) -> &Watched {
    &token.shared.watched
}

impl Sealed for CancelToken {
    fn is_ready(&self) -> bool {
        self.is_cancelled()
    }

    fn watched(&self) -> &Watched {
        &self.shared.watched
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}
