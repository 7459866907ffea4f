//! Open-loop load generation and latency recording.
//!
//! A load generator is *open-loop* when the moment at which it sends a request does not depend on
//! earlier responses: users do not wait for each other. Latency then counts from the moment at
//! which a request *should* have been sent. This crate is built so that the usual ways of measuring
//! too well are closed:
//!
//! | trap | here |
//! |---|---|
//! | late sends are skipped | a late request is sent at once; how late the generator was is a histogram of its own |
//! | latency counts from the actual send (coordinated omission) | it counts from the intended send time |
//! | requests that never finished are left out (survivor bias) | every offered request is in the population; see [`Summary`] |
//! | a full generator drops silently | requests are counted as dropped, by reason, and stay in the population |
//! | the end of the run hides a backlog | requests not sent by the time limit are counted as unsent, and stay too |
//!
//! # Parts
//!
//! * [`ArrivalProcess`] says *when* requests are sent, [`Mix`] *what* they are; a [`Trace`] says
//!   both.
//! * [`Schedule`] merges them into [`Request`]s; the same seed gives the same requests on every
//!   machine.
//! * [`OpenLoop`] sends them by a [`Clock`], which is [`RealClock`], or [`SimClock`] in tests and
//!   simulations.
//! * [`Recorder`] has one slot for each request; completing one is wait-free, from any thread.
//! * [`Summary`] is the result, for each class and in total; it can be serialised.
//! * [`LoadFractions`], [`Slo`] and [`highest_load`] are for sweeps over the offered load.
//!
//! Times are `u64` nanoseconds from the zero of a clock unless a name says otherwise; rates are
//! requests a second.
#![forbid(unsafe_code)]

mod arrivals;
mod clock;
mod distribution;
mod error;
mod mix;
pub mod net;
mod open_loop;
mod random;
mod recorder;
mod schedule;
mod service;
mod slots;
mod summary;
mod sweep;
mod trace;
mod units;

pub use arrivals::{ArrivalError, ArrivalProcess, ArrivalTimes};
pub use clock::{Clock, RealClock, SimClock, reduce_timer_slack};
pub use distribution::{Distribution, Measured, Percentile};
pub use error::SpecError;
pub use mix::{Class, Mix, MixError};
pub use open_loop::{Drops, OpenLoop, Outcome, Sent};
pub use random::Uniform;
pub use recorder::{Completion, Fate, Recorder, RecorderError, Sample};
pub use schedule::{Limit, Request, Requests, Schedule};
pub use service::ServiceTime;
pub use summary::{ClassSummary, GeneratorSummary, Summary};
pub use sweep::{LoadFractions, LoadPoint, Slo, SloLimit, SweepError, Verdict, highest_load};
pub use trace::{Trace, TraceError, TraceReader, TraceRecord};
pub use units::{format_ns, parse_duration_ns};
