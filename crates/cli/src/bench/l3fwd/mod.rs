//! `quaver bench l3fwd`: packets by AF_XDP, beside the kernel's own ways.
//!
//! * [`forward`]: packets of 60 bytes to 1,024 destinations through a router with 16,000 routes:
//!   ours ([`quaver_net::l3fwd`]), and the kernel's.
//! * [`echo`]: an endpoint of UDP that sends datagrams of 64 bytes back: the kernel's sockets with
//!   `epoll`, `recvmmsg` and `sendmmsg`, against frames of an AF_XDP device; the client is of
//!   either kind.
//!
//! All of it in network namespaces of one child process, over pairs of virtual interfaces: one
//! thread is measured, another makes its load and counts what comes back. A window of packets is
//! under way at a time, so nothing is lost, and both sleep when they have nothing to do. The kernel
//! bills much of the network's work to whoever sends, so the CPU time of both is given, too.

mod echo;
mod forward;
mod frames;
mod kernel;
mod thread;

use std::time::Duration;

use anyhow::{Context as _, Result};
use quaver_bench_common::namespace::Namespace;
use quaver_bench_common::{Outcome, Sample};
use quaver_net::xdp;
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Aim, Bound, Group, Plan, Reading};

/// Metric: CPU time of the thread that is measured, for each packet.
const ONE_NS: &str = "one_cpu_ns";
/// Metric: that of all threads.
const ALL_NS: &str = "all_cpu_ns";
/// Metric: packets a second.
const PER_S: &str = "per_s";

/// What an endpoint on AF_XDP may cost at most, against the kernel's: 1 / 2.2.
const ENDPOINT: f64 = 0.4545;

/// By which way packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The kernel's sockets, or its routes.
    Kernel,
    /// Devices of ours.
    Afxdp,
}

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct L3fwdSpec {
    what: What,
    /// Where the measured thread runs.
    cpu: usize,
    /// Where its load runs.
    helper: usize,
    warmup_ms: u64,
    measure_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Forward { by: By },
    Echo { server: By, client: By },
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let mut plan = Plan::default();
    match can_run(context) {
        Ok(helper) => {
            plan.groups = vec![forwarders(context, helper), endpoints(context, helper, "")];
        }
        Err(why) => plan.notes.push(format!("l3fwd: left out: {why}")),
    }
    plan
}

/// Can packets go by AF_XDP between namespaces, and on which CPU is their load made? If not, why.
pub fn can_run(context: &Context) -> Result<usize, String> {
    match (context.place.helper, xdp::is_built(), Namespace::new()) {
        (None, _, _) => Err("load and server take two CPUs".into()),
        (_, false, _) => Err("this was built without clang".into()),
        (_, _, Err(why)) => {
            Err(format!("it makes network namespaces, with root's rights and `ip`: {why}"))
        }
        (Some(helper), true, Ok(_)) => Ok(helper),
    }
}

fn spec(context: &Context, helper: usize, what: What) -> L3fwdSpec {
    let cpu = context.place.worker;
    let warmup_ms = context.effort.pick(50, 300);
    L3fwdSpec { what, cpu, helper, warmup_ms, measure_ms: context.effort.pick(200, 1500) }
}

fn task(context: &Context, spec: &L3fwdSpec, readings: Vec<Reading>) -> Task {
    let expected = Duration::from_millis(spec.warmup_ms + spec.measure_ms);
    Task { cpus: context.place.both(), expected, readings }
}

fn forwarders(context: &Context, helper: usize) -> Group {
    let title = "forward".to_owned();
    let one = Reading::new("forward CPU", ONE_NS, "ns");
    let both = Reading::new("forward CPU, with load", ALL_NS, "ns");
    let rate = Reading::new("forward rate", PER_S, "/s");
    let jobs = [("quaver l3fwd", By::Afxdp), ("kernel", By::Kernel)].map(|(name, by)| {
        let spec = spec(context, helper, What::Forward { by });
        let mut readings = vec![both.clone(), rate.clone()];
        if by == By::Afxdp {
            // The kernel has no thread for this.
            readings.insert(0, one.clone());
        }
        task(context, &spec, readings).job(name, context.child(&Work::L3fwd(spec)))
    });
    Group { title, jobs: jobs.into() }
}

/// Endpoints of UDP, whose names begin with `prefix`.
pub fn endpoints(context: &Context, helper: usize, prefix: &str) -> Group {
    let kernel = format!("{prefix}recvmmsg + epoll");
    let title = "udp echo".to_owned();
    let readings = vec![
        Reading::new("udp echo server CPU", ONE_NS, "ns"),
        Reading::new("udp echo server and client CPU", ALL_NS, "ns"),
        Reading::new("udp echo rate", PER_S, "/s"),
    ];
    let ways = [
        (kernel.clone(), By::Kernel, By::Kernel),
        (format!("{prefix}quaver afxdp"), By::Afxdp, By::Kernel),
        (format!("{prefix}quaver afxdp, client too"), By::Afxdp, By::Afxdp),
    ];
    let jobs = ways.map(|(name, server, client)| {
        let spec = spec(context, helper, What::Echo { server, client });
        let task = task(context, &spec, readings.clone());
        let mut job = task.job(name, context.child(&Work::L3fwd(spec)));
        if client == By::Afxdp {
            for (row, metric) in [("server CPU", ONE_NS), ("server and client CPU", ALL_NS)] {
                let row = format!("udp echo {row} / {kernel}");
                job.aims.push(Aim::new(row, metric, Bound::AtMost(ENDPOINT), &[&kernel]));
            }
        }
        job
    });
    Group { title, jobs: jobs.into() }
}

/// Measures.
///
/// # Errors
///
/// The namespaces or devices cannot be made, or packets do not come back.
pub fn run(spec: &L3fwdSpec) -> Result<Outcome> {
    let sample = match spec.what {
        What::Forward { by } => forward::run(spec, by),
        What::Echo { server, client } => echo::run(spec, server, client),
    };
    Ok(Outcome::Sample(sample.context("packets between namespaces")?))
}

/// What makes load, and counts what has come back.
trait Load {
    /// Goes on for so long; how many packets have come back.
    fn run_for(&mut self, time: Duration) -> Result<u64>;
}

/// Makes load on the helper's CPU, and measures `one`.
fn measure(
    spec: &L3fwdSpec,
    load: &mut dyn Load,
    one: Option<&thread::Measured>,
) -> Result<Sample> {
    use quaver_bench_common::clock::Stopwatch;

    quaver_bench_common::affinity::pin(&[spec.helper]).context("the helper's CPU")?;
    load.run_for(Duration::from_millis(spec.warmup_ms))?;
    let one_ns = || one.map(thread::Measured::cpu_ns).transpose();
    let (watch, before) = (Stopwatch::start(), one_ns()?);
    let packets = load.run_for(Duration::from_millis(spec.measure_ms))?;
    let (used, after) = (watch.elapsed(), one_ns()?);
    anyhow::ensure!(packets > 0, "no packet has come back");
    let each = |ns: u64| ns as f64 / packets as f64;
    let per_s = packets as f64 * 1e9 / used.wall_ns as f64;
    let mut sample =
        Sample { ops: packets, cpu_ns: used.cpu_ns, wall_ns: used.wall_ns, ..Sample::default() }
            .with(ALL_NS, each(used.cpu_ns))
            .with(PER_S, per_s);
    if let (Some(before), Some(after)) = (before, after) {
        sample = sample.with(ONE_NS, each(after - before));
    }
    Ok(sample)
}
