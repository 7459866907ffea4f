//! What the kernel takes to give a core back, at best: no bell of `quaver share` is quicker.
//!
//! A thread of the class that best-effort programs have does nothing but look at a word, and wakes
//! a latency-critical one on its own CPU. Both belong to one process, so memory stays the same.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use quaver_bench_common::affinity::pin;
use quaver_bench_common::{Outcome, Sample};
use quaver_share::class::Class;
use rustix::thread::futex;
use serde::{Deserialize, Serialize};

use super::{percentile_row, percentile_us};
use crate::bench::child::Work;
use crate::bench::context::{Context, Task};
use crate::bench::plan::Group;

const ROW: &str = "core back, by the futex alone";
/// Between two requests.
const GAP: Duration = Duration::from_micros(200);
/// How long a request computes. Its answer comes before the next one.
const SERVICE: Duration = Duration::from_micros(10);
/// No wake-up takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// States of the word.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const ASKED: u32 = 2;
const ENDED: u32 = 3;

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FloorSpec {
    worker: usize,
    client: usize,
    rounds: u32,
}

/// The jobs: one. The client has another CPU than the two threads.
pub fn group(context: &Context, client: usize) -> Group {
    let worker = context.place.worker;
    let rounds = context.effort.pick(1_000, 10_000);
    let spec = FloorSpec { worker, client, rounds };
    let reading = |what| percentile_row(ROW, what);
    let readings = vec![reading("p50"), reading("p90"), reading("p99")];
    let expected = 2 * rounds * GAP;
    let task = Task { cpus: context.place.both(), expected, readings };
    let job = task.job("futex, one process", context.child(&Work::ShareFloor(spec)));
    Group { title: "share floor".into(), jobs: vec![job] }
}

/// What the threads share.
struct Shared {
    word: AtomicU32,
    /// When the latency-critical thread ran last, in nanoseconds since `begun`; 0: not yet.
    ran_at: AtomicU64,
    begun: Instant,
}

/// Measures.
///
/// # Errors
///
/// A CPU or the class is not allowed, or a thread is not woken.
pub fn run(spec: &FloorSpec) -> anyhow::Result<Outcome> {
    pin(&[spec.client])?;
    let (word, ran_at) = (AtomicU32::new(AWAKE), AtomicU64::new(0));
    let shared = Shared { word, ran_at, begun: Instant::now() };
    let mut took = thread::scope(|scope| {
        // The class before the CPU: who looks never sleeps.
        let threads = [
            scope.spawn(|| -> anyhow::Result<()> {
                // Without the right it stays in the usual class, which is above the other's, too.
                let _ = Class::Other(-20).set(0);
                pin(&[spec.worker])?;
                shared.serve();
                Ok(())
            }),
            scope.spawn(|| -> anyhow::Result<()> {
                Class::Idle.set(0)?;
                pin(&[spec.worker])?;
                shared.look();
                Ok(())
            }),
        ];
        let took = (0..spec.rounds).map(|_| shared.ask()).collect::<anyhow::Result<Vec<u64>>>();
        shared.end();
        for thread in threads {
            thread.join().expect("no panic")?;
        }
        took
    })?;
    took.sort_unstable();
    let us = |part| percentile_us(&took, part);
    let sample = Sample { ops: u64::from(spec.rounds), ..Sample::default() };
    Ok(sample.with("p50_us", us(0.5)).with("p90_us", us(0.9)).with("p99_us", us(0.99)).into())
}

impl Shared {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// The client: a request, some time after the last one. How long it took until the thread ran,
    /// in nanoseconds.
    fn ask(&self) -> anyhow::Result<u64> {
        let due = Instant::now() + GAP;
        spin("the thread does not sleep", || {
            Instant::now() >= due && self.word.load(Acquire) == ASLEEP
        })?;
        self.ran_at.store(0, Relaxed);
        let asked_at = self.now();
        self.word.store(ASKED, Release);
        spin("the thread is not woken", || self.ran_at.load(Acquire) != 0)?;
        Ok(self.ran_at.load(Acquire) - asked_at)
    }

    fn end(&self) {
        self.word.store(ENDED, Release);
        let _ = futex::wake(&self.word, futex::Flags::empty(), 1);
    }

    /// The latency-critical thread.
    fn serve(&self) {
        while self.word.compare_exchange(AWAKE, ASLEEP, Release, Relaxed).is_ok() {
            while self.word.load(Acquire) == ASLEEP {
                let _ = futex::wait(&self.word, futex::Flags::empty(), ASLEEP, None);
            }
            let (begun, ran_at) = (Instant::now(), self.now());
            while begun.elapsed() < SERVICE {
                std::hint::spin_loop();
            }
            self.ran_at.store(ran_at, Release);
            let _ = self.word.compare_exchange(ASKED, AWAKE, Relaxed, Relaxed);
        }
    }

    /// The best-effort thread.
    fn look(&self) {
        loop {
            match self.word.load(Acquire) {
                ASKED => drop(futex::wake(&self.word, futex::Flags::empty(), 1)),
                ENDED => return,
                _ => {}
            }
        }
    }
}

fn spin(complaint: &str, happens: impl Fn() -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !happens() {
        ensure!(begun.elapsed() < PATIENCE, "{complaint}");
        std::hint::spin_loop();
    }
    Ok(())
}
