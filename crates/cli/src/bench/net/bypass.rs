//! The key-value server on a stack in user space, against the same on the kernel's: GETs by
//! connections of the kernel's, over a pair of virtual interfaces between two network namespaces,
//! server and client on a CPU each. Beside it the endpoint of UDP of `quaver bench l3fwd`.
//!
//! A pair of virtual interfaces hands packets over in the sender's time: the kernel bills the
//! client's way in to the server, and the server's to the client. So the CPU time of both counts.

use std::time::Duration;

use anyhow::Context as _;
use quaver_bench_common::namespace::{Namespace, connect};
use quaver_bench_common::{Outcome, affinity};
use serde::{Deserialize, Serialize};

use super::dialogue::Dialogue;
use super::measure::{BOTH_NS, Loop, PER_S, SERVER_NS, closed_loop};
use super::server::{Manner, Server};
use crate::bench::child::Work;
use crate::bench::context::{Context, Task};
use crate::bench::l3fwd;
use crate::bench::plan::{Aim, Bound, Group, Plan, Reading};
use crate::slice;

/// Connections of the client.
const CONNECTIONS: [usize; 3] = [32, 256, 1000];
/// What the stack may cost, against the kernel's.
const AIM: Bound = Bound::AtMost(0.75);
const KERNEL: &str = "bypass kernel";
const AFXDP: &str = "bypass afxdp";
/// Keys in the store.
const KEYS: &str = "100";

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BypassSpec {
    /// This executable.
    program: String,
    /// By AF_XDP, or the kernel's sockets.
    afxdp: bool,
    connections: usize,
    cpu: usize,
    helper: usize,
    warmup_ms: u64,
    measure_ms: u64,
}

/// The groups.
pub fn plan(context: &Context) -> Plan {
    let mut plan = Plan::default();
    let program = context.program().to_str().ok_or_else(|| "a path that is no UTF-8".to_owned());
    match l3fwd::can_run(context).and_then(|helper| Ok((helper, program?))) {
        Ok((helper, program)) => {
            let groups = CONNECTIONS.map(|n| group(context, program, helper, n));
            plan.groups.extend(groups);
            plan.groups.push(l3fwd::endpoints(context, helper, "bypass "));
        }
        Err(why) => plan.notes.push(format!("net: bypass left out: {why}")),
    }
    plan
}

fn group(context: &Context, program: &str, helper: usize, connections: usize) -> Group {
    let title = format!("kv {connections}");
    let spec = |afxdp| BypassSpec {
        program: program.to_owned(),
        afxdp,
        connections,
        cpu: context.place.worker,
        helper,
        warmup_ms: context.effort.pick(100, 500),
        measure_ms: context.effort.pick(300, 1500),
    };
    let metrics = [("server CPU", SERVER_NS), ("server and client CPU", BOTH_NS)];
    let mut readings: Vec<Reading> =
        metrics.map(|(what, metric)| Reading::new(format!("{title} {what}"), metric, "ns")).into();
    readings.push(Reading::new(format!("{title} rate"), PER_S, "/s"));
    let expected = Duration::from_millis(spec(false).warmup_ms + spec(false).measure_ms);
    let task = Task { cpus: context.place.both(), expected, readings };
    let jobs = [(KERNEL, false), (AFXDP, true)].map(|(name, afxdp)| {
        let mut job = task.job(name, context.child(&Work::NetBypass(spec(afxdp))));
        if afxdp {
            let aim = |(what, metric)| {
                Aim::new(format!("{title} {what} / {KERNEL}"), metric, AIM, &[KERNEL])
            };
            job.aims = metrics.map(aim).into();
        }
        job
    });
    Group { title, jobs: jobs.into() }
}

/// Measures.
///
/// # Errors
///
/// The namespaces cannot be made; a [`Crash`](crate::process::Crash) when the server dies;
/// or it answers wrongly.
pub fn run(spec: &BypassSpec) -> anyhow::Result<Outcome> {
    let [there, here] = [Namespace::new()?, Namespace::new()?];
    let own = (!spec.afxdp).then_some("10.0.0.1/24");
    connect((&there, "va", own), (&here, "vb", Some("10.0.0.2/24")), "")?;
    let (command, cpus) = (spec.command(), [spec.cpu]);
    let server = match there.run(move || Server::start(&command, &cpus, Manner::Serve))? {
        Ok(server) => server,
        Err(outcome) => return Ok(outcome),
    };
    let (connections, helper) = (spec.connections, spec.helper);
    let each = Loop {
        dialogue: Dialogue::Redis,
        connections,
        warmup_ms: spec.warmup_ms,
        measure_ms: spec.measure_ms,
    };
    let (server, measured) = here.run(move || {
        let pinned = affinity::pin(&[helper]).context("the client's CPU");
        slice::set(Duration::from_micros(100));
        let measured = pinned.and_then(|()| closed_loop(&server, &each));
        (server, measured)
    });
    match measured {
        Ok(sample) => {
            server.stop()?;
            Ok(sample.into())
        }
        Err(error) => Err(server.blamed(error)),
    }
}

impl BypassSpec {
    fn command(&self) -> Vec<String> {
        let cpu = self.cpu.to_string();
        let network = if self.afxdp {
            ["--net", "afxdp:va,address=10.0.0.1/24"]
        } else {
            ["--listen", "10.0.0.1"]
        };
        let runtime = ["--port", "0", "--workers", "1", "--cpus", &cpu, "--fill", KEYS];
        let words = [self.program.as_str(), "serve", "kv"];
        words.into_iter().chain(network).chain(runtime).map(Into::into).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    fn spec(afxdp: bool) -> BypassSpec {
        BypassSpec {
            program: "quaver".into(),
            afxdp,
            connections: 4,
            cpu: 0,
            helper: 0,
            warmup_ms: 1,
            measure_ms: 10,
        }
    }

    #[test]
    fn the_servers_can_be_started_so() {
        for afxdp in [false, true] {
            let command = spec(afxdp).command();
            let parser = crate::serve::Args::augment_args(clap::Command::new("serve"));
            parser.try_get_matches_from(&command[1..]).unwrap();
            assert_eq!(command.iter().any(|word| word.starts_with("afxdp:va,")), afxdp);
        }
    }
}
