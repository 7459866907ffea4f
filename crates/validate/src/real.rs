//! The real side: a client on one CPU, one worker on another, and requests that are loops of
//! calibrated length.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use quaver_bench_common::client::Client;
use quaver_load::{Clock as _, Fate, Request, Schedule, Summary};

use super::stops::{PIECE, Witness};

/// How long a batch takes, about: shorter than a quantum, so that few batches meet an interruption.
const BATCH: Duration = Duration::from_micros(50);
/// Batches of one try.
const BATCHES: usize = 501;
/// Tries, of which the steadiest counts.
const TRIES: usize = 5;
/// A try with at most this spread, in percent, needs no other.
const STEADY: f64 = 1.0;

/// How fast the worker turns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Turns of `turn` in a microsecond: the median over batches.
    pub per_us: f64,
    /// The distance of the quartiles in percent of the median: how steady the machine was.
    pub spread_percent: f64,
}

impl Speed {
    /// Of batches' speeds, of which there is at least one.
    fn of(mut batches: Vec<f64>) -> Speed {
        batches.sort_by(f64::total_cmp);
        let at = |share: usize| batches[(batches.len() - 1) * share / 4];
        Speed { per_us: at(2), spread_percent: 100.0 * (at(3) - at(1)) / at(2) }
    }

    /// How many turns last as long as this.
    pub fn turns(self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / 1e3 * self.per_us) as u64
    }

    /// Measures on the calling thread, with a witness as requests work that have one. Tries again
    /// where batches differ, and takes the steadiest try; never fails.
    pub fn measure(witness: Option<&Witness>) -> Speed {
        Speed::steadiest(std::iter::repeat_with(|| one_try(witness)).take(TRIES))
    }

    fn steadiest(tries: impl Iterator<Item = Speed>) -> Speed {
        let mut best = Speed { per_us: f64::NAN, spread_percent: f64::INFINITY };
        for speed in tries {
            if speed.spread_percent < best.spread_percent {
                best = speed;
            }
            if best.spread_percent <= STEADY {
                break;
            }
        }
        best
    }
}

fn one_try(witness: Option<&Witness>) -> Speed {
    let time = |turns: u64, piece: u64| {
        let start = Instant::now();
        match witness {
            Some(witness) => witness.pieces(turns, piece),
            None => turn(turns),
        }
        start.elapsed().max(Duration::from_nanos(1))
    };
    // So many turns that a batch is long enough, whatever interrupts a single one.
    let mut turns = 1_000;
    while turns < 1 << 30 && (0..5).map(|_| time(turns, turns)).min().is_some_and(|t| t < BATCH) {
        turns += turns / 4;
    }
    let piece = turns * PIECE.as_nanos() as u64 / BATCH.as_nanos() as u64;
    let speed = |_| turns as f64 / (time(turns, piece).as_nanos() as f64 / 1e3);
    Speed::of((0..BATCHES).map(speed).collect())
}

/// A loop of so many turns.
pub fn turn(turns: u64) {
    let mut x = turns;
    for _ in 0..turns {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
    }
}

/// A request as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Its intended time is the one when it was sent, counted from the start of the run.
    pub request: Request,
    /// From then until it was served, or until the end of the run.
    pub latency_ns: u64,
}

/// What came of a schedule.
#[derive(Clone, Debug)]
pub struct Served {
    /// When the run began.
    pub start: Instant,
    /// Latencies count from the time when a request should have been sent.
    pub summary: Summary,
    /// The requests that were sent.
    pub answers: Vec<Answer>,
}

/// The client on this CPU.
pub fn client(cpu: usize) -> Client {
    Client { cpu, spin_ns: 200_000 }
}

/// Offers the schedule to the real runtime, from the CPU `client`. Blocks until all is served or
/// twice `span` is over. Requests with a witness let it watch.
///
/// # Errors
///
/// The client's CPU cannot be used, or its thread cannot be started.
pub fn serve(
    runtime: &quaver::Runtime,
    schedule: &Schedule,
    client: usize,
    speed: Speed,
    span: Duration,
    witness: Option<&Arc<Witness>>,
) -> Result<Served> {
    let client = self::client(client);
    let answers = client.answers(schedule)?;
    let clock = *answers.clock();
    let handle = runtime.handle();
    let mut sent = Vec::with_capacity(usize::try_from(schedule.count()).unwrap_or(0));
    let (start, start_ns) = (Instant::now(), clock.now_ns());
    client.run(|| {
        let (limit, grace) = (2 * span + Duration::from_secs(1), Duration::from_secs(2));
        let summary = answers.offer(
            |open| open.max_outstanding(20_000).time_limit(limit).grace(grace),
            schedule,
            |request| {
                let (answers, request) = (answers.clone(), *request);
                let now = Instant::now();
                sent.push(Request { intended_ns: clock.now_ns(), ..request });
                let witness = witness.cloned();
                handle.spawn_detached(move || {
                    let time = Duration::from_nanos(request.service_ns);
                    match witness {
                        Some(witness) => witness.serve(now, time, speed),
                        None => turn(speed.turns(time)),
                    }
                    answers.complete(request.id);
                })
            },
        );
        let mut end_ns: Vec<_> = sent.iter().map(|_| clock.now_ns()).collect();
        for sample in answers.recorder().samples() {
            if let (Fate::Completed { at_ns }, Some(end)) =
                (sample.fate, end_ns.get_mut(sample.id as usize))
            {
                *end = at_ns;
            }
        }
        let answer = |(request, end_ns): (Request, u64)| Answer {
            latency_ns: end_ns.saturating_sub(request.intended_ns),
            request: Request { intended_ns: request.intended_ns - start_ns, ..request },
        };
        Ok(Served { start, summary, answers: sent.into_iter().zip(end_ns).map(answer).collect() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_disturbed_batches_change_nothing() {
        let mut batches = vec![100.0; 80];
        batches.extend([3.0; 20]);
        assert_eq!(Speed::of(batches), Speed { per_us: 100.0, spread_percent: 0.0 });
        assert_eq!(Speed::of(vec![7.0]).per_us, 7.0);
    }

    #[test]
    fn the_steadiest_try_counts_and_a_steady_one_is_enough() {
        let speeds = [(90.0, 20.0), (100.0, 4.0), (80.0, 9.0), (101.0, 0.5), (50.0, 0.0)];
        let all = speeds.map(|(per_us, spread_percent)| Speed { per_us, spread_percent });
        assert_eq!(Speed::steadiest(all[..3].iter().copied()).per_us, 100.0);
        assert_eq!(Speed::steadiest(all.into_iter()).per_us, 101.0);
    }

    #[test]
    fn a_real_thread_has_a_speed() {
        let speed = Speed::measure(Some(&Witness::default()));
        assert!(speed.per_us > 0.0 && speed.spread_percent.is_finite(), "{speed:?}");
    }
}
