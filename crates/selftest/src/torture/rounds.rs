//! One runtime after another, each with another clock, quantum and policy.

use super::{Job, Rng};
use crate::outcome::{Counts, Outcome};
use quaver::Clock;
use std::fmt;
use std::time::{Duration, Instant};

/// Enough differences to look at.
const MOST_DIFFERENCES: usize = 8;
/// The shortest quantum.
const SHORTEST_US: u64 = 5;

/// How the runtime of one round is built.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) round: u64,
    pub(super) clock: Clock,
    pub(super) quantum: Duration,
    pub(super) policy: &'static str,
    pub(super) max_deferral: Option<Duration>,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { round, clock, quantum, .. } = self;
        write!(f, "clock {clock}, quantum {quantum:?}, round {round}")
    }
}

/// The rounds of a job: one at least, and until there have been enough preemptions, the time is
/// over, or there are enough differences to look at.
pub(super) struct Rounds<'a> {
    job: &'a Job,
    rng: Rng,
    round: u64,
    /// When the job is over.
    pub(super) end: Instant,
    /// What all rounds have counted.
    pub(super) sum: Counts,
    quanta: Option<(Duration, Duration)>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(job: &'a Job) -> Rounds<'a> {
        Rounds {
            job,
            rng: Rng(job.seed),
            round: 0,
            end: Instant::now() + Duration::from_secs_f64(job.seconds),
            sum: Counts::default(),
            quanta: None,
        }
    }

    /// The next round, if there is one.
    pub(super) fn next(&mut self, outcome: &Outcome) -> Option<Setting> {
        let round = self.round;
        let enough = Instant::now() >= self.end || self.sum.preemptions >= self.job.preemptions;
        if round > 0 && enough || outcome.details.len() >= MOST_DIFFERENCES {
            return None;
        }
        self.round += 1;
        let (clock, quantum) = choose(round, self.job.workers, &mut self.rng);
        let (shortest, longest) = self.quanta.unwrap_or((quantum, quantum));
        self.quanta = Some((shortest.min(quantum), longest.max(quantum)));
        let (policy, max_deferral) = (policy(round), max_deferral(round));
        Some(Setting { round, clock, quantum, policy, max_deferral })
    }

    /// A number for the next round's own choices.
    pub(super) fn seed(&mut self) -> u64 {
        self.rng.next()
    }

    /// Writes down what there was.
    pub(super) fn finish(self, outcome: &mut Outcome) {
        if let Some((shortest, longest)) = self.quanta {
            outcome.note = Some(format!("quanta {shortest:?} to {longest:?}"));
        }
        outcome.counts = self.sum;
    }
}

/// The first rounds have the shortest quantum that each clock can keep, the others random ones. A
/// timer core needs a CPU of its own.
fn choose(round: u64, workers: usize, rng: &mut Rng) -> (Clock, Duration) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut clocks = vec![Clock::TimerThread, Clock::PosixTimer];
    if cpus > workers {
        clocks.insert(0, Clock::TimerCore);
    }
    let clock = clocks[(round % clocks.len() as u64) as usize];
    let shortest = SHORTEST_US.max(clock.min_quantum().as_micros() as u64);
    let quantum = if round < clocks.len() as u64 {
        shortest
    } else {
        // From the shortest to sixteen times as much, each power of two as likely as the next.
        shortest << rng.below(4) | rng.below(shortest)
    };
    (clock, Duration::from_micros(quantum))
}

/// Taking turns; and the default, which gives those who have been preempted more time.
fn policy(round: u64) -> &'static str {
    if round % 4 < 3 { "ws" } else { "two-queue" }
}

/// In libraries: at once, when they have had some time, never.
fn max_deferral(round: u64) -> Option<Duration> {
    [Some(Duration::ZERO), Some(Duration::from_micros(100)), None][(round / 2 % 3) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quanta_are_those_that_clocks_keep() {
        let mut rng = Rng(1);
        for round in 0..200 {
            for workers in [1, 2] {
                let (clock, quantum) = choose(round, workers, &mut rng);
                assert!(quantum >= clock.min_quantum() && quantum < Duration::from_micros(400));
            }
        }
    }

    #[test]
    fn there_is_one_round_at_least_and_none_when_it_is_enough() {
        let mut job = Job {
            program: String::new(),
            workers: 1,
            seconds: 0.0,
            preemptions: 10,
            seed: 1,
            quaver: None,
        };
        let outcome = Outcome::new("", 1);
        let mut rounds = Rounds::new(&job);
        assert_eq!(rounds.next(&outcome).map(|s| s.round), Some(0));
        assert!(rounds.next(&outcome).is_none());
        job.seconds = 1000.0;
        let mut rounds = Rounds::new(&job);
        assert_eq!([0, 1].map(|_| rounds.next(&outcome).map(|s| s.round)), [Some(0), Some(1)]);
        rounds.sum.preemptions = 10;
        assert!(rounds.next(&outcome).is_none());
    }
}
