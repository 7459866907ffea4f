//! Where iterations over all keys stand.
//!
//! A client of RESP goes on with a number, a store with a key. So the numbers of the last
//! iterations are kept with their keys; a client that comes back after thousands of others have
//! begun is told that its number is not known.

use std::collections::{HashMap, VecDeque};
use std::sync::PoisonError;

use quaver::sync::Mutex;

/// Iterations that are remembered.
const KEPT: usize = 4096;

/// Numbers and keys.
#[derive(Default)]
pub struct Cursors(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    keys: HashMap<u64, Vec<u8>>,
    /// The numbers, oldest first.
    order: VecDeque<u64>,
}

impl Cursors {
    /// A number for going on at `key`.
    pub fn keep(&self, key: Vec<u8>) -> u64 {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last += 1;
        let number = inner.last;
        inner.keys.insert(number, key);
        inner.order.push_back(number);
        if inner.order.len() > KEPT
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.keys.remove(&oldest);
        }
        number
    }

    /// The key of a number. It stays: a client may ask again.
    pub fn key(&self, number: u64) -> Option<Vec<u8>> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.keys.get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_iterations_are_known() {
        let cursors = Cursors::default();
        let first = cursors.keep(b"a".to_vec());
        assert_eq!(cursors.key(first), Some(b"a".to_vec()));
        assert_eq!(cursors.key(first), Some(b"a".to_vec()));
        let last = (0..KEPT).map(|_| cursors.keep(b"b".to_vec())).last().unwrap();
        assert_eq!(cursors.key(first), None);
        assert_eq!(cursors.key(last), Some(b"b".to_vec()));
        assert_eq!(cursors.key(0), None);
    }
}
