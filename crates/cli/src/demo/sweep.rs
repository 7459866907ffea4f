//! The sweep: rounds over modes over loads, and how rounds become rows.
//!
//! Rounds are outermost, so that a change of the machine's mood during the sweep meets all loads
//! and modes alike. Loads of which the machine [`disturbed`] too many rounds are measured again, in
//! all modes; that may take a quarter of the time that the sweep takes without. Of the rounds of a
//! mode and load that count, the one with the median GET p99 becomes the row, but for its SCANs:
//! these are of the one with the median SCAN p99. With an even number it is the worse of the two in
//! the middle. A round whose p99 is only a bound counts as worse than any other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use quaver::{Builder, Runtime, Stats};
use quaver_load::{
    ArrivalProcess, Limit, LoadPoint, Mix, Percentile, Schedule, Slo, SloLimit, Summary,
    highest_load,
};

use super::args::Mode;
use super::calibrate::Services;
use super::disturbed::{self, Disturbance, ENOUGH, Workers};
use super::results::{Latency, Preemptions, Row, SloLoads};
use super::serve::{self, Client};
use crate::interrupt::{Interrupt, Signal};
use quaver_bench_common::store::Store;

/// The class names in schedules, in the order of their numbers.
pub const CLASSES: [&str; 2] = ["get", "scan"];

/// The share of requests that may be lost at a load that meets the objective.
const TOLERATED_LOSS: f64 = 0.001;

/// What is measured.
pub struct Sweep {
    /// The store, loaded.
    pub store: Arc<Store>,
    /// The calibrated requests.
    pub services: Services,
    /// Their shares.
    pub mix: Mix,
    /// When they are sent.
    pub arrivals: ArrivalProcess,
    /// 100 % load, in requests a second.
    pub capacity_rps: f64,
    /// Loads as fractions, ascending.
    pub loads: Vec<f64>,
    /// Modes in their order, with the runtime that serves each.
    pub modes: Vec<(Mode, Builder)>,
    /// Rounds over all of them.
    pub rounds: usize,
    /// Rounds more for loads that were disturbed.
    pub repeats: usize,
    /// How long a load is offered in a round.
    pub duration: Duration,
    /// The seed of arrivals, classes and keys.
    pub seed: u64,
    /// The client.
    pub client: Client,
}

/// One run.
pub struct Measurement {
    mode: Mode,
    load: f64,
    summary: Summary,
    stats: Stats,
    disturbance: Disturbance,
}

/// How a sweep ended.
pub struct Outcome {
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// The signal that ended it early.
    pub interrupted: Option<Signal>,
}

impl Sweep {
    /// How many runs it takes.
    pub fn runs(&self) -> usize {
        self.rounds * self.modes.len() * self.loads.len()
    }

    /// How long it takes at least.
    pub fn planned(&self) -> Duration {
        (self.duration + self.warm_up()) * self.runs() as u32
    }

    fn warm_up(&self) -> Duration {
        (self.duration / 5).min(Duration::from_millis(200))
    }

    /// Measures everything, unless `interrupt` comes first. Before each run `progress` hears what
    /// comes, and whether it is a repetition.
    ///
    /// # Errors
    ///
    /// A runtime cannot be built, or a run fails: see [`serve::serve`].
    pub fn measure(
        &self,
        interrupt: &Interrupt,
        mut progress: impl FnMut(Mode, f64, bool),
    ) -> Result<Outcome> {
        let mut measurements = Vec::new();
        let mut repetitions = self.runs() / 4;
        for round in 0..self.rounds + self.repeats {
            let again = round >= self.rounds;
            let mut loads = self.loads.clone();
            if again {
                loads = self.lacking(&measurements, repetitions / self.modes.len());
                repetitions -= loads.len() * self.modes.len();
            }
            if loads.is_empty() {
                break;
            }
            for (mode, builder) in &self.modes {
                let runtime = build(*mode, builder)?;
                for &load in &loads {
                    progress(*mode, load, again);
                    let measured = self.run(&runtime, *mode, load, round, interrupt)?;
                    if let Some(signal) = interrupt.raised() {
                        return Ok(Outcome { measurements, interrupted: Some(signal) });
                    }
                    measurements.push(measured);
                }
                runtime.shutdown();
            }
        }
        Ok(Outcome { measurements, interrupted: None })
    }

