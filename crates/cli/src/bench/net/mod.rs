//! `quaver bench net`: servers over the kernel's sockets, in Quaver and elsewhere.
//!
//! * [`echo`]: messages of 64 bytes, closed loops over 32 and 256 connections, a server on one CPU:
//!   CPU time for each message, and messages a second.
//! * [`scans`]: GETs at random times beside connections that ask for SCANs of 0.7 ms all the time,
//!   one worker: latency of the GETs, how many SCANs are answered.
//! * [`pages`]: axum, 8 clients of a page that is there at once beside 4 of one that takes 10 ms of
//!   computing, two CPUs: latency of the former.
//! * [`bypass`]: the key-value server on a stack in user space, against the same on the kernel's.
//!
//! ```text
//! quaver bench net ──> quaver bench --child NetSpec ──> server: listening ADDRESS
//!                        the client; measures both        quaver bench --child OursSpec
//!                                                         quaver-bench-peers, under quaver run
//!                                                         quaver-bench-async, go-peer
//! ```
//!
//! All servers have the [same client](client). A server listens, and answers until its standard
//! input ends ([`quaver_bench_common::net`]). Its CPU time is read from outside, so it is that of
//! the whole process, clocks and reactors among it. The kernel bills much of the network's work to
//! whoever sends, so the CPU time of server and client together is given, too.

pub mod bypass;
pub mod client;
pub mod dialogue;
mod echo;
pub mod measure;
mod ours;
mod pages;
mod scans;
pub mod server;
mod servers;

use std::collections::HashSet;

pub use bypass::BypassSpec;
pub use measure::{NetSpec, run};
pub use ours::{OursSpec, serve};

use super::context::Context;
use super::plan::Plan;

/// The quanta of Quaver's servers.
const QUANTA: [&str; 3] = ["auto", "50us", "200us"];

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let mut plan = Plan::default();
    if context.place.helper.is_none() {
        plan.notes.push("net: left out: server and client take two CPUs".into());
        return plan;
    }
    for part in [echo::plan, scans::plan, pages::plan, bypass::plan] {
        let Plan { groups, notes } = part(context);
        plan.groups.extend(groups);
        plan.notes.extend(notes);
    }
    // What is missing is missed by several groups.
    let mut said = HashSet::new();
    plan.notes.retain(|note| said.insert(note.clone()));
    plan
}
