//! The same requests in simulation and on the real runtime, with one worker: does the simulator
//! predict what it has not seen?
//!
//! ```text
//! prices ──> cases ──> each load, round:  schedule ──> real ──> percentiles ──> measured
//!    │                                       │          │
//!    │                                       │          └─ stops, lateness
//!    │                                       │             │ of the round before
//!    └───────────────────────────────────────┴──────────> model ──> percentiles ──> simulated
//! ```
//!
//! * [`prices`]: what a request, a wake-up and a preemption cost on this machine, now.
//! * [`real`]: a client on one CPU offers requests at Poisson times, and notes when it has really
//!   sent them; each is a user thread on the worker's CPU that runs a loop of calibrated length, so
//!   that being preempted does not shorten its work.
//! * [`model`]: the simulator gets the same requests at the same times, at these prices.
//! * [`stops`]: what the kernel, or the host of a virtual machine, took from the worker, stop by
//!   stop.
//! * [`lateness`]: how late preemptions came.
//! * [`turns`]: how user threads see their turns.
//! * [`verdict`]: whether all rows are there and agree.
//!
//! Stops and lateness are calibrated in one round and used to predict **another**: of the round
//! that it predicts the model knows only which requests came, and when. Each load is offered in
//! several rounds; the medians of the rounds' percentiles are compared.
//!
//! There are two cases. In one, quantum and requests are in proportion to the price of a
//! preemption, which differs tenfold between machines. The other is the default policy under the
//! papers' mix of 1 and 260 µs.

pub mod lateness;
pub mod model;
pub mod prices;
pub mod real;
mod report;
pub mod stops;
pub mod turns;
pub mod verdict;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use quaver_bench_common::affinity;
use quaver_load::{ArrivalProcess, Limit, Mix, Schedule};
use quaver_sched::Spec;

use self::lateness::Lateness;
use self::model::Facts;
use self::prices::Prices;
use self::real::{Answer, Speed};
use self::report::{Document, Machine};
use self::stops::{Stops, Witness};
use self::verdict::{CLASSES, PERCENTILES, Row, Verdict};
use crate::bench::busy;
use crate::noise::Noise;
use crate::output::{self, Target};

const LOADS: [u32; 4] = [30, 50, 70, 80];
/// Rounds that are predicted, each from the one before. An odd number has a median.
const ROUNDS: u64 = 3;
/// How many preemptions cost as much as a quantum of the case in proportion.
const QUANTUM_PRICES: u32 = 25;
const QUANTA: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(1)];
/// The papers' mix (Aspen Fig. 5), under the class names of both cases.
const PAPERS_MIX: &str = "short:95%:fixed=1us,long:5%:fixed=260us";
/// Interruptions may take as much as they do: the simulator is to predict what they cost.
const TAX: u32 = 100;
/// How long each CPU is watched for noise, before and after.
const LISTEN: Duration = Duration::from_millis(300);
/// A run that is too busy to measure on ends like a plan that finds nothing.
const FAILED: u8 = 2;

/// A policy and what is offered to it.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Case {
    name: &'static str,
    policy: String,
    mix: String,
    #[serde(skip)]
    quantum_ns: u64,
}

impl Case {
    /// All cases on a machine with these prices.
    fn all(prices: &Prices) -> [Case; 2] {
        let quantum = quantum(prices);
        let us = quantum.as_micros();
        let default = Spec::default();
        let default_quantum = default.quantum().expect("the default policy has a quantum");
        [
            Case {
                name: "in proportion",
                policy: format!("two-queue:quantum={us}us"),
                // Short requests that need a part of a quantum, and some that need several.
                mix: format!("short:95%:fixed={}us,long:5%:fixed={}us", us / 5, 4 * us),
                quantum_ns: quantum.as_nanos() as u64,
            },
            Case {
                name: "default",
                policy: default.to_string(),
                mix: PAPERS_MIX.into(),
                quantum_ns: default_quantum.as_nanos() as u64,
            },
        ]
    }
}

/// So long that preemptions cost little of it.
fn quantum(prices: &Prices) -> Duration {
    let wanted = QUANTUM_PRICES * Duration::from_nanos(prices.preemption_ns);
    // In steps of 50 us, so that runs can be compared.
    let steps = wanted.as_micros().div_ceil(50) as u64;
    Duration::from_micros(steps * 50).clamp(QUANTA[0], QUANTA[1])
}

