//! Somebody who looks after workers that sleep: who could wake one may have died on the way to it.
//!
//! A sleep with a time limit does the same, and costs two changes of a kernel timer on a core's way
//! from one application to another.

use super::lock::Members;
use super::{Acquire, Common, Life, Release};
use std::time::Duration;

/// A worker that nobody wakes is looked after so often.
pub(super) const EVERY: Duration = Duration::from_millis(10);

impl Common {
    /// Looks after the workers of this application that sleep, until it [leaves](Self::leave): from
    /// now on they sleep without a time limit of their own. For one thread, which blocks here; it
    /// wakes up each 10 ms, and returns so long after the end at the latest.
    pub fn watch(&self) {
        self.watched.store(true, Release);
        while !self.has_left() {
            std::thread::sleep(EVERY);
            (0..self.region.cores()).for_each(|core| self.look_after(core));
        }
        self.watched.store(false, Release);
        (0..self.region.cores()).for_each(|core| self.rouse(core));
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
