//! The same requests in simulation and on the real runtime, with one worker.
//!
//! ```text
//! prices ──> quantum, mix ──> for each load and round:  schedule ──> real ───> percentiles ──> measured
//!    │                                                     │          │stops
//!    └─────────────────────────────────────────────────────┴──────> model ──> percentiles ──> simulated
//! ```
//!
//! * [`prices`]: what a request, a wake-up and a preemption cost on this machine, now.
//! * [`real`]: a client on one CPU offers requests at Poisson times, and notes when it has really sent them; each is a user thread
//!   on the worker's CPU that runs a loop of calibrated length, so that being preempted does not shorten its work.
//! * [`model`]: the simulator gets the same requests at the same times, at these prices. What is compared is therefore the model, not
//!   the luck of two draws.
//! * [`stops`]: what the kernel, or the host of a virtual machine, took from the worker in a round is told to the simulator, stop
//!   by stop; the requests themselves see it.
//! * [`lateness`]: so is how late preemptions came in that round.
//! * [`turns`]: how user threads see their turns.
//!
//! Quantum and requests are in proportion to the price of a preemption, which differs tenfold between machines: a model near saturation
//! says nothing where a fifth of the worker's time goes into preemptions. Each load is offered in several rounds; the medians of the
//! rounds' percentiles are compared, so that a round that the machine disturbed does not count.

pub mod lateness;
pub mod model;
pub mod prices;
pub mod real;
pub mod stops;
pub mod turns;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use quaver_load::{ArrivalProcess, Limit, Mix, Schedule};
use serde::Serialize;

use self::lateness::Lateness;
use self::model::Facts;
use self::prices::Prices;
use self::real::{Answer, Speed, on_client};
use self::stops::{Stops, Witness};
use super::Args;
use crate::affinity;
use crate::bench::busy;
use crate::noise::Noise;
use crate::output::{self, Target};

const LOADS: [u32; 4] = [30, 50, 70, 80];
/// An odd number of rounds has a median.
const ROUNDS: u64 = 3;
/// How many preemptions cost as much as a quantum.
const QUANTUM_PRICES: u32 = 25;
const QUANTA: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(1)];
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
    /// Microseconds: the median of the rounds.
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
    /// What stopped the worker while it served.
    pub stops: stops::Summary,
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
    policy: &'a str,
    mix: &'a str,
    clock: &'a str,
    prices: &'a Prices,
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
    let span = Duration::from_millis(if args.quick { 400 } else { 8_000 });
    let busy = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| busy(&text));
    let before = [Noise::watch(client, LISTEN)?, Noise::watch(worker, LISTEN)?];
    let (prices, speed) = Prices::measure(client, worker)?;
    let quantum = quantum(&prices);
    let mix = mix(quantum);
    let policy = format!("two-queue:quantum={}us", quantum.as_micros());
    let runtime = runtime(&policy, worker)?;
    let quantum_ns = quantum.as_nanos() as u64;
    let real = Real { runtime, client, speed, span, mix, quantum_ns };
    let clock = real.runtime.clock().to_string();
    let facts = Facts { policy, clock, prices };
    let mut rows = Vec::new();
    let mut stops = Stops::default();
    for load in LOADS {
        let rounds = real.rounds(load, &facts.prices)?;
        stops = rounds.iter().fold(stops, |sum, round| sum.and(&round.stops));
        rows.extend(compare(load, &rounds, &facts)?);
    }
    let machine = Machine {
        client_cpu: client,
        worker_cpu: worker,
        client_noise: before[0].and(Noise::watch(client, LISTEN)?),
        worker_noise: before[1].and(Noise::watch(worker, LISTEN)?),
        calibration_spread_percent: speed.spread_percent,
        stops: stops.summary(),
    };
    let mut warnings = machine.warnings(busy);
    let missing = LOADS.len() * 4 - rows.len();
    if missing > 0 {
        warnings
            .push(format!("{missing} rows are missing: nothing of the class was served in time"));
    }
    let document = Document {
        version: env!("CARGO_PKG_VERSION"),
        policy: &facts.policy,
        mix: &real.mix,
        clock: &facts.clock,
        prices: &facts.prices,
        machine: &machine,
        noisy: !warnings.is_empty(),
        warnings: &warnings,
        rows: &rows,
    };
    if let Some(target) = &args.json {
        target.write_json(&document)?;
    }
    if args.json == Some(Target::Stdout) {
        warnings.iter().for_each(|warning| eprintln!("quaver sim: beware: {warning}"));
    } else {
        output::print(&text(&document))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// So long that preemptions cost little of it.
fn quantum(prices: &Prices) -> Duration {
    let wanted = QUANTUM_PRICES * Duration::from_nanos(prices.preemption_ns);
    // In steps of 50 us, so that runs can be compared.
    let steps = wanted.as_micros().div_ceil(50) as u64;
    Duration::from_micros(steps * 50).clamp(QUANTA[0], QUANTA[1])
}

/// Short requests that need a part of a quantum, and some that need several.
fn mix(quantum: Duration) -> String {
    let us = quantum.as_micros();
    format!("short:95%:fixed={}us,long:5%:fixed={}us", us / 5, 4 * us)
}

/// A runtime with one worker on this CPU.
fn runtime(policy: &str, worker: usize) -> Result<quaver::Runtime> {
    let builder = quaver::Builder::new().workers(1).cpus(vec![worker]).policy_str(policy);
    builder.build().context("cannot build the runtime")
}

/// What serves.
struct Real {
    runtime: quaver::Runtime,
    client: usize,
    speed: Speed,
    span: Duration,
    mix: String,
    quantum_ns: u64,
}

/// What was offered in a round, and what came of it.
struct Round {
    classes: Vec<String>,
    answers: Vec<Answer>,
    stops: Stops,
    /// With the lateness of this round.
    prices: Prices,
}

impl Round {
    /// The latencies of a class at 50 and 99 percent, in nanoseconds; `None` if there were no such requests. They count from
    /// when requests were sent, as in the simulation: a client that is late is not the worker's fault.
    fn percentiles(&self, class: &str) -> Option<[u64; 2]> {
        let class = self.classes.iter().position(|name| name == class)?;
        let of_class = |a: &&Answer| a.request.class as usize == class && !a.request.warm_up;
        let mut all: Vec<_> =
            self.answers.iter().filter(of_class).map(|answer| answer.latency_ns).collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| [50, 99].map(|percent| all[all.len() * percent / 100]))
    }
}

