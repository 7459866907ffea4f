//! The page that the kernel program writes and waiters read.

use crate::futex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64};

/// Locks that have a counter of their own. Others share one with a lock before them.
const LOCKS: usize = 256;

/// What the monitor says. The same in `bpf/monitor.bpf.c`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct State {
    /// How many preempted threads are in a critical section or in a queue, in the system.
    pub(crate) count: AtomicI64,
    /// When the last sweep ended: nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) heartbeat: AtomicU64,
    /// How often a thread was preempted there, ever.
    pub(crate) preempted: AtomicU64,
    /// How many flags were wrong and have been corrected, ever.
    pub(crate) corrected: AtomicU64,
    /// `count`, by the lock that is held or queued for: [`of_lock`].
    locks: [AtomicI64; LOCKS],
}

impl State {
    pub(crate) const fn new() -> Self {
        Self {
            count: AtomicI64::new(0),
            heartbeat: AtomicU64::new(0),
            preempted: AtomicU64::new(0),
            corrected: AtomicU64::new(0),
            locks: [const { AtomicI64::new(0) }; LOCKS],
        }
    }
}

/// A monitor whose heartbeat is older has ended. Sweeps come every 250 ms.
const STALE: u64 = 1_000_000_000;

static NOBODY: State = State::new();
static STATE: AtomicPtr<State> = AtomicPtr::new((&raw const NOBODY).cast_mut());
static ALIVE: AtomicBool = AtomicBool::new(false);
/// Whether waiters look at their own lock's counter only.
static EACH: AtomicBool = AtomicBool::new(false);

/// The page of the monitor, or one of zeros.
#[inline]
pub(crate) fn state() -> &'static State {
    // SAFETY: the pointer is that of a static or of a mapping that is never removed.
    unsafe { &*STATE.load(Acquire) }
}

/// Whether somebody who holds a lock, or stands in a queue, is preempted.
#[inline]
pub(crate) fn anyone_preempted() -> bool {
    state().count.load(Relaxed) > 0
}

/// The counter that makes waiters for the lock of `word` block.
pub(crate) fn counter(word: &AtomicU32) -> &'static AtomicI64 {
    if EACH.load(Relaxed) { of_lock(word) } else { &state().count }
}

/// The counter of the lock of `word` alone.
pub(crate) fn of_lock(word: &AtomicU32) -> &'static AtomicI64 {
    // The same in `bpf/monitor.bpf.c`.
    let mixed = (std::ptr::from_ref(word) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &state().locks[(mixed >> 56) as usize]
}

/// Whether waiters look at their own lock's counter only, from their next wait on.
pub(crate) fn count_each(each: bool) {
    EACH.store(each, Relaxed);
}

/// Whether the monitor was there at the last [`look`].
#[inline]
pub(crate) fn monitored() -> bool {
    ALIVE.load(Relaxed)
}

/// Reads the clock and the heartbeat: whether the monitor is there.
pub(crate) fn look() -> bool {
    // First the page, then the clock: a beat in between does not make the age negative.
    let beat = state().heartbeat.load(Acquire);
    let alive = beat != 0 && futex::now().saturating_sub(beat) < STALE;
    if alive != ALIVE.load(Relaxed) {
        ALIVE.store(alive, Relaxed);
    }
    alive
}

/// Uses a monitor's page from now on.
pub(crate) fn set(state: &'static State) {
    STATE.store(std::ptr::from_ref(state).cast_mut(), Release);
    look();
}

/// Uses no monitor from now on.
pub(crate) fn unset() {
    STATE.store((&raw const NOBODY).cast_mut(), Release);
    ALIVE.store(false, Relaxed);
}