    /// Loads at which a mode has too few rounds that were not disturbed, but at `most` so many:
    /// those that lack the most.
    fn lacking(&self, measurements: &[Measurement], most: usize) -> Vec<f64> {
        let calm = |load: f64| {
            let calm = |&(mode, _): &(Mode, Builder)| {
                let is =
                    |m: &&Measurement| m.mode == mode && m.load == load && !m.disturbance.is_much();
                measurements.iter().filter(is).count()
            };
            self.modes.iter().map(calm).min().unwrap_or(0)
        };
        let mut loads: Vec<f64> = self.loads.clone();
        loads.retain(|&load| calm(load) < ENOUGH.min(self.rounds));
        loads.sort_by_key(|&load| calm(load));
        loads.truncate(most);
        loads.sort_by(f64::total_cmp);
        loads
    }

    fn run(
        &self,
        runtime: &Runtime,
        mode: Mode,
        load: f64,
        round: usize,
        interrupt: &Interrupt,
    ) -> Result<Measurement> {
        // The same requests for all modes and loads of a round, and other ones in the next.
        let seed = self.seed.wrapping_add((round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let rate = load * self.capacity_rps;
        let limit = Limit::Duration(self.duration);
        let schedule = Schedule::new(self.arrivals, rate, &self.mix, limit, seed)
            .with_context(|| format!("--arrivals {} at {:.1} % load", self.arrivals, load * 1e2))?
            .warm_up(self.warm_up());
        let (before, workers) = (runtime.stats(), Workers::find());
        let waited = workers.waited();
        let length = self.duration + self.warm_up();
        let summary = serve::serve(
            runtime.handle(),
            &self.store,
            &self.services,
            &schedule,
            length,
            self.client,
            interrupt,
        )
        .with_context(|| format!("{} at {:.1} % load", mode.name(), load * 1e2))?;
        let waited = workers.waited().saturating_sub(waited);
        let disturbance = Disturbance::of(&summary, length, waited);
        let stats = runtime.stats().since(&before);
        Ok(Measurement { mode, load, summary, stats, disturbance })
    }
}

/// Builds the runtime of a mode.
///
/// # Errors
///
/// Says which mode's, and why not.
pub fn build(mode: Mode, builder: &Builder) -> Result<Runtime> {
    builder.clone().build().with_context(|| format!("cannot start the {} runtime", mode.name()))
}

/// The rows of all modes and loads that were measured, each from so many `rounds`, in the order of
/// modes and loads, and the loads that met the objective.
///
/// # Errors
///
/// Measurements lack figures that they must have.
pub fn evaluate(
    measurements: &[Measurement],
    rounds: usize,
    slo: Duration,
) -> Result<(Vec<Row>, SloLoads)> {
    let mut all: Vec<&Measurement> = measurements.iter().collect();
    // Stable: the rounds of one mode and load stay in their order.
    all.sort_by(|a, b| a.mode.cmp(&b.mode).then(a.load.total_cmp(&b.load)));
    let groups = all.chunk_by(|a, b| a.mode == b.mode && a.load == b.load);
    let groups: Vec<_> = groups.map(|group| (calmest(group, rounds), group.len())).collect();
    let rows = groups.iter().map(|(kept, all)| row(kept, *all)).collect();

    let slo = Slo {
        class: Some(CLASSES[serve::GET as usize].to_owned()),
        percentile: Percentile::P99,
        limit: SloLimit::LatencyNs(u64::try_from(slo.as_nanos()).unwrap_or(u64::MAX)),
    };
    let highest = |mode| -> Result<Option<f64>> {
        let medians = groups.iter().map(|(kept, _)| median(kept, GETS));
        let medians = medians.filter(|m| m.mode == mode && of(m, GETS).is_some());
        let points: Vec<_> =
            medians.map(|m| LoadPoint { load: m.load, summary: m.summary.clone() }).collect();
        if points.is_empty() {
            return Ok(None);
        }
        Ok(Some(highest_load(&points, &slo, TOLERATED_LOSS)?.map_or(0.0, percent)))
    };
    let loads = SloLoads {
        run_to_completion: highest(Mode::RunToCompletion)?,
        preemptive: highest(Mode::Preemptive)?,
        probe: highest(Mode::Probe)?,
    };
    Ok((rows, loads))
}

/// A fraction as percent, without the digits that binary fractions add.
fn percent(load: f64) -> f64 {
    (load * 1e6).round() / 1e4
}

/// The names of the classes.
const GETS: &str = CLASSES[serve::GET as usize];
const SCANS: &str = CLASSES[1 - serve::GET as usize];

/// The latencies of a class.
fn of<'a>(m: &'a Measurement, class: &str) -> Option<&'a quaver_load::Distribution<u64>> {
    m.summary.class(class)?.latency_ns.as_ref()
}

