//! The broker: admits applications, ranks them, watches what they use.
//!
//! * `server`: the socket, requests, the loop.
//! * `member`: an application as the broker knows it.
//! * `ranks`: which class each rank is in, and putting threads there.
//! * `freezer`: plain programs that raise themselves.
//! * `usage`: what an application uses, from the kernel.
//! * `queue`: a run queue that applications have in common.
//! * `cycle`: what it takes to give a core up and have it back.
//! * `guard`: watching the bells from a CPU of the broker's own.
//! * `watch`: values, use, turns.
//! * `status`: what `quaver share status` shows.

mod claim;
mod cycle;
mod freezer;
mod guard;
mod member;
mod peer;
mod queue;
mod ranks;
mod server;
mod status;
mod table;
mod throttle;
mod usage;
mod watch;

pub use freezer::Freezer;
pub use ranks::Binding;
pub use server::{Broker, BrokerError};
pub use status::{Application, Core, Expulsion, QueueMember, QueueStatus, Status};
pub use throttle::throttles_fifo;

use quaver_sched::Spec;
use std::path::PathBuf;
use std::time::Duration;

/// Who comes before whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Latency-critical applications before best-effort ones, these among themselves by weights.
    /// (Shenango.)
    Shenango,
    /// All take turns by their weights.
    Weights,
}

impl Policy {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Shenango => "shenango",
            Policy::Weights => "weights",
        }
    }
}

/// How a broker works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens.
    pub socket: PathBuf,
    /// The CPUs that are shared, at most [`MOST_PLACES`](crate::MOST_PLACES).
    pub cpus: Vec<usize>,
    /// Who comes before whom.
    pub policy: Policy,
    /// By which of the kernel's classes; `None`: as rights and CPUs allow.
    pub binding: Option<Binding>,
    /// How long who rings waits for an answer.
    pub bound: Duration,
    /// What it takes to give a core up and have it back: a core is not given up for less. `None`:
    /// as it is measured at the start.
    pub cycle: Option<Duration>,
    /// How long a turn of one best-effort application is, where there are several.
    pub slice: Duration,
    /// What latency-critical applications may use, each, in percent of the shared CPUs; 100: all.
    pub budget: u32,
    /// A CPU on which the broker watches the bells and does nothing else.
    pub guard: Option<usize>,
    /// The policy of a run queue that applications of the broker's user may have in common.
    pub queue: Option<Spec>,
    /// Users that may join, beside the broker's own and root.
    pub users: Vec<u32>,
}

impl Options {
    /// The defaults for these CPUs.
    pub fn new(socket: impl Into<PathBuf>, cpus: Vec<usize>) -> Options {
        Options {
            socket: socket.into(),
            cpus,
            policy: Policy::Shenango,
            binding: None,
            bound: Duration::from_micros(5),
            cycle: None,
            slice: Duration::from_millis(10),
            budget: 100,
            guard: None,
            queue: None,
            users: Vec::new(),
        }
    }
}
