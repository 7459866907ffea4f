//! One measurement: a server, its load, and what both cost.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, ensure};
use quaver_bench_common::client::offer_by;
use quaver_bench_common::clock::{monotonic_ns, process_cpu_ns};
use quaver_bench_common::net::{FAST, Kind, SLOW};
use quaver_bench_common::{Outcome, Sample, affinity};
use quaver_load::{ArrivalProcess, Clock, Limit, Recorder, Schedule, Sent, Summary};
use serde::{Deserialize, Serialize};

use super::client::{Client, PATIENCE, Wait};
use super::dialogue::Dialogue;
use super::server::{Manner, Server};
use crate::slice;

/// Metric: CPU time of the server for each answer.
pub const SERVER_NS: &str = "server_cpu_ns";
/// Metric: the same of server and client.
pub const BOTH_NS: &str = "both_cpu_ns";
/// Metric: how many CPUs the server took, in percent of one.
pub const SERVER_PERCENT: &str = "server_cpu_percent";
/// Metrics of each class of requests, see [`metric`].
pub const P50_US: &str = "p50_us";
/// As above.
pub const P99_US: &str = "p99_us";
/// As above.
pub const PER_S: &str = "per_s";

/// The shortest slice that the kernel gives: the client's wake-ups should not wait for a server on
/// the same CPU.
const SLICE: Duration = Duration::from_micros(100);

/// Connections for paced requests, so that one that waits does not delay the next.
const PACED_CONNECTIONS: usize = 16;
const SEED: u64 = 1;

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NetSpec {
    /// Program and arguments.
    pub server: Vec<String>,
    /// Where it runs.
    pub server_cpus: Vec<usize>,
    /// Where the client runs.
    pub client_cpus: Vec<usize>,
    /// What the client does.
    pub load: Load,
    /// Before the measurement, in ms.
    pub warmup_ms: u64,
    /// The measurement, in ms.
    pub measure_ms: u64,
}

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "load", rename_all = "kebab-case")]
pub enum Load {
    /// `message`: closed loops.
    Echo {
        /// How many.
        connections: usize,
    },
    /// `get`: at random times. `scan`: closed loops.
    Scans {
        /// How many of the latter.
        scans: usize,
        /// Of the former.
        gets_per_s: f64,
    },
    /// `fast` and `slow` pages: closed loops.
    Pages {
        /// How many of the former.
        fast: usize,
        /// Of the latter.
        slow: usize,
    },
}

/// The metric of a class of requests.
pub fn metric(class: &str, what: &str) -> String {
    format!("{class}_{what}")
}

/// Measures.
///
/// # Errors
///
/// A [`Crash`] when the server dies; or it answers wrongly, or not at all.
pub fn run(spec: &NetSpec) -> anyhow::Result<Outcome> {
    let server = match Server::start(&spec.server, &spec.server_cpus, Manner::Peer)? {
        Ok(server) => server,
        Err(outcome) => return Ok(outcome),
    };
    // After the server has started, which would inherit both.
    affinity::pin(&spec.client_cpus).context("the client's CPUs")?;
    slice::set(SLICE);
    match measure(spec, &server) {
        Ok(sample) => {
            server.stop()?;
            Ok(sample.into())
        }
        Err(error) => Err(server.blamed(error)),
    }
}

