//! What the rules come to, in simulated time: waiting is bounded, short requests do not wait for
//! long ones.

use proptest::{prelude::*, test_runner::RngSeed};
use quaver_sched::random::splitmix64;

use super::{
    host::{Host, Job},
    *,
};

const US: Time = 1_000;

/// So that a workload is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// 99.5 % short requests of 1 us and 0.5 % of 500 us, Poisson arrivals, at 70 % of what the workers
/// can do.
fn bimodal(workers: usize, count: usize) -> Vec<Job> {
    let mut random = Random(42);
    let mean_service = 0.995 * 1_000.0 + 0.005 * 500_000.0;
    let mean_gap = mean_service / 0.7 / workers as f64;
    let mut now = 0.0;
    let job = |_| {
        now += -random.unit().ln() * mean_gap;
        let service = if random.unit() <= 0.005 { 500 * US } else { US };
        let place = match random.next() % (workers as u64 + 1) {
            0 => Place::Shared,
            n => Place::Local(n as usize - 1),
        };
        Job { arrives: now as Time, service, place }
    };
    (0..count).map(job).collect()
}

/// The 99.9th percentile of the time that short requests take from arrival to end.
fn short_p999(spec: &str, workers: usize, jobs: &[Job]) -> Time {
    let policy = build(spec, workers, jobs.len() as u32);
    let outcomes = Host::new(&*policy, workers, jobs).run();
    let short = jobs.iter().zip(&outcomes).filter(|(job, _)| job.service == US);
    let mut times: Vec<_> = short.map(|(job, outcome)| outcome.ended - job.arrives).collect();
    times.sort_unstable();
    times[times.len() * 999 / 1000]
}

/// The reason for all this: with preemption a short request does not wait for a long one. Simulated
/// time, so the numbers are the same on every machine; the factors leave room for changes of the
/// rules, not for noise.
#[test]
fn short_requests_do_not_wait_for_long_ones() {
    let jobs = bimodal(4, 40_000);
    let p999 = |spec| short_p999(spec, 4, &jobs);
    let (fifo, rr) = (p999("fifo"), p999("rr:quantum=5us"));
    let (ws, two_queue) = (p999("ws:quantum=5us"), p999("two-queue:quantum=5us,max-age=none"));
    println!("short p99.9 in ns: fifo {fifo}, rr {rr}, ws {ws}, two-queue {two_queue}");
    assert!(fifo > 500 * US, "run to completion: behind a long one");
    assert!(rr < fifo / 4 && ws < fifo / 4);
    assert!(two_queue < rr / 2 && two_queue < ws / 2);
}

/// A busy loop that never yields is stopped one quantum after other work arrives behind it, not
/// before.
#[test]
fn endless_work_is_stopped_as_soon_as_it_has_used_its_quantum() {
    for (arrives, service) in [(3 * US, US), (50 * US, 5 * US)] {
        let place = [Place::Local(0), Place::Shared];
        for (place, spec) in
            place.into_iter().flat_map(|place| ["rr", "ws", "two-queue"].map(|s| (place, s)))
        {
            let jobs = [
                Job { arrives: 0, service: 1_000 * US, place: Place::Local(0) },
                Job { arrives, service, place },
            ];
            let policy = build(spec, 1, 2);
            let outcomes = Host::new(&*policy, 1, &jobs).run();
            assert_eq!(outcomes[1].ended, arrives.max(20 * US) + service, "{spec} {place:?}");
            assert_eq!(outcomes[0].preemptions, 1, "{spec} {place:?}");
        }
    }
}

/// Tickless means: a task that is alone is never interrupted, however long it runs.
#[test]
fn who_is_alone_is_never_interrupted() {
    for spec in all() {
        let jobs =
            [0, 1].map(|w| Job { arrives: 0, service: 100_000 * US, place: Place::Local(w) });
        let policy = build(spec, 2, 2);
        let outcomes = Host::new(&*policy, 2, &jobs).run();
        assert!(outcomes.iter().all(|outcome| outcome.preemptions == 0), "{spec}");
    }
}

/// More new work than the worker can do arrives for ever: without an age limit preempted work never
/// runs again, with one it does.
#[test]
fn preempted_work_is_not_starved_by_overload() {
    let long = |place| Job { arrives: 0, service: 200 * US, place };
    let flood =
        (0..4_000).map(|i| Job { arrives: i * 9 * US, service: 10 * US, place: Place::Local(0) });
    let jobs: Vec<_> =
        [long(Place::Local(0)), long(Place::Shared)].into_iter().chain(flood).collect();
    let ended = |spec| {
        let policy = build(spec, 1, jobs.len() as u32);
        let outcomes = Host::new(&*policy, 1, &jobs).run();
        outcomes[0].ended.max(outcomes[1].ended)
    };
    let flood_ends = 4_000 * 10 * US;
    assert!(ended("two-queue:quantum=20us,max-age=none") > flood_ends);
    // Each of the two needs ten dispatches of 20 us, one in about a millisecond.
    assert!(ended("two-queue:quantum=20us,max-age=1ms") < 12_000 * US);
}

