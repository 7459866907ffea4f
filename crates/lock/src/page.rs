//! The page that the kernel program writes and waiters read.

use crate::futex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64};

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
}

impl State {
    pub(crate) const fn new() -> Self {
        Self {
            count: AtomicI64::new(0),
            heartbeat: AtomicU64::new(0),
            preempted: AtomicU64::new(0),
            corrected: AtomicU64::new(0),
        }
    }
}

/// A monitor whose heartbeat is older has ended. Sweeps come every 250 ms.
const STALE: u64 = 1_000_000_000;

static NOBODY: State = State::new();
static STATE: AtomicPtr<State> = AtomicPtr::new((&raw const NOBODY).cast_mut());
static ALIVE: AtomicBool = AtomicBool::new(false);

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
