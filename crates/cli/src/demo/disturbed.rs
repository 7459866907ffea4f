//! Rounds in which the machine kept the client or the workers from their CPUs.
//!
//! The client has a CPU for itself and spins until the time of each request. If it is late all the
//! same, something took the CPU: another process, or the host. Latencies count from the intended
//! time, so they say more about the machine than about the server then. The same holds where
//! workers waited for a CPU, as the kernel counts it. Such a round is repeated, within a bound, and
//! the row is made of those that were not disturbed. If there are too few, the least disturbed are
//! taken as well, and the row is marked.
//!
//! Latencies decide nothing here: a round is not left out because the server was slow. What a host
//! takes from a worker the kernel mostly does not know.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use quaver_load::Summary;

/// More is much for one request in a hundred, and in a thousand, in nanoseconds.
const LATE_NS: [u64; 2] = [100_000, 500_000];
/// More is much, as a share of the time.
const WAITED: f64 = 0.005;

/// What became known of the machine during a round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Disturbance {
    /// In multiples of what is much; above 1 the round is disturbed.
    score: f64,
}

impl Disturbance {
    /// Of a round of this length, in which workers waited for a CPU for `waited`.
    pub fn of(summary: &Summary, length: Duration, waited: Duration) -> Disturbance {
        let generator = summary.generator.as_ref();
        let late = generator.and_then(|generator| generator.lateness_ns.as_ref());
        let late = late.map_or([0; 2], |late| [late.p99.value, late.p999.value]);
        let late = late.into_iter().zip(LATE_NS).map(|(late, much)| late as f64 / much as f64);
        let waited = waited.as_secs_f64() / length.as_secs_f64() / WAITED;
        Disturbance { score: late.fold(waited, f64::max) }
    }

    /// Was the round disturbed?
    pub fn is_much(self) -> bool {
        self.score > 1.0
    }
}

/// So many undisturbed rounds make a median; fewer do if fewer were asked for.
pub const ENOUGH: usize = 3;

/// Keeps up to so many of the rounds: those that were not disturbed, in their order, and if they
/// are not enough, those that were least.
pub fn calmest<T>(rounds: &mut Vec<T>, most: usize, of: impl Fn(&T) -> Disturbance) {
    let key = |round: &T| Some(of(round)).filter(|d| d.is_much()).map_or(0.0, |d| d.score);
    rounds.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let calm = rounds.iter().filter(|round| !of(round).is_much()).count();
    rounds.truncate(calm.max(ENOUGH).min(most));
}

/// The workers of a runtime, as the kernel sees them.
pub struct Workers(Vec<PathBuf>);

impl Workers {
    /// Those of this process. None where the kernel does not count waiting.
    pub fn find() -> Workers {
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let paths = threads.map(|thread| thread.path());
        let is_worker = |path: &PathBuf| {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            let number = name.trim().strip_prefix("quaver-");
            number.is_some_and(|number| number.parse::<usize>().is_ok())
        };
        Workers(paths.filter(is_worker).map(|path| path.join("schedstat")).collect())
    }

    /// For how long they could have run and had no CPU, since they began.
    pub fn waited(&self) -> Duration {
        let waited = |path: &PathBuf| {
            let text = fs::read_to_string(path).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        Duration::from_nanos(self.0.iter().filter_map(waited).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_load::{OpenLoop, RealClock, Recorder, Request, Sent};

    const LENGTH: Duration = Duration::from_secs(1);

    /// A round in which so many of 1000 requests were sent late by so many microseconds.
    fn round(late: u64, by_us: u64, waited_ms: u64) -> Disturbance {
        let recorder = Recorder::new(["get"], 1).unwrap();
        let request = Request {
            id: 0,
            intended_ns: 0,
            class: 0,
            service_ns: 0,
            key_random: 0,
            warm_up: false,
        };
        let outcome = OpenLoop::new(&recorder).run([request], &RealClock::with_spin_ns(0), |r| {
            recorder.complete(r.id, r.intended_ns);
            Sent::Accepted
        });
        let mut summary = outcome.summary(&recorder);
        let late_ns = |per_mille: u64| if late >= per_mille { by_us * 1000 } else { 100 };
        let lateness = summary.generator.as_mut().unwrap().lateness_ns.as_mut().unwrap();
        (lateness.p99.value, lateness.p999.value) = (late_ns(10), late_ns(1));
        Disturbance::of(&summary, LENGTH, Duration::from_millis(waited_ms))
    }

    #[test]
    fn a_round_is_disturbed_if_many_requests_are_late_or_some_very_or_workers_waited() {
        for (late, by_us, waited_ms, expected) in [
            (0, 0, 0, false),
            (10, 90, 0, false),
            (10, 110, 0, true),
            (1, 400, 0, false),
            (1, 600, 0, true),
            (0, 0, 4, false),
            (0, 0, 6, true),
        ] {
            let found = round(late, by_us, waited_ms);
            assert_eq!(found.is_much(), expected, "{late} by {by_us} us, {waited_ms} ms");
        }
    }

    #[test]
    fn the_calmest_rounds_are_kept_in_their_order() {
        let rounds = [(10, 900, 0), (0, 0, 4), (10, 110, 0), (1, 300, 0), (0, 0, 20)];
        let rounds = rounds.iter().enumerate();
        let mut kept: Vec<_> = rounds.map(|(i, &(n, us, ms))| (i, round(n, us, ms))).collect();
        calmest(&mut kept, 4, |&(_, disturbance)| disturbance);
        assert_eq!(kept.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [1, 3, 2]);
        calmest(&mut kept, 1, |&(_, disturbance)| disturbance);
        assert_eq!(kept.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn workers_are_known_by_their_names() {
        let runtime = quaver::Builder::new().workers(2).quantum(None).build().unwrap();
        // They give themselves their names.
        while Workers::find().0.len() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(Workers::find().0.len(), 2);
        runtime.shutdown();
    }
}
