//! `quaver plan`: the least cores, with policy, quantum and mechanism, that meet an objective in
//! simulation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use quaver_sim::Scenario;
use quaver_sim::plan::{Candidate, Found, Tried};

use crate::output::{self, Target};

/// Find the smallest server that meets an objective, in simulation
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// A scenario that has a table `plan`; docs/simulator.md explains its keys
    pub scenario: PathBuf,
    /// Write everything that was tried as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<Target>,
}

/// Runs the command. The exit code is 2 if nothing meets the objective.
///
/// # Errors
///
/// The scenario cannot be used or results cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(target) = &args.json {
        target.check()?;
    }
    let scenario = Scenario::open(&args.scenario)?;
    let bar = ProgressBar::new_spinner();
    let found = quaver_sim::plan::plan(&scenario, |cores| {
        bar.set_message(format!("{cores} cores tried"));
        bar.tick();
    });
    bar.finish_and_clear();
    let found = found?;
    if let Some(target) = &args.json {
        target.write_json(&found)?;
    }
    if args.json != Some(Target::Stdout) {
        output::print(&text(&found))?;
    }
    Ok(if found.best.is_some() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn text(found: &Found) -> String {
    let head = format!("{} at {:.0} requests/s\n\n", found.slo.join(", "), found.rate);
    if !found.impossible.is_empty() {
        return format!("{head}No server can meet {}.\n", found.impossible.join("; "));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["cores", "workers", "mechanism", "policy", "of the limit"]);
    // For each number of cores and mechanism the best policy: the curve that shows why.
    let mut curve: BTreeMap<(usize, &str), &Tried> = BTreeMap::new();
    let ratio = |tried: &Tried| tried.ratio.unwrap_or(f64::INFINITY);
    for tried in &found.tried {
        let key = (tried.candidate.cores, tried.candidate.mechanism.as_str());
        let best = curve.entry(key).or_insert(tried);
        if ratio(tried) < ratio(best) {
            *best = tried;
        }
    }
    for tried in curve.values() {
        let candidate = &tried.candidate;
        table.add_row([
            candidate.cores.to_string(),
            candidate.workers.to_string(),
            candidate.mechanism.clone(),
            candidate.policy.clone(),
            tried.ratio.map_or("cannot follow".into(), |ratio| format!("{:.0} %", ratio * 100.0)),
        ]);
    }
    for column in [0, 1, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let verdict = match &found.best {
        Some(best) => format!(
            "{} core(s): {} worker(s), {}, mechanism {}",
            best.candidate.cores,
            best.candidate.workers,
            best.candidate.policy,
            best.candidate.mechanism
        ),
        None => "Nothing that was tried meets the objective; raise `max-cores`, or offer other \
                 policies or mechanisms"
            .into(),
    };
    format!("{head}{table}\n\n{verdict}\n{}", each(found))
}

/// The smallest server with each mechanism, and what the smallest of all saves beside it.
fn each(found: &Found) -> String {
    let mut text = String::new();
    let Some(best) = &found.best else { return text };
    for tried in &found.each {
        let Candidate { cores, workers, mechanism, policy } = &tried.candidate;
        let more = match cores - best.candidate.cores {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        text += &format!("  {mechanism}: {cores} core(s){more}: {workers} worker(s), {policy}\n");
    }
    text
}
