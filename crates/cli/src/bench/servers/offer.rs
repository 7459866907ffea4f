//! One load, offered to a server by `quaver-load` from the calling thread.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use quaver_load::net::{Offered, Options, Pool, operations};
use quaver_load::{
    ArrivalProcess, Class, Limit, Mix, RealClock, Recorder, Schedule, ServiceTime, Summary,
};

use super::workload::{KEYS, VALUE_BYTES, Workload};

/// Connections, or sockets: each has a port of its own.
const CONNECTIONS: usize = 64;
/// Requests on a connection at a time.
const DEPTH: usize = 4;
/// Requests under way beyond which others are dropped: far more than a server has that keeps up.
/// An overloaded one is not to be busy for long after its load has ended.
const OUTSTANDING: u64 = 2_000;
/// What is offered.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// The kind of requests.
    pub workload: &'static Workload,
    /// How many of each class, relative to one another; and how long one takes, where slowdowns are
    /// to be known, in ns.
    pub classes: Vec<(&'a str, f64, Option<u64>)>,
    /// All of them, a second.
    pub per_s: f64,
    /// For how long.
    pub span: Duration,
    /// For how long before, which does not count.
    pub warm_up: Duration,
    /// How long to wait for the last answers after that. Later ones count as missing.
    pub grace: Duration,
    /// Of times, classes and keys.
    pub seed: u64,
}

impl Offer<'_> {
    /// Offers it, over new connections: what the server still has to say about an earlier load
    /// reaches nobody.
    ///
    /// # Errors
    ///
    /// The server does not accept connections, or breaks them.
    pub fn make(&self, to: SocketAddr) -> anyhow::Result<Summary> {
        let classes = self.classes.iter().map(|&(name, weight, ns)| Class {
            name: name.to_owned(),
            weight,
            service: ns.map(|ns| ServiceTime::Fixed { ns: ns.max(1) }),
        });
        let mix = Mix::new(classes.collect())?;
        let limit = Limit::Duration(self.span);
        let schedule = Schedule::new(ArrivalProcess::Poisson, self.per_s, &mix, limit, self.seed)?;
        let schedule = schedule.warm_up(self.warm_up);
        let recorder = Recorder::for_schedule(&schedule)?;
        let mut pool = Pool::connect(Options {
            protocol: self.workload.protocol(),
            to,
            connections: CONNECTIONS,
            depth: DEPTH,
            keys: KEYS,
            value_bytes: VALUE_BYTES,
            rows: 0,
        })?;
        // The client's CPU is its own: it never sleeps, and so needs nobody to wake it.
        let clock = RealClock::with_spin_ns(u64::MAX);
        let planned = self.span + self.warm_up;
        let Offered { summary, broken_connections, errors } =
            pool.offer(&schedule, &operations(&mix)?, &recorder, clock, |open| {
                open.max_outstanding(OUTSTANDING).time_limit(planned + self.grace).grace(self.grace)
            })?;
        anyhow::ensure!(broken_connections == 0, "{broken_connections} connections broke");
        let refused: u64 = errors.iter().map(|class| class.refused).sum();
        anyhow::ensure!(refused == 0, "the server refuses {refused} requests");
        summary.total.latency_ns.as_ref().context("no request was sent")?;
        Ok(summary)
    }
}
