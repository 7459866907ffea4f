//! The same requests in simulation and on the real runtime, with one worker: does the simulator
//! predict what it has not seen?
//!
//! ```text
//! prices ──> cases ──> each load, round:  schedule ──> real ──> percentiles ──> measured
//!    │                                       │          │
//!    │                                       │          └─ stops, calibration
//!    │                                       │             │ of every second round
//!    └───────────────────────────────────────┴──────────> model ──> percentiles ──> simulated
//! ```
//!
//! * [`rounds`]: how long rounds are, and how many.
//! * [`prices`]: what a request, a wake-up and a preemption cost on this machine, now.
//! * [`real`]: a client on one CPU offers requests at Poisson times, and notes when it has really
//!   sent them; each is a user thread on the worker's CPU that runs a loop of calibrated length, so
//!   that being preempted does not shorten its work.
//! * [`model`]: the simulator gets the same requests at the same times, at these prices.
//! * [`stops`]: what the kernel, or the host of a virtual machine, took from the worker, stop by
//!   stop.
//! * [`lateness`], [`calibration`]: how late preemptions came among requests, what they, looks in
//!   vain and wake-ups took.
//! * [`turns`]: how user threads see their turns.
//! * [`verdict`]: whether all rows are there and agree.
//!
//! Each load is offered in many short rounds, every second of which is predicted from the
//! **others**: of the rounds that it predicts the model knows only which requests came, and when. A
//! round of whose time long stops took too much is neither predicted nor used for that; another
//! one takes its place, within a bound, and where few are undisturbed they become shorter
//! ([`rounds`]).
//!
//! There are two cases. In one, quantum and requests are in proportion to the price of a
//! preemption, which differs tenfold between machines. The other is the default policy under the
//! papers' mix of 1 and 260 µs.

pub mod calibration;
pub mod lateness;
pub mod model;
pub mod prices;
pub mod real;
mod report;
pub mod rounds;
pub mod spans;
mod stop;
pub mod stops;
pub mod turns;
pub mod verdict;

pub use self::report::Report;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use quaver::Clock;
use quaver_bench_common::affinity;
use quaver_bench_common::noise::{Noise, busy};
use quaver_load::{ArrivalProcess, Limit, Mix, Request, Schedule};
use quaver_sched::Spec;

use self::calibration::Calibration;
use self::lateness::Lateness;
use self::model::Facts;
use self::prices::Prices;
use self::real::{Answer, Speed};
use self::report::Machine;
use self::rounds::Rounds;
use self::stops::{SPIN, Stops, Witness};
use self::verdict::{CLASSES, PERCENTILES, Row, Verdict};

/// In percent of what the worker can bear if every quantum ends with a preemption, and each request
/// costs what it does.
const LOADS: [u32; 4] = [30, 50, 70, 80];
/// How many rounds are predicted, from as many.
const PREDICTED: usize = 24;
/// A round is disturbed if stops took more than this share of the worker's time, in percent: at
/// 80 % load that lengthens the queue by as much as the tolerance.
const DISTURBED_PERCENT: f64 = 2.0;
/// Stops that are not longer do not count there: the kernel's ticks and interrupts come in every
/// round, so the model knows as many from the others.
const ORDINARY: Duration = Duration::from_micros(100);
/// How many preemptions cost as much as a quantum of the case in proportion.
const QUANTUM_PRICES: u32 = 25;
const QUANTA: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(1)];
/// The papers' mix (Aspen Fig. 5), under the class names of both cases.
const PAPERS_MIX: &str = "short:95%:fixed=1us,long:5%:fixed=260us";
/// Interruptions may take as much as they do: the simulator is to predict what they cost.
const TAX: u32 = 100;
/// How long each CPU is watched for noise, before and after.
const LISTEN: Duration = Duration::from_millis(300);

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

