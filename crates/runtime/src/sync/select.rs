//! Waiting for one of several channels and tokens.

use super::cancel::CancelToken;
use super::mpsc::Receiver;
use super::watch::{self, Watched};
use crate::park;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What [`select`] can wait for: a [`Receiver`] that has a value or has lost all its senders, a
/// [`CancelToken`] that has been cancelled.
pub trait Source: sealed::Sealed {}

impl<T> Source for Receiver<T> {}
impl Source for CancelToken {}

pub(super) mod sealed {
    use super::Watched;

    pub trait Sealed {
        /// Would a look now find something?
        fn is_ready(&self) -> bool;

        /// Is woken whenever it may have become ready.
        fn watched(&self) -> &Watched;
    }
}

/// Waits until one of the sources is ready, and returns its place in the list. Of several that are
/// ready each gets its turn.
///
/// Nothing is received: do that with `try_recv`, which does not wait. (Where senders of a channel
/// of capacity 0 give up after a time, it may find nothing.) On such a channel `try_send` does not
/// find a receiver that waits here.
///
/// A user thread gives its worker to others meanwhile; a kernel thread sleeps. Allocates if it
/// waits.
///
/// # Panics
///
/// If there are no sources: it would never return.
///
/// # Examples
///
/// ```
/// use quaver::sync::{CancelToken, mpsc, select};
///
/// let (numbers, from_numbers) = mpsc::channel();
/// let (words, from_words) = mpsc::channel();
/// let stop = CancelToken::new();
/// let worker = std::thread::spawn({
///     let stop = stop.clone();
///     move || {
///         let mut seen = 0;
///         loop {
///             match select(&[&from_numbers, &from_words, &stop]) {
///                 0 => seen += from_numbers.try_recv().unwrap_or(0),
///                 1 => seen += from_words.try_recv().map_or(0, str::len),
///                 _ => return seen,
///             }
///         }
///     }
/// });
/// numbers.send(1).unwrap();
/// words.send("two").unwrap();
/// # std::thread::sleep(std::time::Duration::from_millis(50));
/// stop.cancel();
/// assert!(worker.join().unwrap() <= 4);
/// ```
#[track_caller]
pub fn select(sources: &[&dyn Source]) -> usize {
    assert!(!sources.is_empty(), "select without anything to wait for");
    match wait(sources, None) {
        Some(place) => place,
        None => unreachable!("a wait without a deadline has ended"),
    }
}

/// As [`select`], for at most `timeout`: `None` if nothing is ready then. A timeout of zero only
/// looks.
pub fn select_timeout(sources: &[&dyn Source], timeout: Duration) -> Option<usize> {
    wait(sources, Some(timeout))
}

fn wait(sources: &[&dyn Source], timeout: Option<Duration>) -> Option<usize> {
    /// Where the next one begins to look, so that no source is always behind another.
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let turn = TURN.fetch_add(1, Relaxed) % sources.len().max(1);
    let (before, after) = sources.split_at(turn);
    let ready = || {
        let found = after.iter().position(|source| source.is_ready()).map(|i| i + turn);
        found.or_else(|| before.iter().position(|source| source.is_ready()))
    };
    let deadline: Option<Instant> = timeout.and_then(park::deadline_after);
    watch::wait(sources.iter().map(|source| source.watched()), deadline, ready)
}
