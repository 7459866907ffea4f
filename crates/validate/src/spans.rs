//! Spans of time, and which of them are as long as usual.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::median;

/// What takes more than so many times the median was stopped meanwhile.
const USUAL: u64 = 3;

/// Did this take as long as it does, or was the worker stopped meanwhile?
pub fn is_usual(ns: u64, median_ns: u64) -> bool {
    ns <= USUAL * median_ns
}

/// Spans of time that are remembered one by one, from any thread, as long as there is room.
#[derive(Debug)]
pub struct Spans {
    count: AtomicUsize,
    room: Box<[[AtomicU64; 2]]>,
}

impl Spans {
    /// Some thousands in a second.
    const ROOM: usize = 1 << 17;

    /// One more; left out if there is no room.
    pub fn push(&self, from_ns: u64, to_ns: u64) {
        if let Some([from, to]) = self.room.get(self.count.fetch_add(1, Relaxed)) {
            from.store(from_ns, Relaxed);
            to.store(to_ns.max(from_ns), Relaxed);
        }
    }

    /// All that are remembered.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let seen = self.count.load(Relaxed).min(Self::ROOM);
        self.room[..seen].iter().map(|[from, to]| (from.load(Relaxed), to.load(Relaxed)))
    }

    /// When each began and how much longer than `usual` it was, if that is more than `least`.
    pub fn beyond(&self, usual: u64, least: u64) -> impl Iterator<Item = (u64, u64)> {
        let beyond = move |(from, to): (u64, u64)| (from, (to - from).saturating_sub(usual));
        self.all().map(beyond).filter(move |&(_, ns)| ns > least)
    }

    /// When each began that is not usual among them, and how much longer than the median it was.
    pub fn unusual(&self) -> impl Iterator<Item = (u64, u64)> {
        let usual = median(self.all().map(|(from, to)| to - from)).unwrap_or(0);
        self.beyond(usual, 0).filter(move |&(_, ns)| !is_usual(ns + usual, usual))
    }
}

impl Default for Spans {
    fn default() -> Self {
        let room = (0..Self::ROOM).map(|_| Default::default()).collect();
        Spans { count: AtomicUsize::new(0), room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out() {
        let all = Spans::default();
        (0..Spans::ROOM as u64 + 5).for_each(|ns| all.push(0, ns));
        assert_eq!(all.all().count(), Spans::ROOM);
    }
}