/// Runs both sides and compares, with this clock: minutes, or seconds if `quick`.
///
/// # Errors
///
/// The runtime cannot be built, or CPUs cannot be used.
pub fn validate(quick: bool, clock: Clock) -> Result<Report> {
    let cpus = affinity::allowed().context("cannot read the usable CPUs")?;
    let (client, worker) = (cpus[0], cpus[cpus.len() - 1]);
    let span = Duration::from_millis(if quick { 100 } else { 250 });
    let busy = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| busy(&text));
    let before = [Noise::watch(client, LISTEN)?, Noise::watch(worker, LISTEN)?];
    let (prices, speed) = Prices::measure(client, worker, clock)?;
    let cases = Case::all(&prices);
    let wanted = if quick { 2 } else { 2 * PREDICTED };
    let (mut rows, mut stops, mut name) = (Vec::new(), Stops::default(), String::new());
    let (mut offered, mut disturbed, mut shortest) = (0, 0, span);
    for case in &cases {
        let runtime = runtime(&case.policy, worker, clock)?;
        name = runtime.clock().to_string();
        let facts =
            Facts { policy: case.policy.clone(), clock: name.clone(), prices: prices.clone() };
        let real = Real { runtime, client, speed, case };
        // What one load has shown of the machine serves the next one.
        let mut length = span;
        for load in LOADS {
            let mut rounds = Rounds::new(span, wanted, length);
            let (all, count) = real.rounds(load, &mut rounds, &prices)?;
            length = rounds.span();
            shortest = shortest.min(length);
            stops = all.iter().fold(stops, |sum, round| sum.and(&round.stops));
            offered += all.len();
            disturbed += all.iter().filter(|round| round.is_disturbed()).count();
            let last = &all[all.len() - count..];
            rows.extend(compare(case.name, load, last, rounds.wanted(), &facts)?);
        }
    }
    let machine = Machine {
        client_cpu: client,
        worker_cpu: worker,
        client_noise: before[0].and(Noise::watch(client, LISTEN)?),
        worker_noise: before[1].and(Noise::watch(worker, LISTEN)?),
        calibration_spread_percent: speed.spread_percent,
        stops: stops.summary(),
        offered,
        disturbed,
        round_ms: [shortest, span].map(|span| span.as_secs_f64() * 1e3),
    };
    let mut warnings = machine.unfit(busy);
    let unfit = warnings.len();
    warnings.extend(machine.noise());
    let names = cases.each_ref().map(|case| case.name);
    let verdict = Verdict::of(&rows, &names, &LOADS, unfit);
    Ok(Report::new(cases.into(), name, prices, machine, warnings, verdict, rows))
}

/// How many requests in a second the worker can bear that would serve `capacity` of them if the
/// runtime cost nothing.
fn bearable(capacity: f64, prices: &Prices, quantum_ns: u64) -> f64 {
    let work_ns = 1e9 / capacity;
    let preempted = 1.0 + prices.preemption_ns as f64 / quantum_ns as f64;
    1e9 / (work_ns * preempted + prices.request_ns as f64)
}

/// A runtime with one worker on this CPU.
fn runtime(policy: &str, worker: usize, clock: Clock) -> Result<quaver::Runtime> {
    let builder = quaver::Builder::new().workers(1).cpus(vec![worker]).clock(clock);
    let builder = builder.policy_str(policy).tax(TAX).idle_spin(SPIN);
    builder.build().context("cannot build the runtime")
}

/// What serves.
struct Real<'a> {
    runtime: quaver::Runtime,
    client: usize,
    speed: Speed,
    case: &'a Case,
}

/// What was offered in a round, and what came of it.
struct Round {
    classes: Vec<String>,
    answers: Vec<Answer>,
    stops: Stops,
    calibration: Calibration,
}

impl Round {
    fn is_disturbed(&self) -> bool {
        self.stops.percent_beyond(ORDINARY) > DISTURBED_PERCENT
    }

    /// The same requests, where work takes so many times what it should.
    fn simulated<'a>(&self, stops: &'a Stops, pace: f64) -> model::Round<'a> {
        let paced = |request: Request| Request {
            service_ns: (request.service_ns as f64 * pace) as u64,
            ..request
        };
        model::Round { requests: self.answers.iter().map(|a| paced(a.request)).collect(), stops }
    }
}

/// The latencies of a class at 50 and 99 percent, in nanoseconds; `None` if there were no such
/// requests. They count from when requests were sent, as in the simulation: a client that is late
/// is not the worker's fault.
fn percentiles(rounds: &[&Round], class: &str) -> Option<[u64; 2]> {
    let number = rounds.first()?.classes.iter().position(|name| name == class)?;
    let answers = rounds.iter().flat_map(|round| &round.answers);
    let of_class = answers.filter(|answer| answer.request.class as usize == number);
    let mut all: Vec<_> = of_class.map(|answer| answer.latency_ns).collect();
    all.sort_unstable();
    (!all.is_empty()).then(|| [50, 99].map(|percent| all[all.len() * percent / 100]))
}

impl Real<'_> {
    /// As many undisturbed ones as are wanted, if the machine allows it, and the disturbed ones
    /// among them; and how many of them, the last, are those that count.
    fn rounds(
        &self,
        load: u32,
        rounds: &mut Rounds,
        prices: &Prices,
    ) -> Result<(Vec<Round>, usize)> {
        let (mut all, mut count) = (Vec::new(), 0);
        while rounds.go_on() {
            let round = self.round(load, all.len() as u64, rounds.span(), prices)?;
            count = if rounds.offered(round.is_disturbed()) { 0 } else { count + 1 };
            all.push(round);
        }
        Ok((all, count))
    }

    fn round(&self, load: u32, number: u64, span: Duration, prices: &Prices) -> Result<Round> {
        let mix: Mix = self.case.mix.parse().expect("the mix is well-formed");
        let capacity = mix.capacity(1).expect("all classes have service times");
        let rate = bearable(capacity, prices, self.case.quantum_ns) * f64::from(load) / 100.0;
        let limit = Limit::Duration(span);
        let seed = u64::from(load) + 1_000 * number;
        let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, limit, seed)?;
        let witness = Arc::new(Witness::of(self.runtime.handle()));
        let Real { runtime, client, speed, .. } = self;
        let served = real::serve(runtime, &schedule, *client, *speed, span, Some(&witness))?;
        let request_ns = witness.request_ns().unwrap_or(prices.request_ns);
        let stops = witness.stops(served.start, request_ns);
        let preempted = witness.preempted(served.start);
        let again = witness.preempted_again(served.start);
        let quantum_ns = self.case.quantum_ns;
        let late = Lateness::of(&preempted, &again, quantum_ns, &served.answers, &stops);
        let calibration = Calibration { late, seen: witness.seen(request_ns) };
        let classes = schedule.classes().to_vec();
        Ok(Round { classes, answers: served.answers, stops, calibration })
    }
}

