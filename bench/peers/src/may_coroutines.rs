//! Coroutines of the crate `may`: stackful, with work stealing, without preemption.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use may::coroutine::{self, JoinHandle};
use may::go;
use may::sync::mpsc::channel;
use may::sync::{Condvar, Mutex};
use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::overshoot::{hog_until, sleep_until};
use quaver_bench_common::spec::DETACHED_BATCH;
use quaver_bench_common::{Op, Outcome, Sample, Spec, measure};

/// Does what `spec` asks.
pub fn run(spec: &Spec) -> Outcome {
    // Where it runs has been decided by who started the process.
    may::config().set_workers(1).set_worker_pin(false);
    match *spec {
        Spec::Ops { op, budget } => {
            join(go!(move || measure(budget, op.per_iteration(), |n| iterate(op, n)))).into()
        }
        Spec::Wake { hogs, sleep_us, duration_ms } => wake(hogs, sleep_us, duration_ms).into(),
        Spec::Serve(ref spec) => crate::net::may_coroutines(spec),
        Spec::Answer(_) => Outcome::unsupported("such requests are served by tokio and Go"),
        Spec::Parked { .. } | Spec::Throughput { .. } | Spec::Kv(_) => {
            Outcome::unsupported("may is compared in ops, wake and net only")
        }
    }
}

fn join<T>(handle: JoinHandle<T>) -> T {
    handle.join().expect("nobody panics")
}

fn iterate(op: Op, n: u64) {
    match op {
        Op::Yield => in_two_coroutines(move |_| (0..n).for_each(|_| coroutine::yield_now())),
        Op::SpawnJoin => (0..n).for_each(|_| join(go!(|| {}))),
        Op::SpawnDetached => (0..n).for_each(|_| spawn_detached()),
        Op::Mutex => {
            let mutex = Mutex::new(0u64);
            for _ in 0..n {
                *mutex.lock().expect("nobody panics") += 1;
            }
        }
        Op::Condvar => {
            let turn = Arc::new(Turn::default());
            in_two_coroutines(move |me| turn.take(me, n));
        }
        Op::Channel => ping_pong(n),
    }
}

/// Runs `body(0)` and `body(1)` in two coroutines and waits for both.
fn in_two_coroutines(body: impl Fn(usize) + Clone + Send + 'static) {
    let both = [0, 1].map(|me| {
        let body = body.clone();
        go!(move || body(me))
    });
    both.into_iter().for_each(join);
}

/// May puts new coroutines into a queue that a worker looks at when its own is empty, so one that
/// yields until they have run waits for ever. The last of them wakes the maker instead.
fn spawn_detached() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    let goal = RAN.load(Ordering::Relaxed) + DETACHED_BATCH;
    let maker = coroutine::current();
    for _ in 1..DETACHED_BATCH {
        go!(|| RAN.fetch_add(1, Ordering::Relaxed));
    }
    go!(move || {
        RAN.fetch_add(1, Ordering::Relaxed);
        maker.unpark();
    });
    while RAN.load(Ordering::Relaxed) < goal {
        coroutine::park();
    }
}

/// Whose turn it is, and a condition variable for each of the two coroutines.
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
            while *of != me {
                of = self.changed[me].wait(of).expect("nobody panics");
            }
            *of = 1 - me;
            self.changed[1 - me].notify_one();
        }
    }
}

fn ping_pong(n: u64) {
    let (ping, pings) = channel();
    let (pong, pongs) = channel();
    let echo = go!(move || {
        while let Ok(value) = pings.recv() {
            pong.send(value).expect("it listens");
        }
    });
    for i in 0..n {
        ping.send(i).expect("it listens");
        assert_eq!(pongs.recv(), Ok(i));
    }
    drop(ping);
    join(echo);
}

fn wake(hogs: u32, sleep_us: u64, duration_ms: u64) -> Sample {
    let end = monotonic_ns() + duration_ms * 1_000_000;
    let length = Duration::from_micros(sleep_us);
    let sleeper = go!(move || sleep_until(end, length, coroutine::sleep));
    let hogs: Vec<_> = (0..hogs).map(|_| go!(move || hog_until(end))).collect();
    hogs.into_iter().for_each(join);
    let sample = join(sleeper).into_sample();
    sample
        .note("the sleeper runs on may's timer thread, so it is the kernel that preempts the hogs")
}
