//! What the connections of a key-value server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::cursors::Cursors;
use crate::limits::Limits;
use crate::store::{Store, StoreError, now_ms};

/// A key-value service.
pub struct Service {
    /// Where entries are.
    pub store: Arc<dyn Store>,
    /// What clients may ask for.
    pub limits: Limits,
    /// Where iterations over all keys stand.
    pub cursors: Cursors,
    started: Instant,
    ids: AtomicU64,
    requests: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// When everything that is there now goes, in milliseconds of the Unix clock; 0: it does not.
    flush_at_ms: AtomicU64,
}

impl Service {
    /// A service over this store.
    pub fn new(store: Arc<dyn Store>, limits: Limits) -> Service {
        Service {
            store,
            limits,
            cursors: Cursors::default(),
            started: Instant::now(),
            ids: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            flush_at_ms: AtomicU64::new(0),
        }
    }

    /// A number for a connection.
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a request.
    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an entry that was looked for.
    pub fn count_found(&self, found: bool) {
        let counter = if found { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes all entries `delay_ms` from now.
    ///
    /// # Errors
    ///
    /// As [`Store::clear`].
    pub fn flush(&self, delay_ms: u64) -> Result<(), StoreError> {
        if delay_ms == 0 {
            self.flush_at_ms.store(0, Ordering::Relaxed);
            return self.store.clear();
        }
        self.flush_at_ms.store(now_ms().saturating_add(delay_ms), Ordering::Relaxed);
        Ok(())
    }

    /// Does what was asked for a later time, if that has come. To be called often.
    ///
    /// # Errors
    ///
    /// As [`Store::clear`].
    pub fn flush_if_due(&self) -> Result<(), StoreError> {
        let at = self.flush_at_ms.load(Ordering::Relaxed);
        let claim = |at| {
            self.flush_at_ms.compare_exchange(at, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if at != 0 && now_ms() >= at && claim(at) {
            return self.store.clear();
        }
        Ok(())
    }

    /// What the service has done.
    pub fn counts(&self) -> Counts {
        Counts {
            seconds: self.started.elapsed().as_secs(),
            connections: self.ids.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

/// What a service has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Since the start.
    pub seconds: u64,
    /// Accepted so far.
    pub connections: u64,
    /// Served so far.
    pub requests: u64,
    /// Entries that were looked for and found.
    pub hits: u64,
    /// Entries that were looked for and not found.
    pub misses: u64,
}