/// The rows of one load: of each class that was served on both sides. Every second undisturbed
/// round is predicted from what the others have shown of the machine. Where there are fewer
/// undisturbed ones than wanted, all of them count, and the rows are disturbed.
fn compare(
    case: &'static str,
    load: u32,
    rounds: &[Round],
    wanted: usize,
    facts: &Facts,
) -> Result<Vec<Row>> {
    let mut chosen: Vec<_> = rounds.iter().filter(|round| !round.is_disturbed()).collect();
    let disturbed = chosen.len() < wanted;
    if disturbed {
        chosen = rounds.iter().collect();
    }
    let (pairs, _) = chosen.as_chunks();
    let seen = Calibration::of(pairs.iter().map(|[seen, _]| &seen.calibration));
    let facts = Facts { prices: seen.in_place_of(&facts.prices), ..facts.clone() };
    // The machine has calm and busy times, and fast and slow ones: neighbours have the same.
    let simulated: Vec<_> = pairs
        .iter()
        .map(|[seen, predicted]| predicted.simulated(&seen.stops, seen.calibration.pace()))
        .collect();
    let predicted: Vec<_> = pairs.iter().map(|&[_, predicted]| predicted).collect();
    let Some(first) = predicted.first() else { return Ok(Vec::new()) };
    let outcome = model::run(&first.classes, &simulated, &facts)?;
    let mut rows = Vec::new();
    for class in CLASSES {
        let simulated = outcome.class(class).and_then(|c| c.latency_us);
        let Some(simulated) = simulated.map(|l| [l.p50, l.p99].map(|us| (us * 1e3) as u64)) else {
            continue;
        };
        let Some(real) = percentiles(&predicted, class) else { continue };
        for (i, percentile) in PERCENTILES.into_iter().enumerate() {
            rows.push(Row::new(
                case,
                load,
                [class, percentile],
                [simulated[i], real[i]],
                disturbed,
            ));
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

    /// Rounds of short requests alone, in each of which waking up took so long, and requests did,
    /// and the machine took so much in a second.
    fn rounds(all: &[(u64, u64, u64)]) -> Vec<Round> {
        let round = |&(start_ns, latency_ns, stopped_ns): &(u64, u64, u64)| {
            let request = |id: u64| Request {
                id,
                intended_ns: 1_000_000 * (id + 1),
                class: 0,
                service_ns: 20_000,
                key_random: 0,
                warm_up: false,
            };
            let answer = |id| Answer { request: request(id), latency_ns };
            let stop = stops::Stop { at_ns: 0, ns: stopped_ns };
            let stop = Some(stop).filter(|stop| stop.ns > 0);
            let seen = stops::Seen { starts: vec![start_ns], ..Default::default() };
            Round {
                classes: vec!["short".into()],
                answers: (0..200).map(answer).collect(),
                stops: Stops { watched_ns: 1_000_000_000, all: Vec::from_iter(stop) },
                calibration: Calibration { seen, ..Default::default() },
            }
        };
        all.iter().map(round).collect()
    }

    /// What a round has shown of itself is not told to its own prediction.
    #[test]
    fn rounds_are_predicted_from_others() {
        let facts = Facts {
            policy: "two-queue:quantum=100us".into(),
            clock: "posix-timer".into(),
            prices: Prices::none(),
        };
        let of = |all: &[_]| compare("one", 30, &rounds(all), 4, &facts).unwrap();
        let same = of(&[(5_000, 25_000, 0); 4]);
        assert_eq!(same.len(), 2, "there are no long ones: {same:?}");
        assert!(same.iter().all(|row| row.passed), "{same:?}");
        // In the rounds that are predicted the worker wakes later.
        let (early, late) = ((5_000, 25_000, 0), (95_000, 115_000, 0));
        let rows = of(&[early, late, early, late]);
        assert!((rows[0].simulated_us - 25.0).abs() < 1.0 && !rows[0].passed, "{rows:?}");
        assert_eq!(rows[0].measured_us, 115.0);
        // Disturbed rounds do not count, unless there are too few others.
        let disturbed = (95_000, 999_000, 30_000_000);
        assert!(of(&[early, disturbed, early, early, disturbed, early])[0].passed);
        let rows = of(&[early, disturbed, early, early]);
        assert!(rows.iter().all(|row| row.disturbed), "{rows:?}");
    }
}