impl Real {
    fn rounds(&self, load: u32, prices: &Prices) -> Result<Vec<Round>> {
        (0..ROUNDS).map(|round| self.round(load, round, prices)).collect()
    }

    fn round(&self, load: u32, round: u64, prices: &Prices) -> Result<Round> {
        let mix: Mix = self.mix.parse().expect("the mix is well-formed");
        let capacity = mix.capacity(1).expect("all classes have service times");
        let rate = capacity * f64::from(load) / 100.0;
        let limit = Limit::Duration(self.span);
        let seed = u64::from(load) + 1_000 * round;
        let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, limit, seed)?;
        let schedule = schedule.warm_up(self.span / 10);
        let witness = Arc::new(Witness::default());
        let Real { runtime, client, speed, span, .. } = self;
        let served = real::serve(runtime, &schedule, *client, *speed, *span, Some(&witness))?;
        let classes = schedule.classes().to_vec();
        let stops = witness.stops(served.start, prices);
        let preempted = witness.preempted(served.start);
        let late = Lateness::of(&preempted, self.quantum_ns, &served.answers, &stops);
        let prices = late.in_place_of(prices);
        Ok(Round { classes, answers: served.answers, stops, prices })
    }
}

/// The rows of one load: of each class that was served on both sides.
fn compare(load: u32, rounds: &[Round], facts: &Facts) -> Result<Vec<Row>> {
    let simulate = |round: &Round| {
        let requests: Vec<_> = round.answers.iter().map(|answer| answer.request).collect();
        let facts = Facts { prices: round.prices.clone(), ..facts.clone() };
        model::run(&round.classes, &requests, &round.stops, &facts)
    };
    let simulated: Result<Vec<_>> = rounds.iter().map(simulate).collect();
    let simulated = simulated?;
    let mut rows = Vec::new();
    for class in ["short", "long"] {
        let real: Vec<_> = rounds.iter().filter_map(|round| round.percentiles(class)).collect();
        let model = simulated.iter().flat_map(|outcome| &outcome.classes);
        let model = model.filter(|c| c.name == class).filter_map(|c| c.latency_us);
        let model: Vec<_> = model.map(|l| [l.p50, l.p99].map(|us| (us * 1e3) as u64)).collect();
        for (i, percentile) in ["p50", "p99"].into_iter().enumerate() {
            let of = |rounds: &[[u64; 2]]| median(rounds.iter().map(|round| round[i]));
            let (Some(simulated), Some(measured)) = (of(&model), of(&real)) else { continue };
            let [simulated_us, measured_us] = [simulated, measured].map(|ns| ns as f64 / 1e3);
            let (class, ratio) = (class.to_owned(), simulated_us / measured_us);
            rows.push(Row {
                load_percent: load,
                class,
                percentile,
                simulated_us,
                measured_us,
                ratio,
            });
        }
    }
    Ok(rows)
}

/// The middle value; the higher of the two in the middle.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn text(document: &Document) -> String {
    let Document { policy, mix, clock, prices, rows, warnings, machine, .. } = document;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["load", "class", "percentile", "simulated, us", "measured, us", "ratio"]);
    for row in *rows {
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
    let stops::Summary { per_second, percent, longest_us } = machine.stops;
    let Prices { request_ns, send_ns, preemption_ns, late_ns, start_ns, .. } = **prices;
    let [request, send, preemption, late, start] =
        [request_ns, send_ns, preemption_ns, late_ns, start_ns].map(|ns| ns as f64 / 1e3);
    format!(
        "{mix} under {policy}, one worker, clock {clock}\n\
         Measured first: {start:.1} us from the client to a sleeping worker, {send:.1} to one that works; {request:.1} for each \
         request, {preemption:.1} for each preemption, which comes {late:.1} late (median).\n\
         While it served, the worker was stopped {per_second:.0} times a second, {percent:.2} % of the time, for {longest_us:.0} us at the \
         longest.\n\n\
         {table}\n\n{within} of {} within 15 %\n{beware}",
        rows.len()
    )
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
    fn a_quantum_is_long_beside_a_preemption() {
        let at = |preemption_ns| {
            let prices = Prices { preemption_ns, ..Prices::none() };
            quantum(&prices).as_micros()
        };
        assert_eq!([at(0), at(6_100), at(19_000), at(1_000_000)], [100, 200, 500, 1000]);
        assert_eq!(mix(QUANTA[0]), "short:95%:fixed=20us,long:5%:fixed=400us");
        assert!(mix(QUANTA[1]).parse::<Mix>().is_ok());
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
            stops: stops::Summary::default(),
        };
        assert!(machine(0, quiet, 0.5).warnings(None).is_empty());
        let all = machine(1, noisy, 12.0).warnings(Some("the machine was busy".into())).join("\n");
        for part in ["was busy", "CPU 1 for more than 50", "share CPU 1", "varied by 12 %"] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
