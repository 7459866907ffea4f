//! What the runtime's steps cost on this machine, measured on the worker that serves afterwards.
//!
//! * *request*: a burst of short requests is served without a break; what each takes beyond its own length;
//! * *send*: what the client needs to hand one of them over;
//! * *preemption*: two threads take turns, each for a quantum; how much longer both take than alone, for each preemption;
//! * *late*: how much longer than a quantum their turns are.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::real::{Speed, turn};
use super::{median, on_client};

const BURST: u64 = 500;
/// An odd number of tries has a median.
const TRIES: usize = 7;
const SHORT: Duration = Duration::from_micros(20);
/// Of the policy `rr` for the threads that take turns.
const QUANTUM: Duration = Duration::from_micros(200);
const TURNS: Duration = Duration::from_millis(50);

/// Medians, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prices {
    /// For each request on the worker.
    pub request_ns: u64,
    /// For each request on the client.
    pub send_ns: u64,
    /// For each preemption on the worker.
    pub preemption_ns: u64,
    /// From the end of a quantum until the thread stops.
    pub late_ns: u64,
}

impl Prices {
    /// Measures with a runtime of its own.
    ///
    /// # Errors
    ///
    /// When the runtime cannot be built, or nothing was preempted.
    pub fn measure(client: usize, worker: usize) -> Result<(Prices, Speed)> {
        let runtime = super::runtime(&format!("rr:quantum={}us", QUANTUM.as_micros()), worker)?;
        // The client's CPU may be a part of the worker's core: it has to be as busy as it is later.
        let (speed, turns) = beside_spinning(client, || {
            let speed = runtime.run(Speed::measure);
            let turns: Result<Vec<_>> = (0..TRIES).map(|_| take_turns(&runtime, speed)).collect();
            Ok((speed, turns?))
        })?;
        let bursts: Result<Vec<_>> =
            (0..TRIES).map(|_| on_client(client, || burst(&runtime, speed))).collect();
        let bursts = bursts?;
        let of = |pairs: &[[u64; 2]], i: usize| {
            median(pairs.iter().map(|pair| pair[i])).expect("there were tries")
        };
        let prices = Prices {
            request_ns: of(&bursts, 0),
            send_ns: of(&bursts, 1),
            preemption_ns: of(&turns, 0),
            late_ns: of(&turns, 1),
        };
        Ok((prices, speed))
    }
}

/// Does `work` while the client's CPU looks at the clock all the time, as it does between two requests.
fn beside_spinning<T>(client: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let spin = || {
            on_client(client, || {
                while !end.load(SeqCst) {
                    black_box(Instant::now());
                }
                Ok(())
            })
        };
        let spinning = scope.spawn(spin);
        let result = work();
        end.store(true, SeqCst);
        spinning.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        result
    })
}

/// What a request costs the worker, and the client.
fn burst(runtime: &quaver::Runtime, speed: Speed) -> Result<[u64; 2]> {
    let handle = runtime.handle();
    let (begin, done) = (Instant::now(), std::sync::Arc::new([const { AtomicU64::new(0) }; 3]));
    for _ in 0..BURST {
        let done = std::sync::Arc::clone(&done);
        let serve = move || {
            turn(speed.turns(SHORT));
            let now = begin.elapsed().as_nanos() as u64;
            let [count, first, last] = &*done;
            first.compare_exchange(0, now, SeqCst, SeqCst).ok();
            last.fetch_max(now, SeqCst);
            count.fetch_add(1, SeqCst);
        };
        handle.spawn_detached(serve).context("cannot start a request")?;
    }
    let sent = begin.elapsed().as_nanos() as u64;
    while done[0].load(SeqCst) < BURST {
        black_box(Instant::now());
    }
    let each = (done[2].load(SeqCst) - done[1].load(SeqCst)) / (BURST - 1);
    Ok([each.saturating_sub(SHORT.as_nanos() as u64), sent / BURST])
}

/// What a preemption costs, and how late it comes.
fn take_turns(runtime: &quaver::Runtime, speed: Speed) -> Result<[u64; 2]> {
    let before = runtime.stats();
    let took = runtime.run(move || {
        let begin = Instant::now();
        let both = [(); 2].map(|()| quaver::spawn(move || turn(speed.turns(TURNS))));
        both.into_iter().for_each(|thread| thread.join().expect("a loop does not panic"));
        begin.elapsed()
    });
    let count = runtime.stats().since(&before).preempt_useful as u32;
    ensure!(count > 0, "two threads ran beside each other without a preemption");
    let price = took.saturating_sub(2 * TURNS) / count;
    let late = (took / count).saturating_sub(QUANTUM + price);
    Ok([price.as_nanos() as u64, late.as_nanos() as u64])
}
