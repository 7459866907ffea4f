//! Which policy schedules: a built-in one, or the user's own.

use crate::tsc;
use core::fmt;
use quaver_sched::{Policy, Spec, Time};
use std::sync::Arc;
use std::time::Duration;

/// What a policy of the user's own is made for; see
/// [`Builder::custom_policy`](crate::Builder::custom_policy).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PolicyRoom {
    /// Workers are `0..workers`.
    pub workers: usize,
    /// Tasks are `0..max_threads`.
    pub max_threads: u32,
    /// The quantum in the runtime's unit of time, at least 1; `None`: nothing is to be preempted.
    pub quantum: Option<Time>,
}

impl PolicyRoom {
    /// A span in the runtime's unit of time, at least 1.
    pub fn time(&self, span: Duration) -> Time {
        tsc::from_duration(span).max(1)
    }
}

type Make = dyn Fn(&PolicyRoom) -> Box<dyn Policy> + Send + Sync;

/// Makes a policy of the user's own.
#[derive(Clone)]
pub(crate) struct Custom {
    pub(crate) quantum: Option<Duration>,
    pub(crate) make: Arc<Make>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom {{ quantum: {:?} }}", self.quantum)
    }
}

/// What a runtime is built with.
#[derive(Clone, Debug)]
pub(crate) enum PolicyChoice {
    BuiltIn(Spec),
    Custom(Custom),
}

impl PolicyChoice {
    pub(crate) fn quantum(&self) -> Option<Duration> {
        match self {
            PolicyChoice::BuiltIn(spec) => spec.quantum(),
            PolicyChoice::Custom(custom) => custom.quantum,
        }
    }

    pub(crate) fn with_quantum(self, quantum: Option<Duration>) -> PolicyChoice {
        match self {
            PolicyChoice::BuiltIn(spec) => PolicyChoice::BuiltIn(spec.with_quantum(quantum)),
            PolicyChoice::Custom(custom) => PolicyChoice::Custom(Custom { quantum, ..custom }),
        }
    }

    /// Has somebody chosen the quantum?
    pub(crate) fn has_own_quantum(&self) -> bool {
        match self {
            PolicyChoice::BuiltIn(spec) => spec.has_own_quantum(),
            PolicyChoice::Custom(_) => true,
        }
    }

    /// As [`with_quantum`](PolicyChoice::with_quantum); times that nobody has chosen follow the
    /// quantum.
    pub(crate) fn rescaled(self, quantum: Duration) -> PolicyChoice {
        match self {
            PolicyChoice::BuiltIn(spec) => PolicyChoice::BuiltIn(spec.rescaled(Some(quantum))),
            custom => custom.with_quantum(Some(quantum)),
        }
    }

    pub(crate) fn build(&self, workers: usize, max_threads: u32) -> Box<dyn Policy> {
        match self {
            PolicyChoice::BuiltIn(spec) => spec.build(workers, max_threads, tsc::from_duration),
            PolicyChoice::Custom(custom) => {
                let quantum = custom.quantum.map(|quantum| tsc::from_duration(quantum).max(1));
                (custom.make)(&PolicyRoom { workers, max_threads, quantum })
            }
        }
    }
}

/// The policy of a running runtime. Its display is the built-in one's parameters, or the name of
/// the user's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ActivePolicy {
    /// A built-in one.
    BuiltIn(Spec),
    /// The user's own: what its [`Policy::name`] says.
    Custom(&'static str),
}

impl fmt::Display for ActivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActivePolicy::BuiltIn(spec) => spec.fmt(f),
            ActivePolicy::Custom(name) => name.fmt(f),
        }
    }
}
