//! Spare carriers: kernel threads that wait to take over the slot of one that blocks.
//!
//! A carrier allocates before it can run user threads. One of these that was preempted in the
//! allocator may have a lock that it needs, and wait for the very worker that is still to come. So
//! the start of a runtime waits for the first carriers of all slots, for up to 50 ms.

use crate::park::SpinLock;
use crate::sys;
use crate::worker::carrier::Carrier;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use core::time::Duration;
use std::time::Instant;

/// How long the keeper waits before it asks again for a kernel thread that it was refused.
const RETRY: Duration = Duration::from_millis(100);

/// How long the start of a runtime waits for the first carriers: others may have the CPUs for long.
const PATIENCE: Duration = Duration::from_millis(50);

/// The list of spares. Taking and adding are lock-free in spirit: a spin lock whose holders are
/// never preempted, so that the preemption handler may use it.
pub(crate) struct Spares {
    list: SpinLock<Vec<*const Carrier>>,
    waiting: AtomicUsize,
    /// Futex word of the keeper: incremented when it should look.
    keeper: AtomicU32,
    /// Most carriers that may exist besides one for each slot.
    max: usize,
    /// Carriers besides one for each slot.
    extra: AtomicUsize,
    /// The keeper is starting a carrier that is not in the list yet.
    starting: AtomicBool,
    /// The last attempt to start one failed.
    refused: AtomicBool,
    /// Slots whose first carrier has not begun: a futex word.
    to_begin: AtomicU32,
}

// SAFETY: carriers in the list are alive: each withdraws before it ends, or has been taken.
unsafe impl Send for Spares {}
// SAFETY: as above.
unsafe impl Sync for Spares {}

impl Spares {
    /// Room for `max` extra carriers and `slots` others, reserved now: nothing allocates later.
    pub(crate) fn new(max: usize, slots: usize) -> Spares {
        Spares {
            list: SpinLock::new(Vec::with_capacity(max + slots)),
            waiting: AtomicUsize::new(0),
            keeper: AtomicU32::new(0),
            max,
            extra: AtomicUsize::new(0),
            // The keeper makes the first one at once.
            starting: AtomicBool::new(true),
            refused: AtomicBool::new(false),
            to_begin: AtomicU32::new(slots as u32),
        }
    }

    /// The first carrier of a slot has allocated what it needs.
    pub(crate) fn first_begins(&self) {
        if self.to_begin.fetch_sub(1, AcqRel) == 1 {
            sys::futex_wake(&self.to_begin, u32::MAX);
        }
    }

