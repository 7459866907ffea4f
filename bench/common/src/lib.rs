//! What the programs that `quaver bench` compares have in common.
//!
//! `quaver bench` (the *parent*) measures every implementation in a process of its own (a *child*):
//! its own executable for Quaver, `quaver-bench-peers` for other Rust libraries, a Go program for
//! Go. So one measurement cannot disturb the next, settings that hold for a whole process can vary,
//! and a child that hangs can be killed.
//!
//! A child gets one command-line argument, a [`Spec`] in JSON, and answers with one line of JSON on
//! its standard output, an [`Outcome`]. Everything else that it says goes to standard error. The
//! parent chooses the cores on which a child may run before it starts.
//!
//! | module | what |
//! |---|---|
//! | [`spec`] | the work: which operation, how long |
//! | [`outcome`] | the answer |
//! | [`clock`] | process CPU time and the monotonic clock, in nanoseconds |
//! | [`measure`](mod@measure) | warm-up, choice of the number of operations, measurement |
//! | [`compute`] | compute loops: what a hog does |
//! | [`affinity`] | on which CPU a kernel thread runs |
//! | [`client`] | the client of a server under open load |
//! | [`overshoot`] | how late sleepers wake up |
//! | [`kv`] | the open load of a key-value service |
//! | [`namespace`] | networks of threads, connected by pairs of interfaces |
//! | [`noise`] | how the machine stops what runs on it |
//! | [`net`], `http` | servers of messages, and of HTTP (feature `http`) |
//! | [`parked`] | memory of parked threads |
//! | [`search`] | the highest load that meets an objective |
//! | [`store`] | the key-value store that is served |
//!
//! The crate does not depend on Quaver's runtime: that replaces C functions of the process it is
//! linked into, and a peer must not run with these.

pub mod affinity;
pub mod client;
pub mod clock;
pub mod compute;
#[cfg(feature = "http")]
pub mod http;
pub mod kv;
pub mod measure;
pub mod namespace;
pub mod net;
pub mod noise;
pub mod outcome;
pub mod overshoot;
pub mod parked;
pub mod search;
pub mod spec;
pub mod store;

pub use measure::{iterations_lasting, measure};
pub use outcome::{Outcome, Sample};
pub use spec::{Budget, Op, Spec};
