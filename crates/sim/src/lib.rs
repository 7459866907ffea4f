//! A discrete-event simulator of servers that runs Quaver's scheduling policies unchanged.
//!
//! * [`Scenario`]: what is offered and who serves, read from TOML.
//! * [`Costs`]: what notifications and runtimes cost, each number with its origin.
//! * [`simulate`]: one run at one rate; [`sweep`](mod@sweep): many, on all cores.
//! * [`Outcome`]: what came of it.
//! * [`plan`](mod@plan): the smallest server that meets an objective.
//!
//! Times are nanoseconds. The same scenario and seed give the same outcome on every machine and
//! with any number of cores.
#![forbid(unsafe_code)]

mod calendar;
mod costs;
mod delay;
mod engine;
mod job;
mod offer;
mod outcome;
pub mod plan;
mod random;
mod scenario;
pub mod sweep;
mod timeline;

pub use costs::{Costs, Mechanism, System, Timer};
pub use delay::Delay;
pub use engine::{Options, simulate};
pub use outcome::{ClassOutcome, Counts, Latency, Outcome, WorkerUse};
pub use scenario::{
    BestEffort, Load, Named, Noise, Overrides, Plan, Queues, Scenario, ScenarioError, Schbench,
    Server, Stops, mechanism_named, system_named,
};
pub use timeline::{Span, Timeline, Window};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
