//! Kernel threads through `std::thread` and `std::sync`: pthreads, and futexes for what waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::overshoot::{hog_until, sleep_until};
use quaver_bench_common::parked::Parking;
use quaver_bench_common::spec::DETACHED_BATCH;
use quaver_bench_common::{Op, Outcome, Sample, Spec, measure};

/// Does what `spec` asks.
pub fn run(spec: &Spec) -> Outcome {
    match *spec {
        Spec::Ops { op, budget } => measure(budget, op.per_iteration(), |n| iterate(op, n)).into(),
        Spec::Wake { hogs, sleep_us, duration_ms } => wake(hogs, sleep_us, duration_ms).into(),
        Spec::Parked { threads } => parked(threads),
        Spec::Throughput { op: op @ (Op::Yield | Op::SpawnJoin), workers, budget } => {
            let per_iteration = op.per_iteration() * u64::from(workers);
            measure(budget, per_iteration, |n| {
                thread::scope(|scope| {
                    for _ in 0..workers {
                        scope.spawn(move || iterate(op, n));
                    }
                });
            })
            .into()
        }
        Spec::Throughput { op, .. } => {
            Outcome::unsupported(format!("no throughput of {}", op.name()))
        }
        Spec::Kv(ref spec) => crate::kv::kernel_threads(spec),
        Spec::Serve(ref spec) => crate::net::kernel_threads(spec),
        Spec::Answer(_) => Outcome::unsupported("such requests are served by tokio and Go"),
    }
}

fn iterate(op: Op, n: u64) {
    match op {
        Op::Yield => in_two_threads(|_| (0..n).for_each(|_| thread::yield_now())),
        Op::SpawnJoin => {
            for _ in 0..n {
                thread::spawn(|| {}).join().expect("an empty thread does not panic");
            }
        }
        Op::SpawnDetached => (0..n).for_each(|_| spawn_detached()),
        Op::Mutex => {
            let mutex = Mutex::new(0u64);
            for _ in 0..n {
                *mutex.lock().expect("nobody panics") += 1;
            }
        }
        Op::Condvar => {
            let turn = Turn::default();
            in_two_threads(|me| turn.take(me, n));
        }
        Op::Channel => channel(n),
    }
}

/// Runs `body(0)` and `body(1)` in two threads and waits for both.
fn in_two_threads(body: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for me in 0..2 {
            let body = &body;
            scope.spawn(move || body(me));
        }
    });
}

fn spawn_detached() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    let goal = RAN.load(Ordering::Relaxed) + DETACHED_BATCH;
    for _ in 0..DETACHED_BATCH {
        thread::spawn(|| RAN.fetch_add(1, Ordering::Relaxed));
    }
    while RAN.load(Ordering::Relaxed) < goal {
        thread::yield_now();
    }
}

/// Whose turn it is, and a condition variable for each of the two threads.
#[derive(Default)]
struct Turn {
    of: Mutex<usize>,
    changed: [Condvar; 2],
}

impl Turn {
    /// Takes `me`'s turn `n` times.
    fn take(&self, me: usize, n: u64) {
        let mut of = self.of.lock().expect("nobody panics");
        for _ in 0..n {
            of = self.changed[me].wait_while(of, |of| *of != me).expect("nobody panics");
            *of = 1 - me;
            self.changed[1 - me].notify_one();
        }
    }
}

fn channel(n: u64) {
    let (ping, pings): (SyncSender<u64>, Receiver<u64>) = sync_channel(1);
    let (pong, pongs) = sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(move || pings.iter().for_each(|value| pong.send(value).expect("it listens")));
        scope.spawn(move || {
            for i in 0..n {
                ping.send(i).expect("it listens");
                assert_eq!(pongs.recv(), Ok(i));
            }
        });
    });
}

fn wake(hogs: u32, sleep_us: u64, duration_ms: u64) -> Sample {
    let end = monotonic_ns() + duration_ms * 1_000_000;
    thread::scope(|scope| {
        let sleeper =
            scope.spawn(move || sleep_until(end, Duration::from_micros(sleep_us), thread::sleep));
        for _ in 0..hogs {
            scope.spawn(move || hog_until(end));
        }
        sleeper.join().expect("nobody panics").into_sample()
    })
}

fn parked(threads: u64) -> Outcome {
    static ARRIVED: AtomicU64 = AtomicU64::new(0);
    static OPEN: Mutex<bool> = Mutex::new(false);
    static OPENED: Condvar = Condvar::new();
    let parking = Parking::start(threads);
    let mut handles = Vec::with_capacity(threads as usize);
    for i in 0..threads {
        let spawned = thread::Builder::new().spawn(|| {
            let open = OPEN.lock().expect("nobody panics");
            ARRIVED.fetch_add(1, Ordering::Relaxed);
            drop(OPENED.wait_while(open, |open| !*open));
        });
        match spawned {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                return Outcome::unsupported(format!("the system has no more after {i}: {error}"));
            }
        }
    }
    while ARRIVED.load(Ordering::Relaxed) < threads {
        thread::yield_now();
    }
    let parking = parking.parked();
    *OPEN.lock().expect("nobody panics") = true;
    OPENED.notify_all();
    handles.into_iter().for_each(|handle| handle.join().expect("nobody panics"));
    parking.finish().note("kernel stacks are not counted").into()
}