/// Runs both sides and compares. The exit code is 2 unless every row has passed.
///
/// # Errors
///
/// The runtime cannot be built, CPUs cannot be used, or results cannot be written.
pub fn run(quick: bool, json: Option<&Target>) -> Result<ExitCode> {
    let cpus = affinity::allowed().context("cannot read the usable CPUs")?;
    let (client, worker) = (cpus[0], cpus[cpus.len() - 1]);
    let span = Duration::from_millis(if quick { 300 } else { 8_000 });
    let busy = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| busy(&text));
    let before = [Noise::watch(client, LISTEN)?, Noise::watch(worker, LISTEN)?];
    let (prices, speed) = Prices::measure(client, worker)?;
    let cases = Case::all(&prices);
    let (mut rows, mut stops, mut clock) = (Vec::new(), Stops::default(), String::new());
    for case in &cases {
        let runtime = runtime(&case.policy, worker)?;
        clock = runtime.clock().to_string();
        let facts =
            Facts { policy: case.policy.clone(), clock: clock.clone(), prices: prices.clone() };
        let real = Real { runtime, client, speed, span, case };
        for load in LOADS {
            let rounds = real.rounds(load, &prices)?;
            stops = rounds.iter().fold(stops, |sum, round| sum.and(&round.stops));
            rows.extend(compare(case.name, load, &rounds, &facts)?);
        }
    }
    let machine = Machine {
        client_cpu: client,
        worker_cpu: worker,
        client_noise: before[0].and(Noise::watch(client, LISTEN)?),
        worker_noise: before[1].and(Noise::watch(worker, LISTEN)?),
        calibration_spread_percent: speed.spread_percent,
        stops: stops.summary(),
    };
    let warnings = machine.warnings(busy);
    let names = cases.each_ref().map(|case| case.name);
    let verdict = Verdict::of(&rows, &names, &LOADS, warnings.len());
    let passed = verdict.passed;
    let document = Document::new(&cases, &clock, &prices, &machine, &warnings, verdict, &rows);
    if let Some(target) = json {
        target.write_json(&document)?;
    }
    if json == Some(&Target::Stdout) {
        warnings.iter().for_each(|warning| eprintln!("quaver sim: beware: {warning}"));
    } else {
        output::print(&document.text())?;
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// A runtime with one worker on this CPU.
fn runtime(policy: &str, worker: usize) -> Result<quaver::Runtime> {
    let builder = quaver::Builder::new().workers(1).cpus(vec![worker]).policy_str(policy).tax(TAX);
    builder.build().context("cannot build the runtime")
}

/// What serves.
struct Real<'a> {
    runtime: quaver::Runtime,
    client: usize,
    speed: Speed,
    span: Duration,
    case: &'a Case,
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
    /// The latencies of a class at 50 and 99 percent, in nanoseconds; `None` if there were no such
    /// requests. They count from when requests were sent, as in the simulation: a client that is
    /// late is not the worker's fault.
    fn percentiles(&self, class: &str) -> Option<[u64; 2]> {
        let class = self.classes.iter().position(|name| name == class)?;
        let of_class = |a: &&Answer| a.request.class as usize == class && !a.request.warm_up;
        let mut all: Vec<_> =
            self.answers.iter().filter(of_class).map(|answer| answer.latency_ns).collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| [50, 99].map(|percent| all[all.len() * percent / 100]))
    }
}

impl Real<'_> {
    /// One more than are predicted.
    fn rounds(&self, load: u32, prices: &Prices) -> Result<Vec<Round>> {
        (0..=ROUNDS).map(|round| self.round(load, round, prices)).collect()
    }

    fn round(&self, load: u32, round: u64, prices: &Prices) -> Result<Round> {
        let mix: Mix = self.case.mix.parse().expect("the mix is well-formed");
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
        let late = Lateness::of(&preempted, self.case.quantum_ns, &served.answers, &stops);
        let prices = late.in_place_of(prices);
        Ok(Round { classes, answers: served.answers, stops, prices })
    }
}

