//! What clients may ask of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The limits of a server. None is without a bound by default, except waiting for requests.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at the same time; more are told so and closed. Requests under way, over UDP.
    pub connections: usize,
    /// Bytes of a value, or of any other word of a request.
    pub value: usize,
    /// Words of a request.
    pub words: usize,
    /// Rows that one request may ask for.
    pub rows: usize,
    /// Memory for requests and replies of all connections together, beyond the first [`FREE`]
    /// bytes of each. Clones share it.
    pub buffers: Arc<Budget>,
    /// How long a client may send nothing before its connection is closed; `None`: for ever.
    pub idle: Option<Duration>,
    /// How long a client may take to receive what it has asked for.
    pub write: Duration,
    /// How long connections may take to end when the server stops.
    pub grace: Duration,
}

/// Bytes of the buffers of a connection that are not counted.
pub const FREE: usize = 64 * 1024;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            value: 16 << 20,
            words: 1 << 20,
            rows: 1_000_000,
            buffers: Arc::new(Budget::new(1 << 30)),
            idle: None,
            write: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Bytes of a request: some values of the largest size.
    pub fn request(&self) -> usize {
        self.value.saturating_mul(4).saturating_add(FREE)
    }

    /// Bytes of the reply to one request.
    pub fn reply(&self) -> usize {
        self.request()
    }
}

/// Memory that all connections share.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
}

impl Budget {
    /// So many bytes.
    pub fn new(bytes: usize) -> Budget {
        Budget { left: AtomicUsize::new(bytes) }
    }

    /// Takes `bytes`. `false`: there are not so many left.
    #[must_use]
    pub fn take(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Gives back what was taken.
    pub fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

/// Memory of a reply while it is made: out of the budget, until this is dropped.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    budget: &'a Budget,
    limit: usize,
    taken: usize,
}

impl<'a> Room<'a> {
    /// Room for a reply within these limits.
    pub(crate) fn new(limits: &'a Limits) -> Room<'a> {
        Room { budget: &limits.buffers, limit: limits.reply(), taken: 0 }
    }

    /// Is there room for a reply of this many bytes, all in all?
    #[must_use]
    pub(crate) fn covers(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(FREE).saturating_sub(self.taken);
        if bytes > self.limit || !self.budget.take(more) {
            return false;
        }
        self.taken += more;
        true
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_room_within_its_limit_and_the_budget() {
        let buffers = Arc::new(Budget::new(1_000_000));
        let limits = Limits { buffers, value: 400_000, ..Limits::default() };
        let (mut one, mut other) = (Room::new(&limits), Room::new(&limits));
        assert!(one.covers(500_000) && one.covers(500_000) && !one.covers(2_000_000));
        assert!(!other.covers(700_000) && other.covers(FREE));
        drop(one);
        assert!(other.covers(700_000));
        drop(other);
        assert_eq!(limits.buffers.left(), 1_000_000);
    }

    #[test]
    fn no_more_is_taken_than_there_is() {
        let budget = Budget::new(10);
        assert!(budget.take(6));
        assert!(!budget.take(5));
        assert!(budget.take(4));
        budget.give_back(10);
        assert_eq!(budget.left(), 10);
    }
}