fn measure(spec: &NetSpec, server: &Server) -> anyhow::Result<Sample> {
    let mut client = Client::new()?;
    let Crowd { closed, gets, wait } = Crowd::connect(&mut client, server, spec.load)?;
    client.start_loops()?;
    client.go_on_until(monotonic_ns() + spec.warmup_ms * 1_000_000, wait)?;
    client.forget();
    let before = Moment::now(server)?;
    let mut sample = Sample::default();
    match gets {
        Some((class, rate)) => {
            let summary = paced(&mut client, class, &schedule(rate, spec.measure_ms)?)?;
            sample.ops += summary.total.completed;
            let latency = summary.total.latency_ns.context("no request was sent")?;
            let [p50, p99] = [latency.p50, latency.p99].map(|measured| measured.value);
            sample = with_latency(sample, "get", p50, p99);
        }
        None => client.go_on_until(before.wall_ns + spec.measure_ms * 1_000_000, wait)?,
    }
    answer_all(&mut client, &closed, wait)?;
    let used = Moment::now(server)?.since(&before);
    for (name, class) in closed {
        let class = client.class(class);
        let latency = |q| class.latency.value_at_quantile(q);
        sample.ops += class.answers;
        sample = with_latency(sample, name, latency(0.5), latency(0.99))
            .with(&metric(name, PER_S), class.answers as f64 * 1e9 / used.wall_ns as f64);
    }
    client.stop_loops()?;
    let each = |ns: u64| ns as f64 / sample.ops as f64;
    let (server_ns, both_ns) = (each(used.server_ns), each(used.server_ns + used.client_ns));
    let percent = 100.0 * used.server_ns as f64 / used.wall_ns as f64;
    Ok(Sample { cpu_ns: used.server_ns, wall_ns: used.wall_ns, ..sample }
        .with(SERVER_NS, server_ns)
        .with(BOTH_NS, both_ns)
        .with(SERVER_PERCENT, percent))
}

/// A closed loop of one kind of requests.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// What is asked for.
    pub dialogue: Dialogue,
    /// By how many.
    pub connections: usize,
    /// Before the measurement, in ms.
    pub warmup_ms: u64,
    /// The measurement, in ms.
    pub measure_ms: u64,
}

/// Measures what a server's answers to a closed loop cost: [`SERVER_NS`], [`BOTH_NS`], [`PER_S`].
///
/// # Errors
///
/// It answers wrongly, or not at all.
pub fn closed_loop(server: &Server, each: &Loop) -> anyhow::Result<Sample> {
    let mut client = Client::new()?;
    let class = client.connect(server.address, each.connections, each.dialogue, true)?;
    client.start_loops()?;
    client.go_on_until(monotonic_ns() + each.warmup_ms * 1_000_000, Wait::Sleep)?;
    client.forget();
    let before = Moment::now(server)?;
    client.go_on_until(before.wall_ns + each.measure_ms * 1_000_000, Wait::Sleep)?;
    let used = Moment::now(server)?.since(&before);
    let answers = client.class(class).answers;
    client.stop_loops()?;
    ensure!(answers > 0, "no request was answered");
    let each = |ns: u64| ns as f64 / answers as f64;
    let sample =
        Sample { ops: answers, cpu_ns: used.server_ns, wall_ns: used.wall_ns, ..Sample::default() };
    Ok(sample
        .with(SERVER_NS, each(used.server_ns))
        .with(BOTH_NS, each(used.server_ns + used.client_ns))
        .with(PER_S, answers as f64 * 1e9 / used.wall_ns as f64))
}

