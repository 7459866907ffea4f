//! axum with a page that is there at once, and one for which a handler computes for 10 ms without
//! giving way.
//!
//! tokio's remedy is more worker threads, between which the kernel shares the CPUs. Under `quaver
//! run` these threads are user threads; in the library each connection is served by one of several
//! runtimes of tokio, which are user threads, too.

use std::time::Duration;

use quaver_bench_common::compute::scalar_iterations;
use quaver_bench_common::spec::{ServeSpec, Service};

use super::measure::{Load, NetSpec, P50_US, P99_US, PER_S, SERVER_PERCENT, metric};
use super::servers::Servers;
use crate::bench::context::{Context, Task};
use crate::bench::plan::{Aim, Bound, Group, Plan, Reading};

const FAST: usize = 8;
const SLOW: usize = 4;
const SLOW_NS: u64 = 10_000_000;
const CPUS: usize = 2;
/// Threads of tokio: as many as CPUs, and enough for all clients.
const FEW: u32 = CPUS as u32;
const MANY: u32 = 16;
const QUANTA: [&str; 2] = ["auto", "200us"];
const TOKIO: &str = "tokio-multi-thread";

/// The group.
pub fn plan(context: &Context) -> Plan {
    let place = &context.place;
    let serve = ServeSpec {
        service: Service::Http,
        threads: MANY,
        iterations: scalar_iterations(SLOW_NS),
        compute_ns: SLOW_NS,
    };
    let mut servers = Servers::new(context, serve, &place.all[..CPUS]);
    let [few, many] = [FEW, MANY].map(|threads| format!("tokio {threads} threads"));
    servers.peer(TOKIO, &few, FEW);
    servers.peer(TOKIO, &many, MANY);
    for quantum in QUANTA {
        let [run, library] = ["run", "library"].map(|how| format!("quaver {how} {quantum} {many}"));
        servers.run(TOKIO, &run, MANY, quantum);
        servers.library(&library, MANY, quantum);
    }
    let spec = NetSpec {
        server: Vec::new(),
        server_cpus: Vec::new(),
        // Beside the server where there are no others.
        client_cpus: place.all[if place.all.len() > CPUS { CPUS.. } else { 0.. }].to_vec(),
        load: Load::Pages { fast: FAST, slow: SLOW },
        warmup_ms: context.effort.pick(50, 500),
        measure_ms: context.effort.pick(200, 3000),
    };
    let p99 = metric("fast", P99_US);
    let readings = vec![
        Reading::new("pages: fast p50", metric("fast", P50_US), "us"),
        Reading::new("pages: fast p99", &p99, "us"),
        Reading::new("pages: fast", metric("fast", PER_S), "/s"),
        Reading::new("pages: slow", metric("slow", PER_S), "/s"),
        Reading::new("pages: server CPU", SERVER_PERCENT, "%"),
    ];
    let expected = Duration::from_millis(spec.warmup_ms + spec.measure_ms);
    let task = Task { cpus: place.all.clone(), expected, readings };
    let mut jobs = servers.jobs(&spec, &task);
    for job in &mut jobs {
        if job.is_ours() {
            job.aims = [(&few, 0.1), (&many, 0.3)]
                .map(|(tokio, most)| {
                    let row = format!("pages: fast p99 / {tokio}");
                    Aim::new(row, &p99, Bound::AtMost(most), &[tokio])
                })
                .into();
        }
    }
    let group = Group { title: "pages".into(), jobs };
    Plan { groups: vec![group], notes: servers.notes }
}
