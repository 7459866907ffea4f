//! The same load in simulation and on the real runtime, with one worker.
//!
//! The real side ([`real`]): a client on one CPU offers requests at Poisson times; each is a user thread on the worker's CPU
//! that runs a loop of calibrated length, so that being preempted does not shorten its work. Each load is offered in
//! several rounds, and the median of the rounds' percentiles counts, so that a round that the machine disturbed does not.
//! The simulated side gets the same requests and the costs of the entry for this machine's mechanism. What lies between the
//! client and the worker costs the same for every request; it is taken from the real median at low load and added to the
//! simulated latencies.
//!
//! The simulated machine is quiet, the real one may not be: what stops a thread there is measured before and after, and
//! said where it shows.

pub mod real;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use quaver_load::{ArrivalProcess, Limit, Mix, Schedule};
use quaver_sim::{Options, Scenario, simulate};
use serde::Serialize;

use self::real::Speed;
use super::Args;
use crate::affinity;
use crate::bench::busy;
use crate::noise::Noise;
use crate::output::{self, Target};

const MIX: &str = "short:95%:fixed=20us,long:5%:fixed=400us";
const POLICY: &str = "two-queue:quantum=100us";
const LOADS: [u32; 4] = [30, 50, 70, 80];
/// For what lies between client and worker.
const LOW_LOAD: u32 = 10;
/// An odd number of rounds has a median.
const ROUNDS: u64 = 3;
/// How long each CPU is watched for noise, before and after.
const LISTEN: Duration = Duration::from_millis(300);
/// From here on the calibration says something about the machine, in percent.
const UNSTEADY: f64 = 5.0;

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
    /// Microseconds: the median of the rounds.
    pub measured_us: f64,
    /// Simulated divided by measured.
    pub ratio: f64,
}

/// What disturbed the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The client's CPU.
    pub client_cpu: usize,
    /// The worker's CPU.
    pub worker_cpu: usize,
    /// What stops a thread on the client's CPU.
    pub client_noise: Noise,
    /// What stops a thread on the worker's CPU.
    pub worker_noise: Noise,
    /// How much the worker's speed varied during the calibration.
    pub calibration_spread_percent: f64,
}

impl Machine {
    /// Sentences without full stops; `busy` is one more.
    fn warnings(&self, busy: Option<String>) -> Vec<String> {
        let mut warnings: Vec<String> = busy.into_iter().collect();
        warnings.extend(self.worker_noise.warning(self.worker_cpu));
        if self.client_cpu == self.worker_cpu {
            let cpu = self.client_cpu;
            warnings.push(format!("client and worker share CPU {cpu}: the client delays requests"));
        } else {
            warnings.extend(self.client_noise.warning(self.client_cpu));
        }
        if self.calibration_spread_percent > UNSTEADY {
            warnings.push(format!(
                "the speed of CPU {} varied by {:.0} % while it was measured, so real requests are not of the length that \
                 they should be",
                self.worker_cpu, self.calibration_spread_percent
            ));
        }
        warnings
    }
}

#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    policy: &'static str,
    mix: &'static str,
    clock: String,
    offset_us: f64,
    machine: &'a Machine,
    noisy: bool,
    warnings: &'a [String],
    rows: &'a [Row],
}

