//! What a client has sent and nobody has used yet.
//!
//! A buffer begins small and doubles while a request does not fit. What it takes beyond
//! [`FREE`] bytes comes out of a budget that all connections share, and goes back when the large
//! request has been used.

use std::sync::Arc;

use crate::limits::{Budget, FREE};

/// Bytes of a new buffer.
const FIRST: usize = 4096;
/// Read at once at least.
const LEAST: usize = 1024;

/// A buffer of one connection.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    most: usize,
    /// Taken out of the budget.
    taken: usize,
    budget: Arc<Budget>,
}

impl Buffer {
    /// A buffer that grows up to a request of `request` bytes.
    pub(crate) fn new(budget: Arc<Budget>, request: usize) -> Buffer {
        // A request that is too long must fit, to be told from one that is not.
        let most = request.saturating_add(2 * FREE);
        Buffer { bytes: Vec::new(), start: 0, end: 0, most, taken: 0, budget }
    }

    /// What is there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first `n` bytes have been used.
    pub(crate) fn used(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.taken > 0 {
                self.bytes.truncate(FREE);
                self.bytes.shrink_to_fit();
                self.budget.give_back(std::mem::take(&mut self.taken));
            }
        }
    }

    /// Where the next bytes go. `None`: there is no memory for them.
    pub(crate) fn space(&mut self) -> Option<&mut [u8]> {
        if self.start > 0 && self.bytes.len() - self.end < LEAST {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() - self.end < LEAST {
            let size = (2 * self.bytes.len()).clamp(FIRST, self.most);
            let more = size.saturating_sub(FREE).saturating_sub(self.taken);
            if size < self.end + 1 || !self.budget.take(more) {
                return None;
            }
            self.taken += more;
            self.bytes.resize(size, 0);
        }
        Some(&mut self.bytes[self.end..])
    }

    /// `n` bytes have been written there.
    pub(crate) fn filled(&mut self, n: usize) {
        self.end += n;
        debug_assert!(self.end <= self.bytes.len());
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(buffer: &mut Buffer, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some(space) = buffer.space() else { return false };
            let n = bytes.len().min(space.len()).min(100);
            space[..n].copy_from_slice(&bytes[..n]);
            buffer.filled(n);
            bytes = &bytes[n..];
        }
        true
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut buffer = Buffer::new(Arc::new(Budget::new(1 << 20)), 1 << 20);
        let sent: Vec<u8> = (0..500_000_u32).map(|i| (i % 251) as u8).collect();
        let mut seen = Vec::new();
        for (i, part) in sent.chunks(7_000).enumerate() {
            assert!(put(&mut buffer, part));
            let n = buffer.bytes().len().min(if i % 5 == 4 { usize::MAX } else { 6_000 });
            seen.extend_from_slice(&buffer.bytes()[..n]);
            buffer.used(n);
        }
        seen.extend_from_slice(buffer.bytes());
        assert_eq!(seen, sent);
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let budget = Arc::new(Budget::new(1 << 20));
        let mut one = Buffer::new(Arc::clone(&budget), 1 << 30);
        assert!(!put(&mut one, &vec![0; 2 << 20]), "more than the budget");
        let mut other = Buffer::new(Arc::clone(&budget), 1 << 30);
        assert!(put(&mut other, &vec![0; FREE - LEAST]), "little is always there");
        one.used(one.bytes().len());
        assert_eq!(budget.left(), 1 << 20);
        assert!(put(&mut one, &vec![0; 500_000]));
        drop(one);
        assert_eq!(budget.left(), 1 << 20);
    }

    #[test]
    fn a_request_has_a_largest_size() {
        let mut buffer = Buffer::new(Arc::new(Budget::new(1 << 30)), 100_000);
        assert!(put(&mut buffer, &vec![0; 150_000]));
        assert!(!put(&mut buffer, &vec![0; 200_000]));
    }
}
