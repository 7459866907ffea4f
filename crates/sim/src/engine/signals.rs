//! The kernel's lock of the process's signals, which every sender and receiver of a signal takes.

use super::Engine;

/// How often who receives a signal takes it: to fetch the signal, for the handler's mask, and for
/// the mask when the handler returns.
pub(super) const RECEIVES: u64 = 3;

/// The lock.
#[derive(Default)]
pub(super) struct SignalLock {
    /// It is taken until then.
    free: u64,
}

impl Engine<'_> {
    /// How long whoever takes the lock so many times, one right after the other, has to wait for
    /// it.
    pub(super) fn wait_for_lock(&mut self, times: u64) -> u64 {
        let begin = self.signals.free.max(self.now);
        self.signals.free = begin + times * self.rules.mechanism.lock;
        begin - self.now
    }
}