/// Runs both and compares.
///
/// # Errors
///
/// The runtime cannot be built, CPUs cannot be used, or results cannot be written. A disturbed machine is no error, but a
/// warning.
pub fn run(args: &Args) -> Result<ExitCode> {
    let cpus = affinity::allowed().context("cannot read the usable CPUs")?;
    let (client, worker) = (cpus[0], cpus[cpus.len() - 1]);
    let span = Duration::from_millis(if args.quick { 400 } else { 4_000 });
    let busy = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| busy(&text));
    let before = [Noise::watch(client, LISTEN)?, Noise::watch(worker, LISTEN)?];
    let runtime = quaver::Builder::new()
        .workers(1)
        .cpus(vec![worker])
        .policy_str(POLICY)
        .build()
        .context("cannot build the runtime")?;
    let clock = runtime.clock().to_string();
    let speed = runtime.run(Speed::measure);
    let serve = |load: u32, round: u64| -> Result<quaver_load::Summary> {
        let mix: Mix = MIX.parse().expect("the mix is well-formed");
        let rate =
            mix.capacity(1).expect("all classes have service times") * f64::from(load) / 100.0;
        let limit = Limit::Duration(span);
        let seed = u64::from(load) + 1_000 * round;
        let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, limit, seed)?;
        real::serve(&runtime, &schedule.warm_up(span / 10), client, speed, span)
    };
    let measure =
        |load: u32| (0..ROUNDS).map(|round| serve(load, round)).collect::<Result<Vec<_>>>();
    let offset =
        percentiles(&measure(LOW_LOAD)?, "short").map_or(0.0, |[p50, _]| p50 - 20.0).max(0.0);
    let mut rows = Vec::new();
    for load in LOADS {
        let measured = measure(load)?;
        let simulated = model(load, span, &clock, offset, args)?;
        for class in &simulated.classes {
            let (Some(model), Some(real)) = (class.latency_us, percentiles(&measured, &class.name))
            else {
                continue;
            };
            for (percentile, simulated_us, measured_us) in
                [("p50", model.p50, real[0]), ("p99", model.p99, real[1])]
            {
                rows.push(Row {
                    load_percent: load,
                    class: class.name.clone(),
                    percentile,
                    simulated_us,
                    measured_us,
                    ratio: simulated_us / measured_us,
                });
            }
        }
    }
    let machine = Machine {
        client_cpu: client,
        worker_cpu: worker,
        client_noise: before[0].and(Noise::watch(client, LISTEN)?),
        worker_noise: before[1].and(Noise::watch(worker, LISTEN)?),
        calibration_spread_percent: speed.spread_percent,
    };
    let mut warnings = machine.warnings(busy);
    let missing = LOADS.len() * 4 - rows.len();
    if missing > 0 {
        warnings
            .push(format!("{missing} rows are missing: nothing of the class was served in time"));
    }
    if let Some(target) = &args.json {
        target.write_json(&Document {
            version: env!("CARGO_PKG_VERSION"),
            policy: POLICY,
            mix: MIX,
            clock: clock.clone(),
            offset_us: offset,
            machine: &machine,
            noisy: !warnings.is_empty(),
            warnings: &warnings,
            rows: &rows,
        })?;
    }
    if args.json == Some(Target::Stdout) {
        warnings.iter().for_each(|warning| eprintln!("quaver sim: beware: {warning}"));
    } else {
        output::print(&text(&rows, &clock, offset, &warnings))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Median and 99th percentile of a class in microseconds: each the median of the rounds in which it was served.
fn percentiles(rounds: &[quaver_load::Summary], class: &str) -> Option<[f64; 2]> {
    let of = |round: &quaver_load::Summary| round.class(class)?.latency_ns;
    let latencies: Vec<_> = rounds.iter().filter_map(of).collect();
    let p50 = median(latencies.iter().map(|latency| latency.p50.value));
    let p99 = median(latencies.iter().map(|latency| latency.p99.value));
    Some([p50? as f64 / 1e3, p99? as f64 / 1e3])
}

/// The middle value; the higher of the two in the middle.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn text(rows: &[Row], clock: &str, offset: f64, warnings: &[String]) -> String {
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
    let beware: String = warnings.iter().map(|warning| format!("Beware: {warning}.\n")).collect();
    format!(
        "{MIX} under {POLICY}, one worker, clock {clock}; {offset:.1} us between client and worker\n\n{table}\n\n{within} of {} within 15 %\n{beware}",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_round_does_not_count() {
        assert_eq!(median([21, 900, 20].into_iter()), Some(21));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn what_disturbs_is_said() {
        let quiet = Noise { watched_s: 0.6, stops: 1, lost_percent: 0.05, longest_us: 300.0 };
        let noisy = Noise { watched_s: 0.6, stops: 90, lost_percent: 40.0, longest_us: 4000.0 };
        let machine = |client_cpu, noise, spread| Machine {
            client_cpu,
            worker_cpu: 1,
            client_noise: quiet,
            worker_noise: noise,
            calibration_spread_percent: spread,
        };
        assert!(machine(0, quiet, 0.5).warnings(None).is_empty());
        let all = machine(1, noisy, 12.0).warnings(Some("the machine was busy".into())).join("\n");
        for part in ["was busy", "CPU 1 for more than 50", "share CPU 1", "varied by 12 %"] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