/// The rows of one load: of each class that was served on both sides. Every round but the first is
/// predicted from what the one before it has shown of the machine.
fn compare(case: &'static str, load: u32, rounds: &[Round], facts: &Facts) -> Result<Vec<Row>> {
    let predict = |pair: &[Round]| {
        let [seen, next] = [&pair[0], &pair[1]];
        let requests: Vec<_> = next.answers.iter().map(|answer| answer.request).collect();
        let facts = Facts { prices: seen.prices.clone(), ..facts.clone() };
        model::run(&next.classes, &requests, &seen.stops, &facts)
    };
    let simulated: Vec<_> = rounds.windows(2).map(predict).collect::<Result<_>>()?;
    let taken = rounds.iter().map(|round| round.stops.summary().percent).fold(0.0, f64::max);
    let mut rows = Vec::new();
    for class in CLASSES {
        let real = rounds.iter().skip(1);
        let real: Vec<_> = real.filter_map(|round| round.percentiles(class)).collect();
        let model = simulated.iter().flat_map(|outcome| &outcome.classes);
        let model = model.filter(|c| c.name == class).filter_map(|c| c.latency_us);
        let model: Vec<_> = model.map(|l| [l.p50, l.p99].map(|us| (us * 1e3) as u64)).collect();
        for (i, percentile) in PERCENTILES.into_iter().enumerate() {
            let of = |rounds: &[[u64; 2]]| median(rounds.iter().map(|round| round[i]));
            let (Some(simulated), Some(measured)) = (of(&model), of(&real)) else { continue };
            rows.push(Row::new(case, load, [class, percentile], [simulated, measured], taken));
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

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_load::Request;
    use quaver_sim::Delay;

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
    }

    #[test]
    fn cases_are_of_the_same_classes_and_one_is_the_default() {
        let cases = Case::all(&Prices::none());
        for case in &cases {
            let mix: Mix = case.mix.parse().unwrap();
            let names: Vec<_> = mix.classes().iter().map(|class| class.name.clone()).collect();
            assert_eq!(names, CLASSES);
            let policy: Spec = case.policy.parse().unwrap();
            assert_eq!(policy.quantum(), Some(Duration::from_nanos(case.quantum_ns)));
        }
        assert_eq!(cases[1].policy, Spec::default().to_string());
        assert_eq!(cases[0].mix, "short:95%:fixed=20us,long:5%:fixed=400us");
    }

    /// Rounds of short requests alone, each of which was preempted so late and took so long.
    fn rounds(all: &[(u64, u64)]) -> Vec<Round> {
        let round = |&(late_ns, latency_ns): &(u64, u64)| {
            let request = |id: u64| Request {
                id,
                intended_ns: 1_000_000 * id,
                class: 0,
                service_ns: 20_000,
                key_random: 0,
                warm_up: false,
            };
            let answer = |id| Answer { request: request(id), latency_ns };
            let start = Delay::Fixed(late_ns);
            Round {
                classes: vec!["short".into()],
                answers: (0..200).map(answer).collect(),
                stops: Stops::default(),
                prices: Prices { start, ..Prices::none() },
            }
        };
        all.iter().map(round).collect()
    }

    /// What a round has shown of itself is not told to its own prediction.
    #[test]
    fn a_round_is_predicted_from_another() {
        let facts = Facts {
            policy: "two-queue:quantum=100us".into(),
            clock: "posix-timer".into(),
            prices: Prices::none(),
        };
        let of = |all: &[(u64, u64)]| compare("one", 30, &rounds(all), &facts).unwrap();
        let same = of(&[(5_000, 25_000); 4]);
        assert_eq!(same.len(), 2, "there are no long ones: {same:?}");
        assert!(same.iter().all(|row| row.passed), "{same:?}");
        // The worker wakes later from round to round, and the last round's lateness predicts
        // nothing.
        let rising = of(&[(5_000, 0), (15_000, 35_000), (15_000, 35_000), (95_000, 115_000)]);
        assert!((rising[0].simulated_us - 35.0).abs() < 1.0, "{rising:?}");
        assert_eq!(rising[0].measured_us, 35.0);
        let jump = of(&[(5_000, 25_000), (5_000, 25_000), (95_000, 115_000), (95_000, 115_000)]);
        assert!((jump[0].simulated_us - 25.0).abs() < 1.0 && !jump[0].passed, "{jump:?}");
    }
}
