//! `quaver core policies`: what each mechanism of the core model buys each policy.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets};
use quaver_sim::{Options, Scenario};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use serde::Serialize;

use crate::output::{self, Target};

/// Say what each mechanism of the core model buys each policy, in simulation
///
/// A server of 8 workers with the costs of Aspen's runtime: GETs of 1.2 us beside 0.5 % of SCANs of
/// 580 us. Mechanisms are entries of the simulator's costs.toml; `quaver core costs` says where
/// those of the model come from.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Percent of what the workers can serve
    #[arg(long, value_name = "PERCENT", default_value_t = 80,
          value_parser = clap::value_parser!(u32).range(1..=95))]
    load: u32,
    /// Requests of each simulation
    #[arg(long, default_value_t = 200_000,
          value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    requests: u32,
    /// Write the rows as JSON to FILE (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

const POLICIES: [&str; 6] = ["two-queue", "las", "rr", "ws", "cfs", "eevdf"];
const MECHANISMS: [&str; 5] =
    ["none", "core-uipi", "core-tracked", "core-kb-timer", "core-kb-timer-renamed"];

/// One simulation.
#[derive(Serialize)]
struct Row {
    policy: String,
    mechanism: &'static str,
    get_p99_us: f64,
    scan_p50_us: f64,
    /// What the workers spend on the runtime and on interrupts.
    overhead_percent: f64,
    /// The queue grew all the time: the latencies depend on the number of requests.
    unstable: bool,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    load_percent: u32,
    requests: u32,
    rows: Vec<Row>,
}

/// Simulates them.
///
/// # Errors
///
/// The file cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.json.as_ref().map_or(Ok(()), Target::check)?;
    let all: Vec<_> =
        POLICIES.iter().flat_map(|p| MECHANISMS.iter().map(move |m| (*p, *m))).collect();
    let rows: Result<Vec<Row>> =
        all.into_par_iter().map(|(policy, mechanism)| row(policy, mechanism, args)).collect();
    let rows = rows?;
    if args.json != Some(Target::Stdout) {
        output::print(&table(&rows, args.load))?;
    }
    if let Some(target) = &args.json {
        let version = env!("CARGO_PKG_VERSION");
        let Args { load: load_percent, requests, .. } = *args;
        target.write_json(&Report { version, load_percent, requests, rows })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A server under a policy with its usual quantum: 5 us, and what a fair one has by itself.
fn scenario(policy: &str, mechanism: &str, args: &Args) -> Result<Scenario> {
    let quantum = if matches!(policy, "cfs" | "eevdf") { "" } else { ":quantum=5us" };
    let text = format!(
        "[load]\nmix = \"get:99.5%:fixed=1.2us,scan:0.5%:fixed=580us\"\nload = {}\n\
         requests = {}\n[server]\nworkers = 8\npolicy = \"{policy}{quantum}\"\n\
         mechanism = \"{mechanism}\"\nsystem = \"aspen-kb\"\n",
        f64::from(args.load) / 100.0,
        args.requests
    );
    text.parse().with_context(|| format!("{policy}, {mechanism}"))
}

fn row(policy: &str, mechanism: &'static str, args: &Args) -> Result<Row> {
    let scenario = scenario(policy, mechanism, args)?;
    let (outcome, _) = quaver_sim::simulate(&scenario, scenario.rates()?[0], &Options::default())?;
    let latency = |name: &str| outcome.class(name).and_then(|class| class.latency_us.as_ref());
    let (get, scan) = latency("get").zip(latency("scan")).context("a class has no requests")?;
    let overhead: f64 = outcome.workers.iter().map(|worker| worker.overhead).sum();
    Ok(Row {
        policy: scenario.server.policy.to_string(),
        mechanism,
        get_p99_us: get.p99,
        scan_p50_us: scan.p50,
        overhead_percent: 100.0 * overhead / outcome.workers.len() as f64,
        unstable: outcome.unstable,
    })
}

fn table(rows: &[Row], load: u32) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut head = vec!["policy"];
    head.extend(MECHANISMS);
    table.set_header(head);
    for of in rows.chunks(MECHANISMS.len()) {
        let mut cells = vec![of[0].policy.clone()];
        cells.extend(of.iter().map(|row| {
            let mark = if row.unstable { "*" } else { "" };
            format!(
                "{:.1}/{:.0}/{:.1}{mark}",
                row.get_p99_us, row.scan_p50_us, row.overhead_percent
            )
        }));
        table.add_row(cells);
    }
    for column in 1..=MECHANISMS.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let unstable = if rows.iter().any(|row| row.unstable) {
        "*: the queue grows without bound, so that the latency depends on the requests alone\n"
    } else {
        ""
    };
    format!(
        "8 workers at {load} %: GET p99 in us/SCAN p50 in us/overhead of the workers in percent\n\n\
         {table}\n\n{unstable}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cheaper interrupt is never worse for the workers, under any policy that preempts.
    #[test]
    fn cheaper_interrupts_cost_the_workers_less() {
        let args = Args { load: 60, requests: 20_000, json: None };
        for policy in POLICIES {
            let [uipi, tracked] =
                ["core-uipi", "core-tracked"].map(|m| row(policy, m, &args).unwrap());
            assert!(uipi.overhead_percent > tracked.overhead_percent, "{policy}");
            assert!(tracked.get_p99_us < 1.05 * uipi.get_p99_us, "{policy}");
        }
    }
}
