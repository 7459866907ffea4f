//! `quaver demo`: GETs of a microsecond beside SCANs of hundreds, without and with preemption.
//!
//! The steps, each in a module of its own:
//!
//! 1. [`args`]: what is asked for; [`placement`]: which CPUs the workers and the client get.
//! 2. [`quaver_bench_common::store`]: the key-value store is loaded; [`calibrate`]: how long its
//!    requests take by themselves. 100 % load is what keeps all workers busy: workers / mean
//!    service time of the mix.
//! 3. [`sweep`]: rounds over modes over loads; [`serve`]: one run; [`disturbed`]: which are
//!    repeated.
//! 4. [`results`], [`summary`]: what was found; [`table`], [`report`]: how it is shown.
//!
//! Whether the results can be written and the runtimes built is found out before anything is
//! measured. Ctrl-C or SIGTERM ends the current run, prints what has been measured, writes no
//! report, and exits with 130 or 143.

pub mod args;
pub mod calibrate;
pub mod disturbed;
pub mod placement;
mod plan;
pub mod report;
pub mod results;
pub mod serve;
pub mod summary;
pub mod sweep;
pub mod table;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

pub use args::Args;

use crate::chart;
use crate::interrupt::{Interrupt, Signal};
use crate::output::{self, Directory, Target};
use crate::parse::duration;
use calibrate::ScanSize;
use plan::Plan;
use quaver_bench_common::noise::Noise;
use quaver_bench_common::store::Store;
use sweep::Outcome;

/// How long the machine is watched before and after the runs.
const LISTEN: Duration = Duration::from_millis(500);

/// Runs the demo.
///
/// # Errors
///
/// A setting cannot be used, the store gives a wrong answer, or results cannot be written. Messages
/// say what to change.
pub fn run(args: &Args) -> Result<ExitCode> {
    let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
    let plan = Plan::make(args)?;
    if let Some(target) = &args.json {
        target.check()?;
    }
    let directory = Directory::prepare(&args.out)?;
    let finished = measure_and_write(args, &plan, &interrupt, &directory);
    if !matches!(finished, Ok(ExitCode::SUCCESS)) {
        directory.discard();
    }
    finished
}

fn measure_and_write(
    args: &Args,
    plan: &Plan,
    interrupt: &Interrupt,
    directory: &Directory,
) -> Result<ExitCode> {
    let bar = ProgressBar::new_spinner();
    let style = "{spinner} {elapsed} {wide_bar} {percent:>3}% {msg} ";
    bar.set_style(ProgressStyle::with_template(style).expect("the style is well-formed"));

    bar.set_message("loading the store");
    bar.tick();
    let stopped = |signal: Signal, when: &str| {
        eprintln!("quaver demo: stopped by {} {when}; no report was written", signal.name());
        Ok(ExitCode::from(signal.exit_code()))
    };
    let go_on = || interrupt.raised().is_none();
    let store = Store::load_while(args.keys, args.seed, go_on)?.map(Arc::new);
    if let (None, Some(signal)) = (&store, interrupt.raised()) {
        return stopped(signal, "while loading the store");
    }
    let store = store.context("the loading was stopped")?;
    bar.set_message("calibrating");
    bar.tick();
    let cpu = plan.placement.workers[0];
    let scan = args.scan_keys.map_or(ScanSize::Time(args.scan_time), ScanSize::Keys);
    let services = calibrate::calibrate(&store, &plan.placement.workers, args.get_keys, scan)?;
    let sweep = plan.sweep(args, store, services);
    bar.set_message("listening to the machine");
    bar.tick();
    let noise_before = Noise::watch(cpu, LISTEN)?;

    bar.set_length(sweep.runs() as u64);
    if bar.is_hidden() {
        let seconds = sweep.planned().as_secs_f64().ceil();
        let runs = sweep.runs();
        eprintln!(
            "quaver demo: {runs} runs, about {seconds} s, or twice that if they are disturbed"
        );
    }
    let outcome = sweep.measure(interrupt, |mode, load, again| {
        let what = if again { ", again: the machine disturbed it" } else { "" };
        bar.set_message(format!("{}, {:.0} % load{what}", mode.name(), load * 100.0));
        bar.inc_length(again.into());
        bar.tick();
        bar.inc(1);
    });
    bar.finish_and_clear();
    let Outcome { measurements, interrupted } = outcome?;

    let (rows, loads) = sweep::evaluate(&measurements, sweep.rounds, args.slo)?;
    let noise = noise_before.and(Noise::watch(cpu, LISTEN)?);
    let report = plan.report(args, &sweep, noise, rows, loads);
    let human = text(&report, args.slo);
    if let Some(signal) = interrupted {
        let (done, all) = (measurements.len(), bar.length().unwrap_or_default());
        if done > 0 && args.json != Some(Target::Stdout) {
            output::print(&human)?;
        }
        return stopped(signal, &format!("after {done} of {all} runs"));
    }

    let charts = report::charts(&report)?;
    let page = directory.join("report.html");
    output::write_file(&page, report::render(&report, &charts).as_bytes())?;
    for (name, chart) in &charts {
        let path = directory.join(&format!("{name}.svg"));
        output::write_file(&path, chart::standalone(chart).as_bytes())?;
    }
    let json = directory.join("report.json");
    Target::File(json.clone()).write_json(&report)?;
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    if args.json != Some(Target::Stdout) {
        output::print(&human)?;
        output::print(&format!("{}\n{}\n", page.display(), json.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What people see.
fn text(report: &results::Report, slo: Duration) -> String {
    let results::Report { settings, services, .. } = report;
    let mut text = format!(
        "{} of GETs ({}) and SCANs ({}, {} rows) for {} worker(s): 100 % load is {:.0} \
         requests/s.\n\
         Policy {}, clock {}. \u{2713} marks GET p99 within {}.\n\n",
        settings.mix,
        table::time(services.get_ns / 1e3),
        table::time(services.scan_ns / 1e3),
        services.scan_keys,
        settings.workers,
        report.capacity_rps,
        settings.policy,
        settings.clock,
        duration::format(slo),
    );
    for chosen in [&report.summary.chosen, &report.summary.probe_chosen].into_iter().flatten() {
        let results::Chosen { notification, quantum_us, why, .. } = chosen;
        text += &format!("Notification {notification}, quantum {quantum_us:.0} us: {why}.\n");
    }
    text.push('\n');
    text += &table::render(&report.rows, settings.slo_us);
    if let Some(crowded) = report.machine.crowded {
        text += &format!("\nBeware: {crowded}, which disturbs the latencies.\n");
    }
    let disturbed = report.rows.iter().filter(|row| row.is_marked()).count();
    if disturbed > 0 {
        text += &format!(
            "\n~ marks the {disturbed} of {} rows with disturbed rounds, though loads were \
             repeated: something else ran on the CPUs of client or workers.\n",
            report.rows.len()
        );
    }
    if let Some(noise) = report.machine.noise.warning(report.machine.worker_cpus[0]) {
        text += &format!("\nBeware: {noise}.\n");
    }
    text += &format!("\n{}\n", report.summary.verdict);
    text
}
