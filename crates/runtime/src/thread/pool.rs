//! What one slot keeps for itself, so that making a thread touches no shared cache line.

use super::control::NONE;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Free handles of one slot. Used by the slot's carrier only, with preemption disabled.
pub(crate) struct LocalPool {
    pub(super) first: u32,
    pub(super) len: u32,
    /// Handles given out minus handles returned by this slot. Kept apart for each slot so that
    /// spawning shares no cache line; only the sum over all slots and the table means something.
    pub(super) balance: isize,
    /// Numbers for the next threads that this slot makes.
    ids: Range<u64>,
}

/// How many numbers a slot takes at a time.
const IDS: u64 = 64;
/// The first number that nobody has taken. Never 0, so that it is no thread's.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// How many free handles a slot keeps before it gives half of them back.
pub(super) const MAX: u32 = 256;

impl LocalPool {
    /// Where a pool counts its share of the number of threads in use.
    ///
    /// # Safety
    ///
    /// `pool` points to a pool.
    pub(crate) unsafe fn balance_of(pool: *const LocalPool) -> *const isize {
        // SAFETY: a field's address.
        unsafe { &raw const (*pool).balance }
    }

    pub(crate) const fn new() -> LocalPool {
        LocalPool { first: NONE, len: 0, balance: 0, ids: 0..0 }
    }

    /// A number for a new thread: unique in the process, never used again.
    #[inline]
    pub(crate) fn next_id(pool: Option<&mut LocalPool>) -> u64 {
        let Some(pool) = pool else { return NEXT_ID.fetch_add(1, Relaxed) };
        pool.ids.next().unwrap_or_else(|| {
            let first = NEXT_ID.fetch_add(IDS, Relaxed);
            pool.ids = first + 1..first + IDS;
            first
        })
    }
}
