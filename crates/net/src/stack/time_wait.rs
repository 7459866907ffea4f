//! Connections that have ended, and whose last segments may still be repeated. Each keeps what it
//! takes to acknowledge them: no buffers.

use super::table::{Key, Seed, Table};
use std::collections::VecDeque;

/// How long, in microseconds.
const HOLD: u64 = 10_000_000;
/// How many at most; the oldest are forgotten.
const MOST: usize = 32_768;

#[derive(Clone, Copy)]
pub(crate) struct Ended {
    /// Our next sequence number, and the peer's.
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    until: u64,
}

pub(crate) struct TimeWaits {
    table: Table<Key, Ended>,
    /// In the order of their times.
    order: VecDeque<(u64, Key)>,
}

impl TimeWaits {
    pub(crate) fn new(seed: Seed) -> TimeWaits {
        TimeWaits { table: Table::with_hasher(seed), order: VecDeque::new() }
    }

    /// Says who had to make room.
    pub(crate) fn insert(&mut self, key: Key, seq: u32, ack: u32, now: u64) -> Option<Key> {
        let gone = if self.order.len() >= MOST { self.pop() } else { None };
        let until = now + HOLD;
        self.table.insert(key, Ended { seq, ack, until });
        self.order.push_back((until, key));
        gone
    }

    pub(crate) fn get(&self, key: Key) -> Option<Ended> {
        if self.table.is_empty() { None } else { self.table.get(&key).copied() }
    }

    /// A new connection takes its place.
    pub(crate) fn remove(&mut self, key: Key) {
        self.table.remove(&key);
    }

    /// When the next is over.
    pub(crate) fn next(&self) -> u64 {
        self.order.front().map_or(super::NEVER, |&(until, _)| until)
    }

    /// Forgets the next one that is over.
    pub(crate) fn expire(&mut self, now: u64) -> Option<Key> {
        while self.next() <= now {
            if let Some(key) = self.pop() {
                return Some(key);
            }
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Forgets the oldest, unless its key has been used again.
    fn pop(&mut self) -> Option<Key> {
        let (until, key) = self.order.pop_front()?;
        let is_it = self.table.get(&key).is_some_and(|ended| ended.until == until);
        is_it.then(|| self.table.remove(&key)).map(|_| key)
    }
}
