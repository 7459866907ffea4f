//! What can be chosen: one table of all policies, their parameters and how they are made.

use core::time::Duration;

use super::Spec;
use super::seat::{Seat, Site};
use crate::{
    Time,
    policies::{
        Adaptive, AdaptiveTimes, Cfs, Eevdf, Fifo, LeastAttained, Priority, RoundRobin,
        ShenangoTimes, ShinjukuShenango, TwoQueue, TwoQueueTimes, WorkStealing,
    },
};

/// A policy that can be chosen by name.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) keys: &'static [Key],
    pub(super) build: fn(&Room<'_>) -> Seat,
}

/// A parameter: a duration, or none where that is allowed.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// The default, in hundredths of a quantum; none of a quantum is the default quantum here.
    pub(super) default: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Zero and "none" are the same.
    Quantum,
    /// Above zero, or "none".
    OrNone,
    /// The same; none where it is not given, and then not shown.
    Option,
    /// Above zero.
    Positive,
    /// Not below the quantum.
    AtLeastQuantum,
}

/// What a policy is made of: for how many workers and tasks, and its times in the host's unit.
pub(super) struct Room<'a> {
    pub(super) workers: usize,
    pub(super) max_tasks: u32,
    pub(super) spec: &'a Spec,
    pub(super) to_time: &'a dyn Fn(Duration) -> Time,
    pub(super) site: Site,
}

impl Room<'_> {
    fn maybe(&self, key: &str) -> Option<Time> {
        self.spec.get(key)?.map(|duration| (self.to_time)(duration).max(1))
    }

    /// A time that is never none.
    fn time(&self, key: &str) -> Time {
        self.maybe(key).unwrap_or(Time::MAX)
    }

    fn quantum(&self) -> Option<Time> {
        self.maybe(QUANTUM)
    }

    fn two_queue(&self) -> TwoQueue {
        let times = TwoQueueTimes {
            quantum: self.quantum(),
            long_quantum: self.time(LONG),
            max_age: self.maybe(MAX_AGE),
            history: self.maybe(HISTORY),
        };
        TwoQueue::new(self.workers, self.max_tasks, times)
    }
}

pub(super) const QUANTUM: &str = "quantum";
pub(super) const LONG: &str = "long";
pub(super) const MAX_AGE: &str = "max-age";
pub(super) const HISTORY: &str = "history";
pub(super) const MOST_KEYS: usize = 5;

const fn key(name: &'static str, form: Form, default: u32) -> Key {
    Key { name, form, default }
}

const QUANTUM_KEY: Key = key(QUANTUM, Form::Quantum, 100);
const AGE_KEY: Key = key(MAX_AGE, Form::OrNone, 5_000);

/// All policies, the default first. A quantum is always the first key.
pub(super) static POLICIES: [Known; 12] = [
    Known {
        name: "two-queue",
        about: "new threads before preempted ones, a queue of each per worker, stealing; the \
                default (keys: quantum, long, max-age, history)",
        keys: &[
            QUANTUM_KEY,
            key(LONG, Form::AtLeastQuantum, 2_000),
            key(MAX_AGE, Form::OrNone, 50_000),
            key(HISTORY, Form::Option, 0),
        ],
        build: |room| room.site.seat(|| room.two_queue()),
    },
    Known {
        name: "ws",
        about: "a queue per worker, work stealing, preempted threads to the tail (key: quantum)",
        keys: &[QUANTUM_KEY],
        build: |room| {
            room.site.seat(|| WorkStealing::new(room.workers, room.max_tasks, room.quantum()))
        },
    },
    Known {
        name: "rr",
        about: "one queue for all workers, preempted threads to the tail (key: quantum)",
        keys: &[QUANTUM_KEY],
        build: |room| room.site.seat(|| RoundRobin::new(room.max_tasks, room.quantum())),
    },
    Known {
        name: "fifo",
        about: "one queue for all workers, run to completion, no preemption (no keys)",
        keys: &[],
        build: |room| room.site.seat(|| Fifo::new(room.max_tasks)),
    },
    Known {
        name: "cfs",
        about: "fair shares by weight, least virtual runtime first, per worker (keys: quantum, \
                latency)",
        keys: &[QUANTUM_KEY, key("latency", Form::AtLeastQuantum, 400)],
        build: |room| {
            let latency = room.time("latency");
            room.site.seat(|| Cfs::new(room.workers, room.max_tasks, room.quantum(), latency))
        },
    },
    Known {
        name: "eevdf",
        about: "fair shares by weight, earliest eligible virtual deadline first, per worker (key: \
                quantum)",
        keys: &[QUANTUM_KEY],
        build: |room| room.site.seat(|| Eevdf::new(room.workers, room.max_tasks, room.quantum())),
    },
    Known {
        name: "shinjuku",
        about: "another name of `rr`, by which the papers know it with a dispatcher (key: quantum)",
        keys: &[QUANTUM_KEY],
        build: |room| room.site.seat(|| RoundRobin::new(room.max_tasks, room.quantum())),
    },
    Known {
        name: "shinjuku-shenango",
        about: "latency-critical threads first, idle workers lent to best-effort ones (keys: \
                quantum, delay, be)",
        keys: &[QUANTUM_KEY, key("delay", Form::Positive, 25), key("be", Form::Positive, 5_000)],
        build: |room| {
            let times = ShenangoTimes {
                quantum: room.quantum(),
                delay: room.time("delay"),
                be_quantum: room.time("be"),
            };
            room.site.seat(|| ShinjukuShenango::new(room.workers, room.max_tasks, times))
        },
    },
    Known {
        name: "priority",
        about: "strict priorities, round robin within each, with aging (keys: quantum, max-age)",
        keys: &[QUANTUM_KEY, AGE_KEY],
        build: |room| {
            let (quantum, age) = (room.quantum(), room.maybe(MAX_AGE));
            room.site.seat(|| Priority::new(room.workers, room.max_tasks, quantum, age))
        },
    },
    Known {
        name: "las",
        about: "least attained service first, one queue for all workers (key: quantum)",
        keys: &[QUANTUM_KEY],
        build: |room| room.site.seat(|| LeastAttained::new(room.max_tasks, room.quantum())),
    },
    Known {
        name: "adaptive",
        about: "two-queue with a quantum that follows the service times (keys: quantum, max, \
                window, cost, max-age)",
        keys: &[
            QUANTUM_KEY,
            key("max", Form::AtLeastQuantum, 5_000),
            key("window", Form::Positive, 5_000),
            key("cost", Form::Positive, 10),
            AGE_KEY,
        ],
        build: |room| {
            let times = AdaptiveTimes {
                quantum: room.quantum(),
                max: room.time("max"),
                window: room.time("window"),
                cost: room.time("cost"),
                max_age: room.maybe(MAX_AGE),
            };
            room.site.seat(|| Adaptive::new(room.workers, room.max_tasks, times))
        },
    },
    Known {
        name: "aspen",
        about: "two-queue as Aspen's code steals: last, and preempted threads first (keys: \
                quantum, long, max-age)",
        keys: &[QUANTUM_KEY, key(LONG, Form::AtLeastQuantum, 500), AGE_KEY],
        build: |room| room.site.seat(|| room.two_queue().own_first()),
    },
];

/// The names with their descriptions.
pub(super) static NAMES: [(&str, &str); POLICIES.len()] = {
    let mut names = [("", ""); POLICIES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = (POLICIES[i].name, POLICIES[i].about);
        i += 1;
    }
    names
};
