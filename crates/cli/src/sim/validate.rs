//! The same load in simulation and on the real runtime, with one worker.
//!
//! The real side: a client on one CPU offers requests at Poisson times; each is a user thread on the worker's CPU that runs
//! a loop of calibrated length, so that being preempted does not shorten its work. The simulated side gets the same
//! requests and the costs of the entry for this machine's mechanism. What lies between the client and the worker costs the
//! same for every request; it is taken from the real median at low load and added to the simulated latencies.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use quaver_load::{
    ArrivalProcess, Clock as _, Limit, Mix, OpenLoop, RealClock, Recorder, Schedule, Sent,
    reduce_timer_slack,
};
use quaver_sim::{Options, Scenario, simulate};
use serde::Serialize;

use super::Args;
use crate::affinity;
use crate::output::{self, Target};

const MIX: &str = "short:95%:fixed=20us,long:5%:fixed=400us";
const POLICY: &str = "two-queue:quantum=100us";
const LOADS: [u32; 4] = [30, 50, 70, 80];
/// For what lies between client and worker.
const LOW_LOAD: u32 = 10;

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Offered load in percent.
    pub load_percent: u32,
    /// The class.
    pub class: String,
    /// `p50` or `p99`.
    pub percentile: &'static str,
    /// Microseconds.
    pub simulated_us: f64,
    /// Microseconds.
    pub measured_us: f64,
    /// Simulated divided by measured.
    pub ratio: f64,
}

#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    policy: &'static str,
    mix: &'static str,
    clock: String,
    offset_us: f64,
    rows: &'a [Row],
}

/// Runs both and compares.
///
/// # Errors
///
/// The runtime cannot be built, CPUs cannot be used, or results cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    let cpus = affinity::allowed().context("cannot read the usable CPUs")?;
    let (client, worker) = (cpus[0], cpus[cpus.len() - 1]);
    let span = Duration::from_millis(if args.quick { 400 } else { 4_000 });
    let mix: Mix = MIX.parse().expect("the mix is well-formed");
    let runtime = quaver::Builder::new()
        .workers(1)
        .cpus(vec![worker])
        .policy_str(POLICY)
        .build()
        .context("cannot build the runtime")?;
    let clock = runtime.clock().to_string();
    let per_us = runtime.run(calibrate);
    let measure = |load: u32| -> Result<quaver_load::Summary> {
        let rate =
            mix.capacity(1).expect("all classes have service times") * f64::from(load) / 100.0;
        let schedule = Schedule::new(
            ArrivalProcess::Poisson,
            rate,
            &mix,
            Limit::Duration(span),
            u64::from(load),
        )?
        .warm_up(span / 10);
        serve(&runtime, &schedule, client, per_us, span)
    };
    let low = measure(LOW_LOAD)?;
    let short =
        low.class("short").and_then(|class| class.latency_ns).context("nothing was served")?;
    let offset = (short.p50.value as f64 / 1e3 - 20.0).max(0.0);
    let mut rows = Vec::new();
    for load in LOADS {
        let measured = measure(load)?;
        let simulated = model(load, span, &clock, offset, args)?;
        for class in &measured.classes {
            let Some(latency) = class.latency_ns else { continue };
            let model = simulated.class(&class.name).and_then(|class| class.latency_us);
            let Some(model) = model else { continue };
            for (percentile, measured, simulated) in
                [("p50", latency.p50.value, model.p50), ("p99", latency.p99.value, model.p99)]
            {
                let measured_us = measured as f64 / 1e3;
                rows.push(Row {
                    load_percent: load,
                    class: class.name.clone(),
                    percentile,
                    simulated_us: simulated,
                    measured_us,
                    ratio: simulated / measured_us,
                });
            }
        }
    }
    if let Some(target) = &args.json {
        let version = env!("CARGO_PKG_VERSION");
        let document = Document {
            version,
            policy: POLICY,
            mix: MIX,
            clock: clock.clone(),
            offset_us: offset,
            rows: &rows,
        };
        target.write_json(&document)?;
    }
    if args.json != Some(Target::Stdout) {
        output::print(&text(&rows, &clock, offset))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(rows: &[Row], clock: &str, offset: f64) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["load", "class", "percentile", "simulated, us", "measured, us", "ratio"]);
    for row in rows {
        table.add_row([
            format!("{} %", row.load_percent),
            row.class.clone(),
            row.percentile.into(),
            format!("{:.1}", row.simulated_us),
            format!("{:.1}", row.measured_us),
            format!("{:.2}", row.ratio),
        ]);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let within = rows.iter().filter(|row| (row.ratio - 1.0).abs() <= 0.15).count();
    format!(
        "{MIX} under {POLICY}, one worker, clock {clock}; {offset:.1} us between client and worker\n\n{table}\n\n{within} of {} within 15 %\n",
        rows.len()
    )
}

