//! Short requests beside long ones, over TCP, on one worker (Aspen, 3.2.3).
//!
//! GETs are sent at random times, the same for all servers, and count from the time at which they
//! should have been sent. A closed loop would ask a quick server more often, and leave it less time
//! for SCANs.

use std::time::Duration;

use quaver_bench_common::compute::scalar_iterations;
use quaver_bench_common::spec::{ServeSpec, Service};

use super::measure::{Load, NetSpec, P50_US, P99_US, PER_S, SERVER_PERCENT, metric};
use super::ours::Sockets;
use super::servers::{Servers, ours};
use crate::bench::context::{Context, Task};
use crate::bench::plan::{Aim, Bound, Group, Plan, Reading};
use crate::bench::told::Told;

/// Connections that ask for SCANs.
const SCANS: [usize; 3] = [1, 2, 4];
/// How long one computes.
const SCAN_NS: u64 = 700_000;
const GETS_PER_S: f64 = 500.0;
const QUANTA: [&str; 4] = ["auto", "20us", "50us", "200us"];
/// Connections that ask for SCANs are known to be long.
const HISTORY: &str = "two-queue:history=100us";
const PEERS: [&str; 3] = ["tokio-current-thread", "tokio-multi-thread", "go"];

/// The groups.
pub fn plan(context: &Context) -> Plan {
    let serve = ServeSpec {
        service: Service::Messages,
        threads: 1,
        iterations: scalar_iterations(SCAN_NS),
        compute_ns: SCAN_NS,
    };
    let mut servers = Servers::new(context, serve, &[context.place.worker]);
    for name in PEERS {
        servers.peer(name, name, 1);
    }
    servers.ours(Sockets::Net, "off");
    for told in Told::possible() {
        let mut add = |quantum, policy, name: String| {
            servers.ours_by(Sockets::Net, quantum, policy, *told, &told.name(&name));
        };
        for quantum in QUANTA {
            add(quantum, "two-queue", ours(Sockets::Net, quantum));
        }
        for quantum in QUANTA {
            add(quantum, HISTORY, with_history(quantum));
        }
    }
    let groups = SCANS.map(|scans| group(context, &servers, scans)).into();
    Plan { groups, notes: servers.notes }
}

/// The name of the server that remembers.
fn with_history(quantum: &str) -> String {
    format!("{} history", ours(Sockets::Net, quantum))
}

fn group(context: &Context, servers: &Servers<'_>, scans: usize) -> Group {
    let place = &context.place;
    let title = if scans == 1 { "1 scan".to_owned() } else { format!("{scans} scans") };
    let spec = NetSpec {
        server: Vec::new(),
        server_cpus: Vec::new(),
        client_cpus: place.helper.into_iter().collect(),
        load: Load::Scans { scans, gets_per_s: GETS_PER_S },
        warmup_ms: context.effort.pick(20, 300),
        measure_ms: context.effort.pick(100, 3000),
    };
    let (p50, p99) = (metric("get", P50_US), metric("get", P99_US));
    let rate = metric("scan", PER_S);
    let readings = vec![
        Reading::new(format!("{title}: GET p50"), &p50, "us"),
        Reading::new(format!("{title}: GET p99"), &p99, "us"),
        Reading::new(format!("{title}: SCANs"), &rate, "/s"),
        Reading::new(format!("{title}: server CPU"), SERVER_PERCENT, "%"),
    ];
    let expected = Duration::from_millis(spec.warmup_ms + spec.measure_ms);
    let task = Task { cpus: place.both(), expected, readings };
    let mut jobs = servers.jobs(&spec, &task);
    let aims = [
        ("GET p50", p50, Bound::AtMost(0.1)),
        ("GET p99", p99, Bound::AtMost(0.3)),
        ("SCANs", rate, Bound::AtLeast(0.9)),
    ];
    for job in &mut jobs {
        let by = |quantum: &&str| job.implementation.starts_with(&ours(Sockets::Net, quantum));
        if QUANTA.iter().any(by) {
            job.aims.extend(aims.iter().map(|(what, metric, bound)| {
                Aim::new(format!("{title}: {what} / best peer"), metric, *bound, &PEERS)
            }));
        }
    }
    Group { title, jobs }
}