/// Long work comes faster than it can be done, so all of it is old. New work, of which there is
/// little, does not wait for it.
#[test]
fn new_work_does_not_wait_for_old_work_in_overload() {
    let every = |n: u64, span: u64, service: u64| {
        (0..n).map(move |i| Job {
            arrives: i * span * US,
            service: service * US,
            place: Place::Local(0),
        })
    };
    let mut jobs: Vec<_> = every(5_000, 20, 1).chain(every(500, 200, 260)).collect();
    jobs.sort_by_key(|job| job.arrives);
    let policy = build("two-queue:quantum=20us,max-age=1ms", 1, jobs.len() as u32);
    let outcomes = Host::new(&*policy, 1, &jobs).run();
    let mut waits: Vec<_> = jobs
        .iter()
        .zip(&outcomes)
        .filter(|(job, _)| job.service == US)
        .map(|(job, outcome)| outcome.ended - job.arrives)
        .collect();
    waits.sort_unstable();
    let p99 = waits[waits.len() * 99 / 100];
    assert!(p99 <= 80 * US, "{p99} ns");
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        cases: 64,
        ..ProptestConfig::default()
    })]

    /// The bound that `two-queue` states: a preempted task with `p` older ones before it is
    /// dispatched at the latest `11 (p + 1)` quanta after it came of age.
    #[test]
    fn two_queue_bounds_the_wait_of_preempted_work(
        quantum in 1..50u64,
        max_age in 1..1_000u64,
        long_jobs in 1..20u64,
        services in prop::collection::vec(1..100u64, 500),
    ) {
        let text = format!("two-queue:quantum={quantum}us,long={quantum}us,max-age={max_age}us");
        // Everything is there from the start, so new work waits almost to the end.
        let jobs: Vec<_> = (0..long_jobs)
            .map(|_| 1_000)
            .chain(services)
            .map(|us| Job { arrives: 0, service: us * US, place: Place::Local(0) })
            .collect();
        let policy = build(&text, 1, jobs.len() as u32);
        let outcomes = Host::new(&*policy, 1, &jobs).run();
        for (task, outcome) in outcomes.iter().enumerate() {
            // At most all others that are ever preempted are before it.
            let before = jobs.iter().filter(|job| job.service > quantum * US).count() as u64 - 1;
            let bound = (max_age + 11 * (before + 1) * quantum) * US;
            if jobs[task].service > quantum * US {
                prop_assert!(outcome.longest_wait <= bound, "{} > {bound}", outcome.longest_wait);
            }
        }
    }

    /// Any jobs under any policy: the host's checks hold (nobody idles beside work, nobody is
    /// interrupted in vain, everybody gets the service time), and all end as soon as they could
    /// have in total.
    #[test]
    fn any_jobs_under_any_policy(
        spec in prop::sample::select(vec![
            "fifo",
            "rr:quantum=7us",
            "ws:quantum=7us",
            "two-queue:quantum=7us,long=20us,max-age=50us",
            "two-queue:quantum=none",
            "cfs:quantum=7us",
            "eevdf:quantum=7us",
            "shinjuku:quantum=7us",
            "shinjuku-shenango:quantum=7us",
            "priority:quantum=7us,max-age=50us",
            "las:quantum=7us",
            "adaptive:quantum=2us,window=100us",
        ]),
        workers in 1..4usize,
        jobs in prop::collection::vec((0..2_000u64, 1..60u64, 0..4usize), 1..300),
    ) {
        let jobs: Vec<_> = jobs
            .into_iter()
            .map(|(arrives, service, place)| Job {
                arrives: arrives * US,
                service: service * US,
                place: if place < workers { Place::Local(place) } else { Place::Shared },
            })
            .collect();
        let policy = build(spec, workers, jobs.len() as u32);
        let outcomes = Host::new(&*policy, workers, &jobs).run();
        for (job, outcome) in jobs.iter().zip(&outcomes) {
            prop_assert!(outcome.ended >= job.arrives + job.service);
        }
        // One worker that is never idle beside work ends when any other such worker would.
        if workers == 1 && spec != "fifo" {
            let fifo = build("fifo", 1, jobs.len() as u32);
            let reference = Host::new(&*fifo, 1, &jobs).run();
            let last = |outcomes: &[super::host::Outcome]| outcomes.iter().map(|o| o.ended).max();
            prop_assert_eq!(last(&outcomes), last(&reference));
        }
    }
}