/// The connections of a load.
struct Crowd {
    /// Names and classes of closed loops.
    closed: Vec<(&'static str, usize)>,
    /// The class of paced requests, and how many a second.
    gets: Option<(usize, f64)>,
    wait: Wait,
}

impl Crowd {
    fn connect(client: &mut Client, server: &Server, load: Load) -> anyhow::Result<Crowd> {
        let mut crowd = Crowd { closed: Vec::new(), gets: None, wait: Wait::Sleep };
        let mut looping = |client: &mut Client, name, count, dialogue| -> anyhow::Result<()> {
            crowd.closed.push((name, client.connect(server.address, count, dialogue, true)?));
            Ok(())
        };
        let get = Dialogue::Message(Kind::Get);
        match load {
            Load::Echo { connections } => looping(client, "message", connections, get)?,
            Load::Scans { scans, gets_per_s } => {
                looping(client, "scan", scans, Dialogue::Message(Kind::Scan))?;
                let class = client.connect(server.address, PACED_CONNECTIONS, get, false)?;
                crowd.gets = Some((class, gets_per_s));
                // Microseconds matter, and the client's CPU is its own.
                crowd.wait = Wait::Spin;
            }
            Load::Pages { fast, slow } => {
                looping(client, "fast", fast, Dialogue::Page(FAST))?;
                looping(client, "slow", slow, Dialogue::Page(SLOW))?;
            }
        }
        Ok(crowd)
    }
}

/// Goes on until each closed loop has had an answer: a busy machine may have kept the server from
/// its CPU all the time.
fn answer_all(
    client: &mut Client,
    closed: &[(&'static str, usize)],
    wait: Wait,
) -> anyhow::Result<()> {
    let end = monotonic_ns() + PATIENCE.as_nanos() as u64;
    for (name, class) in closed {
        while client.class(*class).answers == 0 {
            let now = monotonic_ns();
            ensure!(now < end, "no {name} was answered for {PATIENCE:?}");
            client.go_on_until(now + 1_000_000, wait)?;
        }
    }
    Ok(())
}

fn with_latency(sample: Sample, class: &str, p50_ns: u64, p99_ns: u64) -> Sample {
    sample
        .with(&metric(class, P50_US), p50_ns as f64 / 1e3)
        .with(&metric(class, P99_US), p99_ns as f64 / 1e3)
}

/// Random times, the same for all servers.
fn schedule(rate: f64, duration_ms: u64) -> anyhow::Result<Schedule> {
    let limit = Limit::Duration(Duration::from_millis(duration_ms));
    Ok(Schedule::new(ArrivalProcess::Poisson, rate, &"get".parse()?, limit, SEED)?)
}

/// Sends the requests of `schedule` by the connections of `class`.
fn paced(client: &mut Client, class: usize, schedule: &Schedule) -> anyhow::Result<Summary> {
    let recorder = Rc::new(Recorder::for_schedule(schedule)?);
    client.record_in(Rc::clone(&recorder));
    let pace = Pace { client: RefCell::new(client), failure: RefCell::new(None) };
    let summary = offer_by(
        &pace,
        &recorder,
        |open| open.grace(PATIENCE),
        schedule,
        |request| {
            let nth = request.id as usize % PACED_CONNECTIONS;
            match pace.attempt(|client| client.send(class, nth, request.id)) {
                true => Sent::Accepted,
                false => Sent::Refused,
            }
        },
    );
    pace.failure.into_inner().map_or(Ok(summary), Err)
}

/// Deals with answers between requests. After a failure no time is left.
struct Pace<'a> {
    client: RefCell<&'a mut Client>,
    failure: RefCell<Option<anyhow::Error>>,
}

impl Pace<'_> {
    /// Did it go well?
    fn attempt(&self, work: impl FnOnce(&mut Client) -> anyhow::Result<()>) -> bool {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = work(&mut self.client.borrow_mut()).err();
        }
        failure.is_none()
    }
}

impl Clock for Pace<'_> {
    fn now_ns(&self) -> u64 {
        if self.failure.borrow().is_some() { u64::MAX } else { monotonic_ns() }
    }

    fn wait_until(&self, time_ns: u64) {
        self.attempt(|client| client.go_on_until(time_ns, Wait::Spin));
    }
}

/// What has been used up to a moment.
struct Moment {
    server_ns: u64,
    client_ns: u64,
    wall_ns: u64,
}

impl Moment {
    fn now(server: &Server) -> anyhow::Result<Moment> {
        let server_ns = server.cpu_ns()?;
        Ok(Moment { server_ns, client_ns: process_cpu_ns(), wall_ns: monotonic_ns() })
    }

    fn since(&self, before: &Moment) -> Moment {
        Moment {
            server_ns: self.server_ns - before.server_ns,
            client_ns: self.client_ns - before.client_ns,
            wall_ns: (self.wall_ns - before.wall_ns).max(1),
        }
    }
}
