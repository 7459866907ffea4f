//! Values that count how often they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// How many [`Counted`] were made and dropped.
#[derive(Clone, Default)]
pub struct Drops(Arc<[AtomicUsize; 2]>);

/// Tells its [`Drops`] when it is dropped; panics when that happens twice.
pub struct Counted {
    drops: Drops,
    alive: bool,
}

impl Drops {
    /// A new value to be counted.
    pub fn value(&self) -> Counted {
        self.0[0].fetch_add(1, SeqCst);
        Counted { drops: self.clone(), alive: true }
    }

    /// Made, dropped.
    pub fn counts(&self) -> (usize, usize) {
        (self.0[0].load(SeqCst), self.0[1].load(SeqCst))
    }

    /// Have all been dropped?
    pub fn all_gone(&self) -> bool {
        let (made, dropped) = self.counts();
        made == dropped
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(std::mem::replace(&mut self.alive, false), "dropped twice");
        self.drops.0[1].fetch_add(1, SeqCst);
    }
}