/// The simulation of one load.
fn model(
    load: u32,
    span: Duration,
    clock: &str,
    offset: f64,
    args: &Args,
) -> Result<quaver_sim::Outcome> {
    let mechanism = match clock {
        "posix-timer" => "quaver-posix-timer",
        _ => "quaver-signal",
    };
    let text = format!(
        "seed = {load}\n[load]\nmix = \"{MIX}\"\nload = {}\nrequests = {}\nnetwork = \"{}ns\"\n[server]\nworkers = 1\npolicy = \"{POLICY}\"\n\
         mechanism = \"{mechanism}\"\nsystem = \"quaver\"\n",
        f64::from(load) / 100.0,
        // Long enough that its own chance does not matter.
        if args.quick { 100_000 } else { (span.as_micros() as u64).max(400_000) },
        (offset * 1e3) as u64,
    );
    let scenario: Scenario = text.parse()?;
    let rate = scenario.rates()?[0];
    Ok(simulate(&scenario, rate, &Options::default())?.0)
}

/// Turns of [`turn`] in a microsecond, on the worker: the fastest of several tries.
fn calibrate() -> f64 {
    let turns = 200_000u64;
    let time = |_| {
        let start = Instant::now();
        turn(turns);
        start.elapsed().as_nanos() as f64 / 1e3
    };
    turns as f64 / (0..30).map(time).fold(f64::INFINITY, f64::min)
}

fn turn(turns: u64) {
    let mut x = turns;
    for _ in 0..turns {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
    }
}

/// Offers the schedule to the real runtime.
fn serve(
    runtime: &quaver::Runtime,
    schedule: &Schedule,
    client: usize,
    per_us: f64,
    span: Duration,
) -> Result<quaver_load::Summary> {
    let recorder = Arc::new(Recorder::for_schedule(schedule)?);
    let clock = RealClock::with_spin_ns(200_000);
    let handle = runtime.handle();
    let offer = || -> Result<quaver_load::Summary> {
        affinity::pin(&[client]).with_context(|| format!("the client cannot use CPU {client}"))?;
        reduce_timer_slack().context("cannot make the client's sleeps exact")?;
        let outcome = OpenLoop::new(&recorder)
            .max_outstanding(20_000)
            .time_limit(2 * span + Duration::from_secs(1))
            .grace(Duration::from_secs(2))
            .run(schedule, &clock, |request| {
                let (recorder, request) = (Arc::clone(&recorder), *request);
                let serve = move || {
                    turn((request.service_ns as f64 / 1e3 * per_us) as u64);
                    let _ = recorder.complete(request.id, clock.now_ns());
                };
                match handle.spawn_detached(serve) {
                    Ok(()) => Sent::Accepted,
                    Err(_) => Sent::Refused,
                }
            });
        Ok(outcome.summary(&recorder))
    };
    std::thread::scope(|scope| {
        let client = std::thread::Builder::new().name("client".into());
        let client = client.spawn_scoped(scope, offer).context("cannot start the client")?;
        client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
