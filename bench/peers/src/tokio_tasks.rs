//! Tasks of tokio: stackless, without preemption.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::overshoot::{Overshoots, hog_until};
use quaver_bench_common::parked::Parking;
use quaver_bench_common::spec::DETACHED_BATCH;
use quaver_bench_common::{Op, Outcome, Sample, Spec, measure};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Notify, Semaphore, mpsc};
use tokio::task::yield_now;

/// Which scheduler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Everything on the thread that blocks on the runtime.
    CurrentThread,
    /// Worker threads: one, or as many as the spec says.
    MultiThread,
}

impl Flavour {
    /// A runtime of this flavour with `workers` worker threads, if it has any.
    pub fn build(self, workers: u32) -> Runtime {
        let built = self.builder(workers).enable_time().build();
        built.expect("tokio can start its threads")
    }

    /// The same for a server: with sockets.
    pub fn with_io(self, workers: u32) -> Runtime {
        self.builder(workers).enable_all().build().expect("tokio can start its threads")
    }

    fn builder(self, workers: u32) -> Builder {
        let mut builder = match self {
            Flavour::CurrentThread => Builder::new_current_thread(),
            Flavour::MultiThread => Builder::new_multi_thread(),
        };
        builder.worker_threads(workers as usize);
        builder
    }
}

/// Does what `spec` asks.
pub fn run(flavour: Flavour, spec: &Spec) -> Outcome {
    match *spec {
        Spec::Ops { op, budget } => {
            let runtime = flavour.build(1);
            measure(budget, op.per_iteration(), |n| in_task(&runtime, iterate(op, n))).into()
        }
        Spec::Wake { hogs, sleep_us, duration_ms } => {
            in_task(&flavour.build(1), wake(hogs, sleep_us, duration_ms)).into()
        }
        Spec::Parked { threads } => in_task(&flavour.build(1), parked(threads)).into(),
        Spec::Throughput { op: op @ (Op::Yield | Op::SpawnJoin), workers, budget } => {
            if flavour == Flavour::CurrentThread {
                return Outcome::unsupported("it has one thread");
            }
            let runtime = flavour.build(workers);
            let per_iteration = op.per_iteration() * u64::from(workers);
            measure(budget, per_iteration, |n| in_task(&runtime, everywhere(op, n, workers))).into()
        }
        Spec::Throughput { op, .. } => {
            Outcome::unsupported(format!("no throughput of {}", op.name()))
        }
        Spec::Kv(ref spec) => crate::kv::tokio_tasks(flavour, spec),
        Spec::Serve(ref spec) => crate::net::tokio_tasks(flavour, spec),
        Spec::Answer(ref spec) => crate::answer::tokio_tasks(flavour, spec),
    }
}

/// Runs a future as a task: on a worker where there are any, not on the thread that waits.
fn in_task<T: Send + 'static>(
    runtime: &Runtime,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    runtime.block_on(async { tokio::spawn(future).await.expect("nobody panics") })
}

async fn everywhere(op: Op, n: u64, workers: u32) {
    let loops: Vec<_> = (0..workers).map(|_| tokio::spawn(iterate(op, n))).collect();
    for one in loops {
        one.await.expect("nobody panics");
    }
}

async fn iterate(op: Op, n: u64) {
    match op {
        Op::Yield => {
            let yields = move || async move {
                for _ in 0..n {
                    yield_now().await;
                }
            };
            in_two_tasks(yields(), yields()).await;
        }
        Op::SpawnJoin => {
            for _ in 0..n {
                tokio::spawn(async {}).await.expect("an empty task does not panic");
            }
        }
        Op::SpawnDetached => {
            for _ in 0..n {
                spawn_detached().await;
            }
        }
        Op::Mutex => {
            let mutex = Mutex::new(0u64);
            for _ in 0..n {
                *mutex.lock().await += 1;
            }
        }
        Op::Condvar => notify(n).await,
        Op::Channel => channel(n).await,
    }
}

async fn in_two_tasks(
    first: impl Future<Output = ()> + Send + 'static,
    second: impl Future<Output = ()> + Send + 'static,
) {
    for task in [tokio::spawn(first), tokio::spawn(second)] {
        task.await.expect("nobody panics");
    }
}

async fn spawn_detached() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    let goal = RAN.load(Ordering::Relaxed) + DETACHED_BATCH;
    for _ in 0..DETACHED_BATCH {
        tokio::spawn(async { RAN.fetch_add(1, Ordering::Relaxed) });
    }
    while RAN.load(Ordering::Relaxed) < goal {
        yield_now().await;
    }
}

/// Tokio has no condition variable; `Notify` is what its users take instead.
async fn notify(n: u64) {
    let turns = Arc::new([Notify::new(), Notify::new()]);
    let take = |me: usize| {
        let turns = Arc::clone(&turns);
        async move {
            for _ in 0..n {
                turns[me].notified().await;
                turns[1 - me].notify_one();
            }
        }
    };
    turns[0].notify_one();
    in_two_tasks(take(0), take(1)).await;
}

async fn channel(n: u64) {
    let (ping, mut pings) = mpsc::channel(1);
    let (pong, mut pongs) = mpsc::channel(1);
    let echo = async move {
        while let Some(value) = pings.recv().await {
            pong.send(value).await.expect("it listens");
        }
    };
    let talk = async move {
        for i in 0..n {
            ping.send(i).await.expect("it listens");
            assert_eq!(pongs.recv().await, Some(i));
        }
    };
    in_two_tasks(echo, talk).await;
}

async fn wake(hogs: u32, sleep_us: u64, duration_ms: u64) -> Sample {
    let end = monotonic_ns() + duration_ms * 1_000_000;
    let sleeping = Arc::new(Notify::new());
    let sleeper = tokio::spawn({
        let sleeping = Arc::clone(&sleeping);
        async move {
            let length = Duration::from_micros(sleep_us);
            let mut overshoots = Overshoots::for_sleeps(end, length);
            sleeping.notify_one();
            let mut before = monotonic_ns();
            loop {
                tokio::time::sleep(length).await;
                let after = monotonic_ns();
                overshoots.record(sleep_us * 1000, after - before);
                if after >= end {
                    return overshoots;
                }
                before = after;
            }
        }
    });
    // A hog that starts first would not let the sleeper start at all.
    sleeping.notified().await;
    let hogs: Vec<_> = (0..hogs).map(|_| tokio::spawn(async move { hog_until(end) })).collect();
    for hog in hogs {
        hog.await.expect("nobody panics");
    }
    let sample = sleeper.await.expect("nobody panics").into_sample();
    sample.note("hogs do not yield, and nobody preempts them: the sleeper waits until they end")
}

async fn parked(threads: u64) -> Sample {
    static ARRIVED: AtomicU64 = AtomicU64::new(0);
    let gate = Arc::new(Semaphore::new(0));
    let parking = Parking::start(threads);
    let tasks: Vec<_> = (0..threads)
        .map(|_| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                ARRIVED.fetch_add(1, Ordering::Relaxed);
                drop(gate.acquire().await);
            })
        })
        .collect();
    while ARRIVED.load(Ordering::Relaxed) < threads {
        yield_now().await;
    }
    let parking = parking.parked();
    gate.add_permits(threads as usize);
    for task in tasks {
        task.await.expect("nobody panics");
    }
    parking.finish()
}
