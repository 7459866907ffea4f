//! Latency-critical and best-effort runtimes. What bells, ranks and the broker are is documented in
//! `quaver-share`.
//!
//! Joined, each worker is pinned to one shared core. A latency-critical runtime's carriers have the
//! rank that the broker gives, so a best-effort application never keeps a core from them. An idle
//! worker looks for work for as long as giving the core up and having it back takes, at most, and
//! then sleeps on the bell of its core; makers of work ring it. A best-effort runtime's threads are
//! ranked by the broker, and answer bells where they meet [probes](crate::preempt::probe).
//!
//! The protocol of [`idle`](crate::idle) stays as it is, and the bed's word is what counts; the
//! bell only stands for the bed's futex:
//!
//! ```text
//!  worker                                      maker (Idle::wake)
//!  bed = ASLEEP ... step 3: nothing            bed = AWAKE
//!  bell = PARKED, full fence                   full fence
//!  bed still ASLEEP? sleep on the bell         bell PARKED? ring it
//! ```
//!
//! Of the two fences one is first: either the worker sees AWAKE or the maker sees PARKED.
//!
//! Whether the membership goes on makes no difference here: bells work without a broker.

use crate::config::BuildError;
use crate::park::shim::Futex;
use crate::preempt::probe;
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::Acquire;
use quaver_sched::Service;
use quaver_sched::share::Membership;
use quaver_share::Member;
use std::time::Duration;

/// The membership of one runtime, until it stops.
#[derive(Debug)]
pub(crate) struct Bells {
    member: Member,
    /// The place of each worker's CPU, in the broker's table.
    places: Vec<usize>,
}

impl Bells {
    /// Joins. Blocks for up to ten seconds if the broker hangs.
    pub(crate) fn join(membership: &Membership) -> Result<Bells, BuildError> {
        let name = std::env::current_exe().ok();
        let name = name.as_deref().and_then(|path| path.file_name());
        let name = name.map_or_else(|| "quaver".into(), |name| name.to_string_lossy());
        let member = Member::join(membership, &name)
            .map_err(|error| BuildError::Share { reason: error.to_string() })?;
        Ok(Bells { member, places: Vec::new() })
    }

    /// The CPUs that are shared.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        let doors = self.member.doors();
        (0..doors.places()).map(|place| doors.cpu(place)).collect()
    }

    /// What it takes to give a core up and have it back.
    pub(crate) fn cycle(&self) -> Duration {
        self.member.doors().cycle()
    }

    /// The workers will be on these CPUs, one on each.
    pub(crate) fn occupy(&mut self, cpus: &[usize]) -> Result<(), BuildError> {
        let shared = self.cpus();
        let error = |reason| Err(BuildError::Share { reason });
        for (i, &cpu) in cpus.iter().enumerate() {
            let Some(place) = shared.iter().position(|&there| there == cpu) else {
                let shared = crate::platform::format_cpu_list(&shared);
                return error(format!("CPU {cpu} is none of those that are shared ({shared})"));
            };
            if cpus[..i].contains(&cpu) {
                return error(format!("CPU {cpu} would have two workers"));
            }
            self.places.push(place);
        }
        Ok(())
    }

    /// The calling carrier gets the rank of its application. It keeps the one that it has if the
    /// broker does not allow that any more.
    pub(crate) fn rank(&self) {
        let _ = self.member.rank();
    }

    fn has_bells(&self) -> bool {
        self.member.service() == Service::LatencyCritical
    }

    /// Of a best-effort application: the worker's threads look at the bells of its core from the
    /// first probe on that they meet. A thread that meets none keeps nobody waiting: it does not
    /// say that it looks.
    pub(crate) fn dispatched(&self, slot: &Slot) {
        if !self.has_bells() {
            self.member.doors().looks(self.places[slot.id], false);
            probe::arm_running(slot);
        }
    }

    /// The same: a probe was met. How many bells it has answered; `None`: it has nothing to answer.
    pub(crate) fn look(&self, worker: usize) -> Option<usize> {
        if self.has_bells() {
            return None;
        }
        let (doors, place) = (self.member.doors(), self.places[worker]);
        doors.looks(place, true);
        Some(doors.look(place))
    }

    /// The same: the worker has nothing to do.
    pub(crate) fn rests(&self, worker: usize) {
        if !self.has_bells() {
            self.member.doors().looks(self.places[worker], false);
        }
    }

    /// In place of the bed's futex: sleeps while `bed` is `expected`; may return early.
    pub(crate) fn wait(&self, worker: usize, bed: &Futex, expected: u32, limit: Option<Duration>) {
        if self.has_bells() {
            let asleep = || bed.word().load(Acquire) == expected;
            self.member.doors().park(self.places[worker], asleep, limit);
        } else {
            bed.wait(expected, limit);
        }
    }

    /// Wakes a worker whose bed says so already.
    pub(crate) fn wake(&self, worker: usize, bed: &Futex) {
        if self.has_bells() {
            self.member.doors().ring(self.places[worker]);
        } else {
            bed.wake();
        }
    }

    /// The runtime has stopped.
    pub(crate) fn leave(&self) {
        self.member.leave();
    }
}