    /// Waits until all first carriers have begun, but not for long.
    pub(crate) fn wait_for_first(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let to_begin = self.to_begin.load(Acquire);
            let left = end.saturating_duration_since(Instant::now());
            if to_begin == 0 || left.is_zero() {
                return;
            }
            let _ = sys::futex_wait(&self.to_begin, to_begin, Some(left));
        }
    }

    /// A carrier becomes a spare.
    pub(crate) fn add(&self, c: &Carrier) {
        let mut list = self.list.lock();
        debug_assert!(list.len() < list.capacity());
        list.push(c);
        self.waiting.store(list.len(), Release);
        self.starting.store(false, Release);
    }

    /// Whether there is a spare, or one is being made: worth waiting for. Otherwise all carriers
    /// that there may be have something to do, or the system lends no more.
    pub(crate) fn expected(&self) -> bool {
        self.waiting.load(Acquire) > 0
            || self.starting.load(Acquire)
            || (self.extra.load(Acquire) < self.max && !self.refused.load(Acquire))
    }

    /// Takes a spare, to give it a slot. Asks the keeper for a new one when the last is taken or
    /// there is none.
    pub(crate) fn take(&self) -> Option<&'static Carrier> {
        let (c, left) = {
            let mut list = self.list.lock();
            let c = list.pop();
            self.waiting.store(list.len(), Release);
            (c, list.len())
        };
        if left == 0 {
            self.keeper.fetch_add(1, Release);
            sys::futex_wake(&self.keeper, 1);
        }
        // SAFETY: a carrier in the list is alive, and stays so until it is given a slot or told to
        // stop.
        c.map(|c| unsafe { &*c })
    }

    /// Puts one back that [`take`](Spares::take) has returned and that was given nothing.
    pub(crate) fn put_back(&self, c: &Carrier) {
        {
            let mut list = self.list.lock();
            list.push(c);
            self.waiting.store(list.len(), Release);
        }
        // Whoever stops the runtime may not have found it in the list.
        c.wake_to_stop();
    }

    /// Takes one carrier out of the list. `false`: somebody else has taken it, and will give it a
    /// slot.
    pub(crate) fn withdraw(&self, c: &Carrier) -> bool {
        let mut list = self.list.lock();
        let at = list.iter().position(|&x| core::ptr::eq(x, c));
        if let Some(at) = at {
            list.swap_remove(at);
            self.waiting.store(list.len(), Release);
        }
        at.is_some()
    }

    /// Wakes all spares, to stop. They withdraw themselves, so all in the list are alive.
    pub(crate) fn wake_all(&self) {
        for &c in self.list.lock().iter() {
            // SAFETY: alive, see above.
            unsafe { &*c }.wake_to_stop();
        }
    }

    /// Wakes the keeper.
    pub(crate) fn wake_keeper(&self) {
        self.keeper.fetch_add(1, Release);
        sys::futex_wake(&self.keeper, u32::MAX);
    }

    /// The keeper: makes a spare whenever there is none, up to the limit. Runs on a kernel thread
    /// of its own, because creating threads is not possible in a signal handler.
    ///
    /// `errand` is whatever else can only be done there; `false`: it must be tried again.
    pub(crate) fn keep(
        &self,
        stop: impl Fn() -> bool,
        make: impl Fn() -> std::io::Result<()>,
        errand: impl Fn() -> bool,
    ) {
        loop {
            let seen = self.keeper.load(Acquire);
            if stop() {
                return;
            }
            let mut again = (!errand()).then_some(RETRY);
            if self.waiting.load(Acquire) == 0 && self.extra.load(Relaxed) < self.max {
                self.starting.store(true, Release);
                match make() {
                    Ok(()) => {
                        self.extra.fetch_add(1, Release);
                        self.refused.store(false, Release);
                    }
                    Err(e) => {
                        if !self.refused.swap(true, AcqRel) {
                            eprintln!("quaver: cannot start a spare kernel thread for now: {e}");
                        }
                        self.starting.store(false, Release);
                        // What the system refuses now it may lend soon: limits count threads that
                        // are about to end.
                        again = Some(RETRY);
                    }
                }
            }
            let _ = sys::futex_wait(&self.keeper, seen, again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn the_first_carriers_are_waited_for() {
        let spares = Spares::new(1, 2);
        std::thread::scope(|s| {
            let waits = s.spawn(|| spares.wait_for_first());
            spares.first_begins();
            spares.first_begins();
            waits.join().unwrap();
        });
        let begin = Instant::now();
        spares.wait_for_first();
        Spares::new(1, 1).wait_for_first();
        assert!(begin.elapsed() >= PATIENCE, "one that does not come is not waited for for ever");
    }

    #[test]
    fn who_was_refused_a_thread_asks_again() {
        let spares = Spares::new(1, 1);
        let tries = AtomicUsize::new(0);
        // Nobody wakes the keeper, so it ends only because it asks again by itself.
        spares.keep(
            || spares.extra.load(Relaxed) > 0,
            || match tries.fetch_add(1, Relaxed) {
                0 | 1 => Err(Error::from(ErrorKind::WouldBlock)),
                _ => {
                    spares.wake_keeper();
                    Ok(())
                }
            },
            || true,
        );
        assert_eq!(tries.into_inner(), 3);
        assert!(spares.expected());
    }
}
