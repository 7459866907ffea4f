//! Messages of 64 bytes: what a server costs that has nothing to do but to receive and to send.

use std::time::Duration;

use quaver_bench_common::spec::{ServeSpec, Service};

use super::QUANTA;
use super::measure::{BOTH_NS, Load, NetSpec, PER_S, SERVER_NS, metric};
use super::ours::Sockets;
use super::servers::{Servers, ours};
use crate::bench::context::{Context, Task};
use crate::bench::plan::{Aim, Bound, Group, Plan, Reading};

/// Connections, and what `quaver::net` may cost at most against tokio.
const CONNECTIONS: [(usize, f64); 2] = [(32, 1.05), (256, 1.10)];
/// The same for code that knows nothing of Quaver.
const UNMODIFIED: f64 = 1.3;
/// What a quantum may cost, against none.
const PREEMPTION: f64 = 1.10;

const TOKIO: [&str; 2] = ["tokio-current-thread", "tokio-multi-thread"];
const RUN: &str = "quaver run pthread auto";

/// The groups.
pub fn plan(context: &Context) -> Plan {
    let mut plan = Plan::default();
    for (connections, most) in CONNECTIONS {
        let servers = servers(context);
        plan.groups.push(group(context, &servers, connections, most));
        plan.notes = servers.notes;
    }
    plan
}

fn servers(context: &Context) -> Servers<'_> {
    let serve = ServeSpec { service: Service::Messages, threads: 1, iterations: 1, compute_ns: 0 };
    let mut servers = Servers::new(context, serve, &[context.place.worker]);
    for name in TOKIO {
        servers.peer(name, name, 1);
    }
    servers.ours(Sockets::Net, "off");
    for quantum in QUANTA {
        servers.ours(Sockets::Net, quantum);
    }
    servers.ours(Sockets::Std, "auto");
    servers.run("pthread", RUN, 1, "auto");
    for name in ["pthread", "may", "go"] {
        servers.peer(name, name, 1);
    }
    servers
}

fn group(context: &Context, servers: &Servers<'_>, connections: usize, most: f64) -> Group {
    let place = &context.place;
    let title = format!("echo {connections}");
    let spec = NetSpec {
        server: Vec::new(),
        server_cpus: Vec::new(),
        client_cpus: place.helper.into_iter().collect(),
        load: Load::Echo { connections },
        warmup_ms: context.effort.pick(20, 300),
        measure_ms: context.effort.pick(60, 1500),
    };
    let metrics = [("server CPU", SERVER_NS), ("server and client CPU", BOTH_NS)];
    let mut readings: Vec<Reading> =
        metrics.map(|(what, metric)| Reading::new(format!("{title} {what}"), metric, "ns")).into();
    readings.push(Reading::new(format!("{title} rate"), metric("message", PER_S), "/s"));
    let expected = Duration::from_millis(spec.warmup_ms + spec.measure_ms);
    let task = Task { cpus: place.both(), expected, readings };
    let mut jobs = servers.jobs(&spec, &task);
    let net = |quantum: &str| ours(Sockets::Net, quantum);
    let aims =
        [(net("auto"), most), (ours(Sockets::Std, "auto"), UNMODIFIED), (RUN.into(), UNMODIFIED)];
    for (what, metric) in metrics {
        for job in &mut jobs {
            for (name, most) in &aims {
                if job.implementation == *name {
                    let row = format!("{title} {what} / tokio");
                    job.aims.push(Aim::new(row, metric, Bound::AtMost(*most), &TOKIO));
                }
            }
            if QUANTA.iter().any(|quantum| job.implementation == net(quantum)) {
                let row = format!("{title} {what} / quantum off");
                job.aims.push(Aim::new(row, metric, Bound::AtMost(PREEMPTION), &[&net("off")]));
            }
        }
    }
    Group { title, jobs }
}
