//! `quaver bench servers`: the highest load that real servers bear while short requests stay fast.
//!
//! The papers' loads over the network: [GET and SCAN, analyses, memcached](workload). Each server
//! has one worker on a CPU of its own; the client of all of them is `quaver-load`, on another CPU.
//!
//! ```text
//! quaver bench servers ──> --child ServicesSpec   once: how long requests take, what a CPU bears
//!                      ──> --child RoundSpec      each round: a server, its loads, the search
//!                            client (quaver-load) ──> quaver serve, at several quanta
//!                                                     quaver-bench-peers, go-peer: tokio, Go
//!                                                     memcached, natively and under quaver run
//! ```
//!
//! # What is measured
//!
//! * *alone*: the median of short requests when no others are sent, as many as there are at 20 %
//!   load. Each server and each round has its own: a machine that is slow today is slow for all.
//! * *load*: the highest load at which the 99th percentile of short requests is at most
//!   [`TIMES_ALONE`](round::TIMES_ALONE) times that. Found by [search](search) over a ladder.
//! * Loads are percents of what one worker could serve if preemption and queues cost nothing: the
//!   mean time of a request, measured without network, and what the network adds to the shortest
//!   one, measured by a flood of them ([`services`]).
//!
//! What `natives` measures is another thing: the CPU time of Debian's servers under `quaver run`.

pub mod natives;
mod offer;
mod programs;
pub mod round;
mod search;
pub mod services;
mod workload;

pub use natives::NativeSpec;
pub use round::RoundSpec;
pub use services::ServicesSpec;

use std::time::Duration;

use self::programs::{Program, Programs, RUN_TO_COMPLETION};
use self::round::{
    ALONE_US, CLIENT_LATE_US, LOAD_PERCENT, LONG_P99_US, RATE, SHORT_P99_US, SLOWDOWN_LOAD_PERCENT,
    TAKEN_PERCENT, at, class_p99_us, class_p999_us,
};
use self::services::Services;
use self::workload::{WORKLOADS, Workload};
use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Aim, Bound, Group, Job, Plan, Reading};

/// What preemption should come to, against servers that run requests to completion.
const AIM: Bound = Bound::AtLeast(1.5);
/// Those that others write.
const PEERS: [&str; 2] = ["tokio", "go"];

/// The jobs of this benchmark.
///
/// # Errors
///
/// When the service times cannot be measured.
pub fn plan(context: &Context) -> anyhow::Result<Plan> {
    let Some(client) = context.place.helper else {
        let note = "servers: left out: server and client take two CPUs".into();
        return Ok(Plan { groups: vec![], notes: vec![note] });
    };
    let (services, notes) = services::find(context)?;
    let mut plan = Plan { groups: Vec::new(), notes };
    for workload in &WORKLOADS {
        let mut programs = Programs::new(context, &services, workload);
        programs.add_all();
        plan.groups.push(group(context, &services, workload, client, &programs.found));
        plan.notes.extend(programs.notes);
    }
    let Plan { groups, notes } = natives::plan(context);
    plan.groups.extend(groups);
    plan.notes.extend(notes);
    Ok(plan)
}

fn group(
    context: &Context,
    services: &Services,
    workload: &Workload,
    client_cpu: usize,
    programs: &[Program],
) -> Group {
    let quick = context.effort.quick;
    let spec = |program: &Program| RoundSpec {
        command: program.command.clone(),
        manner: program.manner,
        server_cpu: context.place.worker,
        client_cpu,
        workload: workload.which,
        per_s: services.capacity(workload),
        loads: ladder(quick),
        shown: shown(quick),
        probe_ms: context.effort.pick(100, workload.probe_ms),
        again: !quick,
    };
    let task = Task {
        cpus: context.place.both(),
        expected: Duration::from_secs(context.effort.pick(10, 30)),
        readings: readings(workload, &shown(quick)),
    };
    let job = |program: &Program| {
        let job = task.job(&program.name, context.child(&Work::ServersRound(spec(program))));
        Job { aims: aims(workload, program), ..job }
    };
    Group { title: workload.name.into(), jobs: programs.iter().map(job).collect() }
}

