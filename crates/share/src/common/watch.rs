//! Somebody who looks after workers that sleep, and after who has the lock: who could wake one, or
//! has it, may have died on the way.
//!
//! A sleep with a time limit does the same, and costs two changes of a kernel timer on a core's way
//! from one application to another. And whoever asks how others do opens files, which in the
//! program's threads takes a descriptor that the program may count on.

use super::device::Device;
use super::lock::{self, Members};
use super::{Acquire, Common, Life, Release};
use crate::files;
use std::cell::Cell;
use std::os::fd::AsFd;
use std::time::Duration;

/// A worker that nobody wakes is looked after so often.
pub(super) const EVERY: Duration = Duration::from_millis(10);

thread_local! {
    static IS_WATCH: Cell<bool> = const { Cell::new(false) };
}

impl Common {
    /// Looks after the workers of this application that sleep, until it [leaves](Self::leave): from
    /// now on they sleep without a time limit of their own. For one thread, which blocks here; it
    /// wakes up each 10 ms, and returns so long after the end at the latest. It has no descriptors
    /// of the process's any more.
    pub fn watch(&self) {
        IS_WATCH.set(true);
        files::have_own(self.device.as_ref().map(|Device(file)| file.as_fd()));
        self.watched.store(true, Release);
        let mut before = None;
        while !self.has_left() {
            std::thread::sleep(EVERY);
            before = self.look_at_lock(before);
            (0..self.region.cores()).for_each(|core| self.look_after(core));
        }
        self.watched.store(false, Release);
        (0..self.region.cores()).for_each(|core| self.rouse(core));
    }

    /// The lock has been held since the last look, in this turn: whoever has it may be dead or
    /// stopped.
    fn look_at_lock(&self, before: Option<u32>) -> Option<u32> {
        let turn = lock::turn(&self.head().lock);
        if turn.is_some() && turn == before && !self.has_left() {
            drop(self.lock());
        }
        turn
    }

    /// Is this the thread that looks after others?
    pub(super) fn is_watch(&self) -> bool {
        IS_WATCH.get()
    }

    /// The worker of this application on this core may sleep. Its seat does not tell: who wakes it
    /// fills the seat first, and may have died before the second step. One that is awake does the
    /// same itself.
    fn look_after(&self, core: usize) {
        if self.has_left() {
            return;
        }
        if self.is_aside(self.me) {
            drop(self.lock());
        }
        if self.is_given(core) {
            self.rouse(core);
        }
        self.look_at_owner(core);
    }

    /// If another application has this core, and is dead or stopped, the core is given to others.
    pub(super) fn look_at_owner(&self, core: usize) {
        let other = self.now(core).member.filter(|&member| member != self.me);
        if let Some(other) = other
            && self.life(other) != Life::Runs
            && !self.is_aside(other)
        {
            self.tend();
        }
    }

    /// In a forked child there is no such thread.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Acquire) && !self.has_left()
    }
}
