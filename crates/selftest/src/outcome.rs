//! What came of a job.

use crate::libraries::Libraries;
use serde::{Deserialize, Serialize};

/// Counts of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Instruction boundaries at which a preemption was asked for, in all runs together.
    pub boundaries_tried: u64,
    /// Times that a running thread was preempted.
    pub preemptions: u64,
    /// Preempted threads that went on on another worker.
    pub migrations: u64,
    /// Requests that were put off at first: in the C library, the runtime, regions, on foreign
    /// stacks.
    pub deferred: u64,
    /// Threads that were caught at a system call and made it without a worker.
    pub handed_over: u64,
    /// Requests that met a worker without a thread: nothing to preempt.
    pub idle: u64,
    /// Register states that were compared after the resume.
    pub states_compared: u64,
    /// How often the scenario ran.
    pub runs: u64,
    /// Instruction boundaries of one run.
    pub boundaries: u64,
    /// The longest time from a request that was put off to when it was known to be taken, in
    /// microseconds.
    pub longest_deferral_us: f64,
    /// Torture: steps of the program whose answer was checked.
    pub steps: u64,
}

impl Counts {
    /// Adds what another run has counted; of lengths the longest counts.
    fn add(&mut self, other: &Counts) {
        self.boundaries_tried += other.boundaries_tried;
        self.preemptions += other.preemptions;
        self.migrations += other.migrations;
        self.deferred += other.deferred;
        self.handed_over += other.handed_over;
        self.idle += other.idle;
        self.states_compared += other.states_compared;
        self.runs += other.runs;
        self.boundaries = self.boundaries.max(other.boundaries);
        self.longest_deferral_us = self.longest_deferral_us.max(other.longest_deferral_us);
        self.steps += other.steps;
    }
}

/// Something that preemption has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What, and where.
    pub what: String,
    /// A command line that does it again.
    pub reproducer: String,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The scenario or program.
    pub name: String,
    /// How many workers it ran on.
    pub workers: usize,
    /// What was done in libraries; torture does all.
    pub libraries: Option<Libraries>,
    /// Why it did not run here.
    pub skipped: Option<String>,
    /// Something to know about it.
    pub note: Option<String>,
    /// Boundaries: the distance between preemptions of one run; none: one preemption in each run.
    pub stride: Option<u64>,
    /// Boundaries: one in so many was tried; none: all.
    pub spacing: Option<u64>,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// How many differences there were. Zero is the promise.
    pub differences: u64,
    /// The first of them.
    pub details: Vec<Difference>,
}

impl Outcome {
    /// Nothing yet.
    pub fn new(name: &str, workers: usize) -> Outcome {
        Outcome {
            name: name.into(),
            workers,
            libraries: None,
            skipped: None,
            note: None,
            stride: None,
            spacing: None,
            counts: Counts::default(),
            differences: 0,
            details: Vec::new(),
        }
    }

    /// Did the same scenario or program run in the same way?
    pub fn is_of_the_same_job(&self, other: &Outcome) -> bool {
        self.name == other.name
            && self.workers == other.workers
            && self.libraries == other.libraries
    }

    /// Adds what another run of the same job has counted and found.
    pub fn add(&mut self, other: Outcome) {
        self.counts.add(&other.counts);
        self.differences += other.differences;
        self.details.extend(other.details);
        self.note = other.note.or(self.note.take());
        self.skipped = other.skipped;
    }

    /// Adds a difference.
    pub fn differ(&mut self, what: String, reproducer: String) {
        self.differences += 1;
        self.details.push(Difference { what, reproducer });
    }
}