/// Percents of the capacity, ascending. Low ones, too: without preemption few SCANs are enough to
/// spoil GETs.
fn ladder(quick: bool) -> Vec<u32> {
    if quick {
        return [5, 10].into_iter().chain((20..=120).step_by(10)).collect();
    }
    [2, 5].into_iter().chain((10..=130).step_by(5)).collect()
}

/// Loads whose latencies are shown in any case; `bench/figures` draws them.
fn shown(quick: bool) -> Vec<u32> {
    if quick { vec![40] } else { vec![20, 40, 60, 80] }
}

fn readings(workload: &Workload, shown: &[u32]) -> Vec<Reading> {
    let name = workload.name;
    let mut all = vec![
        Reading::new(format!("{name}: load"), LOAD_PERCENT, "%"),
        Reading::new(format!("{name}: rate at that load"), RATE, "/s"),
        Reading::new(format!("{name}: short p99 at that load"), SHORT_P99_US, "us"),
    ];
    if workload.long.is_some() {
        all.push(Reading::new(format!("{name}: long p99 at that load"), LONG_P99_US, "us"));
    }
    if workload.slowdown {
        let row = format!("{name}: load with p99.9 slowdown <= {}", round::SLOWDOWN);
        all.push(Reading::new(row, SLOWDOWN_LOAD_PERCENT, "%"));
    }
    all.push(Reading::new(format!("{name}: short p50 alone"), ALONE_US, "us"));
    for &load in shown {
        for class in workload.shown_classes() {
            let row = format!("{name} {load}%: {class} p99");
            all.push(Reading::new(row, at(load, &class_p99_us(class)), "us"));
        }
        let class = workload.short[0];
        let row = format!("{name} {load}%: {class} p99.9");
        all.push(Reading::new(row, at(load, &class_p999_us(class)), "us"));
        if workload.slowdown {
            let row = format!("{name} {load}%: p99.9 slowdown");
            all.push(Reading::new(row, at(load, round::SLOWDOWN_P999), "x"));
        }
    }
    all.push(Reading::new(format!("{name}: the client late, p99"), CLIENT_LATE_US, "us"));
    all.push(Reading::new(format!("{name}: taken by others before"), TAKEN_PERCENT, "%"));
    all
}

/// Preemption against running to completion: the same server, and those of others.
fn aims(workload: &Workload, program: &Program) -> Vec<Aim> {
    if !program.preempts || workload.long.is_none() {
        return Vec::new();
    }
    let name = workload.name;
    let mut aims = vec![
        Aim::new(
            format!("{name}: load / run to completion"),
            LOAD_PERCENT,
            AIM,
            &[RUN_TO_COMPLETION],
        ),
        Aim::new(format!("{name}: load / best of tokio and Go"), LOAD_PERCENT, AIM, &PEERS),
    ];
    if workload.slowdown {
        let row =
            format!("{name}: load with p99.9 slowdown <= {} / run to completion", round::SLOWDOWN);
        aims.push(Aim::new(row, SLOWDOWN_LOAD_PERCENT, AIM, &[RUN_TO_COMPLETION]));
    }
    aims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_loads_are_steps_of_ladders_that_ascend() {
        for quick in [true, false] {
            let ladder = ladder(quick);
            assert!(ladder.is_sorted() && ladder[0] > 0);
            assert!(shown(quick).iter().all(|load| ladder.contains(load)));
        }
    }

    #[test]
    fn figures_draw_rows_that_there_are() {
        let rows: Vec<String> = WORKLOADS
            .iter()
            .flat_map(|workload| readings(workload, &shown(false)))
            .map(|reading| reading.row)
            .collect();
        let figures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/figures");
        for figure in ["aspen-05", "aspen-06", "skyloft-08a", "skyloft-08b"] {
            let text = std::fs::read_to_string(figures.join(figure).join("figure.toml")).unwrap();
            let table: toml::Table = text.parse().unwrap();
            let measured = table["measured"].as_array().unwrap();
            let ours: Vec<_> = measured
                .iter()
                .filter(|one| one["benchmark"].as_str() == Some("servers"))
                .collect();
            assert!(!ours.is_empty(), "{figure}");
            for one in ours {
                for at in one["at"].as_array().unwrap() {
                    let row = one["row"].as_str().unwrap().replace("{x}", &at.to_string());
                    assert!(rows.contains(&row), "{figure}: {row}");
                }
            }
        }
    }
}
