//! `quaver sim`: a server in simulation, under the policies of the runtime and the costs of any
//! mechanism.
//!
//! A scenario is a TOML file, or given by options. [`args`] reads either; [`table`] and [`page`]
//! show what came out. [`quaver_validate`] runs the same load on the real runtime.

pub mod args;
pub mod page;
pub mod table;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use quaver_sim::{Options, Outcome, Scenario, Window};
use serde::Serialize;

pub use args::Args;

use crate::output::{self, Target};

/// What `--json` writes.
#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    workers: usize,
    policy: String,
    mechanism: &'a str,
    system: &'a str,
    seed: u64,
    events: u64,
    events_per_second: f64,
    outcomes: &'a [Outcome],
}

/// A prediction that fails ends like a plan that finds nothing.
const FAILED: u8 = 2;

/// Predicts the real runtime. The exit code says whether that has passed.
fn validate(args: &Args) -> Result<ExitCode> {
    let report = quaver_validate::validate(args.quick, args.clock)?;
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    if args.json == Some(Target::Stdout) {
        report.warnings().iter().for_each(|warning| eprintln!("quaver sim: beware: {warning}"));
    } else {
        output::print(&report.text())?;
    }
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Runs the command.
///
/// # Errors
///
/// The scenario cannot be used or results cannot be written; messages name line and key, or the
/// file.
pub fn run(args: &Args) -> Result<ExitCode> {
    for target in [&args.json, &args.html, &args.perfetto].into_iter().flatten() {
        target.check()?;
    }
    if args.validate {
        return validate(args);
    }
    let scenario = args.scenario()?;
    let rates = scenario.rates()?;
    warn_of_overload(&scenario, &rates)?;
    let window = args.perfetto.as_ref().map(|_| args.window());
    if window.is_some() && rates.len() > 1 {
        bail!(
            "--perfetto shows one run, but the scenario has {} loads; give one with --load",
            rates.len()
        );
    }
    let options = Options { check: args.check, window };
    let start = Instant::now();
    let outcomes = match window {
        Some(_) => {
            let (outcome, timeline) = quaver_sim::simulate(&scenario, rates[0], &options)?;
            if let Some(target) = &args.perfetto {
                target.write(&timeline.to_perfetto())?;
            }
            vec![outcome]
        }
        None => sweep(&scenario, &rates, &options)?,
    };
    let events: u64 = outcomes.iter().map(|outcome| outcome.counts.events).sum();
    let events_per_second = events as f64 / start.elapsed().as_secs_f64();
    if let Some(target) = &args.html {
        target.write(&page::render(&scenario, &outcomes)?)?;
    }
    if let Some(target) = &args.json {
        target.write_json(&Document {
            version: env!("CARGO_PKG_VERSION"),
            workers: scenario.server.workers,
            policy: scenario.server.policy.to_string(),
            mechanism: &scenario.server.mechanism.name,
            system: &scenario.server.system.name,
            seed: scenario.seed,
            events,
            events_per_second,
            outcomes: &outcomes,
        })?;
    }
    if args.json != Some(Target::Stdout) {
        let head = format!(
            "{} worker(s), {}, mechanism {}, system {}, seed {}\n{:.1} million events a second\n\n",
            scenario.server.workers,
            scenario.server.policy,
            scenario.server.mechanism.name,
            scenario.server.system.name,
            scenario.seed,
            events_per_second / 1e6,
        );
        output::print(&(head + &table::render(&outcomes) + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn warn_of_overload(scenario: &Scenario, rates: &[f64]) -> Result<()> {
    if scenario.schbench.is_some() {
        return Ok(());
    }
    let capacity = scenario.capacity()?;
    let over: Vec<_> = rates.iter().filter(|rate| **rate >= capacity).collect();
    if let Some(rate) = over.first() {
        eprintln!(
            "quaver sim: {rate:.0} requests/s are {:.0} % of what {} worker(s) can serve \
             ({capacity:.0}/s): the queue grows without bound, so the latencies of such loads, \
             marked unstable, depend on the number of requests alone",
            *rate / capacity * 100.0,
            scenario.server.workers,
        );
    }
    Ok(())
}

fn sweep(scenario: &Scenario, rates: &[f64], options: &Options) -> Result<Vec<Outcome>> {
    let bar = ProgressBar::new(rates.len() as u64);
    let style = "{spinner} {elapsed} {wide_bar} {pos}/{len} {msg} ";
    bar.set_style(ProgressStyle::with_template(style).context("the style of the bar")?);
    let events = AtomicU64::new(0);
    let outcomes = quaver_sim::sweep::sweep(scenario, rates, options, |outcome| {
        let all = events.fetch_add(outcome.counts.events, Ordering::Relaxed);
        bar.set_message(format!("{} million events", (all + outcome.counts.events) / 1_000_000));
        bar.inc(1);
    });
    bar.finish_and_clear();
    Ok(outcomes?)
}

impl Args {
    fn window(&self) -> Window {
        let [from, to] = self.window.0;
        Window { from, to }
    }
}
