//! A queue of an interface with everything behind it, under one lock.

use super::core::Core;
use super::egress::Egress;
use super::ingress::{Source, Stray};
use crate::clock::Clock;
use crate::config::Config;
use crate::device::Device;
use crate::lock::Lock;
use crate::stats::Stats;
use crate::steering::Steering;
use quaver::sync::MutexGuard;
use quaver::thread::Thread;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Frames that are taken under the lock at once: some tens of microseconds.
const BATCH: usize = 32;
/// Frames from other shards that wait at most.
const MOST_WAITING: usize = 1024;

/// What the lock guards.
pub(crate) struct State {
    pub(crate) egress: Egress,
    pub(crate) core: Core,
    /// When whoever keeps the time will look next, in microseconds.
    wakes_at: u64,
}

impl State {
    /// When something is to be done that no frame will ask for.
    fn next(&self) -> u64 {
        if !self.egress.looped.is_empty() {
            return 0;
        }
        self.core.next().min(self.egress.next(self.core.now))
    }
}

/// A shard.
pub(crate) struct Shard {
    state: Lock<State>,
    clock: Clock,
    own: [u8; 6],
    failed: AtomicBool,
    /// Keeps the time.
    keeper: OnceLock<Thread>,
    /// Frames that came to another.
    inbox: Lock<Vec<Vec<u8>>>,
}

/// What a turn has found.
pub(crate) struct Turn {
    /// There may be more to do at once.
    pub(crate) more: bool,
    /// Frames that another shard may be able to use.
    pub(crate) strays: Vec<Stray>,
}

impl Shard {
    pub(crate) fn new(
        index: usize,
        steering: Arc<Steering>,
        device: Box<dyn Device>,
        config: Arc<Config>,
        clock: Clock,
    ) -> Shard {
        let own = device.address();
        let mut egress = Egress::new(device);
        let core = Core::new(index, steering, config, &mut egress);
        let state = State { egress, core, wakes_at: 0 };
        Shard {
            state: Lock::new(state),
            clock,
            own,
            failed: AtomicBool::new(false),
            keeper: OnceLock::new(),
            inbox: Lock::default(),
        }
    }

    /// Makes a call on the shard, and sends what comes of it.
    pub(crate) fn call<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.core.now = state.core.now.max(now);
        let result = f(&mut state);
        self.send(state, now);
        result
    }

    /// Sends what has come of a call.
    fn send(&self, mut state: MutexGuard<'_, State>, now: u64) {
        state.core.now = state.core.now.max(now);
        let State { egress, core, .. } = &mut *state;
        core.settle(egress);
        if egress.flush_soon().is_err() {
            self.fail(&mut state);
        }
        let early = self.is_early(&mut state);
        drop(state);
        self.wake_keeper(early);
    }

    /// As [`call`](Self::call), for one that sends something in rare cases only: it need not know
    /// what time it is.
    pub(crate) fn look_first<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = f(&mut state);
        if !state.core.touched.is_empty() {
            let now = self.clock.now();
            self.send(state, now);
        }
        result
    }

    /// Makes a call that sends nothing.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock())
    }

    /// Must the keeper of the time be woken, because something is due before it wakes?
    fn is_early(&self, state: &mut State) -> bool {
        let early = state.next() < state.wakes_at;
        if early {
            // Once is enough.
            state.wakes_at = 0;
        }
        early
    }

    fn wake_keeper(&self, early: bool) {
        if early && let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
    }

    /// Takes frames that have come, up to a bounded number, does what is due, and sends.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub(crate) fn turn(&self) -> io::Result<Turn> {
        let now = self.clock.now();
        let waiting = std::mem::take(&mut *self.inbox.lock());
        let mut state = self.state.lock();
        if state.core.failed {
            return Err(super::errno(libc::ENETDOWN));
        }
        state.core.now = state.core.now.max(now);
        let State { egress, core, .. } = &mut *state;
        core.expire();
        let looped = std::mem::take(&mut egress.looped);
        for frame in &looped {
            core.ingress(frame, self.own, Source::Own);
        }
        for frame in &waiting {
            core.ingress(frame, self.own, Source::Shard);
        }
        let own = self.own;
        let received =
            egress.device.receive(BATCH, &mut |frame| core.ingress(frame, own, Source::Device));
        core.settle(egress);
        let flushed = egress.flush();
        let strays = std::mem::take(&mut core.strays);
        let more = matches!(received, Ok(BATCH)) || !egress.looped.is_empty();
        if let Err(e) = received.and(flushed) {
            self.fail(&mut state);
            return Err(e);
        }
        let early = self.is_early(&mut state);
        drop(state);
        self.wake_keeper(early);
        Ok(Turn { more, strays })
    }

    /// A frame of this shard has come to another.
    pub(crate) fn hand_over(&self, frame: Vec<u8>) {
        let mut inbox = self.inbox.lock();
        if inbox.len() < MOST_WAITING {
            inbox.push(frame);
        }
        drop(inbox);
        self.wake_keeper(true);
    }

    /// The thread that keeps the time will look at this time, if nobody wakes it; it does so when
    /// something is due earlier. Says when something is due.
    pub(crate) fn sleep_until_next(&self) -> u64 {
        let mut state = self.state.lock();
        let next = state.next();
        state.wakes_at = next;
        next
    }

    /// A descriptor for the device's file.
    pub(crate) fn file(&self) -> io::Result<Option<OwnedFd>> {
        let state = self.state.lock();
        state.egress.device.file().map(|file| file.try_clone_to_owned()).transpose()
    }

    /// Who keeps the time.
    pub(crate) fn set_keeper(&self, keeper: Thread) {
        // There is one.
        let _ = self.keeper.set(keeper);
    }

    pub(crate) fn keeper(&self) -> Option<&Thread> {
        self.keeper.get()
    }

    fn fail(&self, state: &mut State) {
        self.failed.store(true, Relaxed);
        if !state.core.failed {
            state.core.fail();
        }
    }

    /// Is its device gone?
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Ends all sockets.
    pub(crate) fn stop(&self) {
        self.fail(&mut self.state.lock());
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.lock();
        let State { egress, core, .. } = &*state;
        let mut stats = core.counters;
        stats.frames_out = egress.frames;
        stats.bytes_out = egress.bytes;
        stats.lost = egress.lost + core.replies.lost;
        stats.connections = (core.connections.len() - core.free.len()) as u64;
        stats.time_waits = core.time_waits.len() as u64;
        stats
    }
}