fn calmest<'a>(group: &[&'a Measurement], rounds: usize) -> Vec<&'a Measurement> {
    let mut kept = group.to_vec();
    disturbed::calmest(&mut kept, rounds, |m| m.disturbance);
    kept
}

/// The round with the median p99 of a class.
fn median<'a>(rounds: &[&'a Measurement], class: &str) -> &'a Measurement {
    let mut rounds = rounds.to_vec();
    rounds.sort_by_key(|m| of(m, class).map(|all| (all.p99.at_least, all.p99.value)));
    rounds[rounds.len() / 2]
}

/// From the rounds that count, of so many.
fn row(rounds: &[&Measurement], all_rounds: usize) -> Row {
    let Measurement { mode, load, summary, stats, .. } = median(rounds, GETS);
    let latency = |class| of(median(rounds, class), class).map(Latency::of);
    let lateness = summary.generator.as_ref().and_then(|generator| generator.lateness_ns.as_ref());
    let total = &summary.total;
    Row {
        mode: *mode,
        load_percent: percent(*load),
        offered_rps: total.offered_rate.unwrap_or_default(),
        achieved_rps: total.achieved_rate.unwrap_or_default(),
        get: latency(GETS),
        scan: latency(SCANS),
        preemptions: Preemptions {
            sent: stats.preempt_sent,
            received: stats.preempt_received,
            deferred: stats.preempt_deferred,
            stale: stats.preempt_stale,
            useful: stats.preempt_useful,
            at_probe: stats.preempt_at_probe,
        },
        unsent: total.unsent,
        dropped: total.dropped,
        unfinished: total.unfinished,
        client_late_p99_us: lateness.map_or(0.0, |late| late.p99.value as f64 / 1e3),
        get_p99_us_rounds: rounds
            .iter()
            .filter_map(|m| of(m, GETS).map(|get| get.p99.value as f64 / 1e3))
            .collect(),
        disturbed_rounds: rounds.iter().filter(|m| m.disturbance.is_much()).count(),
        all_rounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_load::{Recorder, Request};

    /// A run of 100 GETs, `slow` of which took 1 ms and the others 10 µs; `lost` more did not
    /// complete.
    fn measurement(mode: Mode, load: f64, slow: u64, lost: u64) -> Measurement {
        with_scans(mode, load, slow, lost, &[])
    }

    /// The same, and SCANs that took so many µs.
    fn with_scans(mode: Mode, load: f64, slow: u64, lost: u64, scans: &[u64]) -> Measurement {
        let recorder = Recorder::new(CLASSES, 1000).unwrap();
        let send = |id, class| {
            let intended_ns = id * 10_000;
            let request =
                Request { id, intended_ns, class, service_ns: 0, key_random: 0, warm_up: false };
            assert!(recorder.sent(&request));
            intended_ns
        };
        for id in 0..100 + lost {
            let intended_ns = send(id, 0);
            if id < 100 {
                let latency = if id < slow { 1_000_000 } else { 10_000 };
                recorder.complete(id, intended_ns + latency);
            }
        }
        for (id, took_us) in (500..).zip(scans) {
            recorder.complete(id, send(id, 1) + took_us * 1000);
        }
        let summary = recorder.summary(10_000_000);
        let disturbance = Disturbance::of(&summary, Duration::from_millis(10), Duration::ZERO);
        Measurement { mode, load, summary, stats: Stats::default(), disturbance }
    }

    const SLO: Duration = Duration::from_micros(50);

    #[test]
    fn the_median_round_becomes_the_row_and_the_rounds_are_kept() {
        let rounds = [50, 0, 0].map(|slow| measurement(Mode::Preemptive, 0.5, slow, 0));
        let (rows, loads) = evaluate(&rounds, 3, SLO).unwrap();
        assert_eq!(rows.len(), 1);
        let get = rows[0].get.as_ref().unwrap();
        assert!((get.p99_us - 10.0).abs() < 0.1, "{get:?}");
        assert_eq!(rows[0].get_p99_us_rounds.len(), 3);
        assert!(rows[0].get_p99_us_rounds[0] > 900.0);
        assert_eq!(rows[0].scan, None);
        let expected = SloLoads { preemptive: Some(50.0), ..SloLoads::default() };
        assert_eq!(loads, expected);
    }

    #[test]
    fn each_class_has_its_own_median() {
        let rounds = [(50, 300), (0, 900), (0, 400)]
            .map(|(slow, scan_us)| with_scans(Mode::Preemptive, 0.5, slow, 0, &[scan_us]));
        let (rows, _) = evaluate(&rounds, 3, SLO).unwrap();
        let (get, scan) = (rows[0].get.as_ref().unwrap(), rows[0].scan.as_ref().unwrap());
        assert!(get.p99_us < 20.0 && (scan.p99_us - 400.0).abs() < 1.0, "{get:?} {scan:?}");
    }

    #[test]
    fn of_two_rounds_the_worse_counts() {
        let rounds = [0, 50].map(|slow| measurement(Mode::Preemptive, 0.5, slow, 0));
        assert_eq!(evaluate(&rounds, 3, SLO).unwrap().1.preemptive, Some(0.0));
    }

    #[test]
    fn rows_are_in_the_order_of_modes_and_loads() {
        let measurements = [
            measurement(Mode::Preemptive, 0.9, 0, 0),
            measurement(Mode::Preemptive, 0.1, 0, 0),
            measurement(Mode::RunToCompletion, 0.9, 50, 0),
            measurement(Mode::RunToCompletion, 0.1, 0, 0),
            measurement(Mode::Probe, 0.1, 0, 0),
        ];
        let (rows, loads) = evaluate(&measurements, 1, SLO).unwrap();
        let order: Vec<_> = rows.iter().map(|row| (row.mode, row.load_percent)).collect();
        assert_eq!(
            order,
            [
                (Mode::RunToCompletion, 10.0),
                (Mode::RunToCompletion, 90.0),
                (Mode::Preemptive, 10.0),
                (Mode::Preemptive, 90.0),
                (Mode::Probe, 10.0),
            ]
        );
        let [run_to_completion, preemptive, probe] = [10.0, 90.0, 10.0].map(Some);
        assert_eq!(loads, SloLoads { run_to_completion, preemptive, probe });
    }

    #[test]
    fn a_load_that_loses_requests_does_not_meet_the_objective() {
        let (rows, loads) = evaluate(&[measurement(Mode::Preemptive, 0.5, 0, 1)], 1, SLO).unwrap();
        assert_eq!(loads.preemptive, Some(0.0));
        assert_eq!(rows[0].unfinished, 1);
    }

    #[test]
    fn nothing_measured_is_nothing() {
        let (rows, loads) = evaluate(&[], 1, SLO).unwrap();
        assert!(rows.is_empty());
        assert_eq!(loads, SloLoads::default());
    }

    #[test]
    fn percentages_are_round_numbers() {
        assert_eq!(percent(0.07), 7.0);
        assert_eq!(percent(0.001), 0.1);
        assert_eq!(percent(0.29), 29.0);
    }
}
