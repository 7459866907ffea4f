//! A look at a common queue from outside, without a part in it.

use super::QueueError;
use super::layout::{Head, Now};
use super::life::{self, Life};
use super::region::map_head;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The head of a queue's memory.
#[derive(Debug)]
pub(crate) struct Glance(NonNull<Head>);

// SAFETY: the memory consists of atomics, and belongs to no thread.
unsafe impl Send for Glance {}

impl Glance {
    pub(crate) fn at(file: impl AsFd) -> Result<Glance, QueueError> {
        Ok(Glance(map_head(file)?.cast()))
    }

    fn head(&self) -> &Head {
        // SAFETY: a mapping of a head, which is never removed; it consists of atomics.
        unsafe { self.0.as_ref() }
    }

    /// The processes of its members, by number. One that was killed may be a member until others
    /// find out; it is left out here.
    pub(crate) fn processes(&self) -> Vec<(usize, u32)> {
        let members = self.head().members.iter().enumerate();
        let members = members.map(|(number, m)| (number, m.who.load(Acquire)));
        let members = members.filter(|&(_, who)| who != 0 && life::look(who) != Life::Ended);
        members.map(|(number, who)| (number, life::pid_of(who))).collect()
    }

    /// Which member has this core.
    pub(crate) fn owner(&self, core: usize) -> Option<usize> {
        Now::from_word(self.head().cores_now[core].now.load(Acquire)).member
    }

    /// How often cores were given from one application to another.
    pub(crate) fn switches(&self) -> u64 {
        self.head().cores_now.iter().map(|core| core.switches.load(Relaxed)).sum()
    }

    /// How often a worker has taken a core that it was given, and how long that took in all, in
    /// ticks.
    pub(crate) fn waits(&self) -> (u64, u64) {
        let cores = self.head().cores_now.iter();
        cores.fold((0, 0), |(taken, waited), core| {
            (taken + core.taken.load(Relaxed), waited + core.waited.load(Relaxed))
        })
    }

    /// How often it was made anew.
    pub(crate) fn rebuilt(&self) -> u64 {
        self.head().rebuilt.load(Relaxed)
    }
}
