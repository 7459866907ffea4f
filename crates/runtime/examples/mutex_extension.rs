//! What `Builder::mutex_extension` buys: threads of one worker that share a mutex, with the
//! extension and without, in turns.
//!
//! Each thread computes, takes the mutex, computes, and frees it. The first argument is how many
//! rounds of each to measure (a few milliseconds each); then follow medians of the steps per
//! second and of their ratio, with the quarters below and above, and what an uncontended pair of
//! calls costs.

use quaver::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const THREADS: usize = 8;
const TIME: Duration = Duration::from_millis(40);
const QUANTUM: Duration = Duration::from_micros(50);

fn work(n: u32) {
    for i in 0..n {
        std::hint::black_box(i);
    }
}

fn build(extension: Duration) -> quaver::Runtime {
    let builder = quaver::Builder::new().workers(1).quantum(Some(QUANTUM)).tax(100);
    builder.mutex_extension(extension).build().unwrap()
}

/// Steps per second of all threads.
fn steps(extension: Duration, outside: u32, inside: u32) -> f64 {
    build(extension).run(|| {
        let (total, stop, mutex) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(0u64));
        let start = Instant::now();
        quaver::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    let mut own = 0;
                    while !stop.load(Relaxed) {
                        work(outside);
                        let mut value = mutex.lock().unwrap();
                        work(inside);
                        *value += 1;
                        drop(value);
                        own += 1;
                    }
                    total.fetch_add(own, Relaxed);
                });
            }
            s.spawn(|| {
                quaver::sleep(TIME);
                stop.store(true, Relaxed);
            });
        });
        total.load(Relaxed) as f64 / start.elapsed().as_secs_f64()
    })
}

/// Nanoseconds of a lock and an unlock.
fn pair(extension: Duration) -> f64 {
    const N: u32 = 200_000;
    build(extension).run(|| {
        let mutex = Mutex::new(0u64);
        let start = Instant::now();
        for _ in 0..N {
            *std::hint::black_box(&mutex).lock().unwrap() += 1;
        }
        start.elapsed().as_nanos() as f64 / f64::from(N)
    })
}

/// The quarter, the half and three quarters of the values.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|q| values[(values.len() - 1) * q / 4])
}

fn compare(name: &str, rounds: usize, measure: impl Fn(Duration) -> f64) {
    for extension in [5, 20, 100].map(Duration::from_micros) {
        let mut off = Vec::new();
        let mut ratios = Vec::new();
        for round in 0..rounds {
            // Who is first takes turns, too.
            let (a, b) = if round % 2 == 0 {
                let a = measure(Duration::ZERO);
                (a, measure(extension))
            } else {
                let b = measure(extension);
                (measure(Duration::ZERO), b)
            };
            off.push(a);
            ratios.push(b / a);
        }
        let ([_, off, _], [low, ratio, high]) = (quartiles(off), quartiles(ratios));
        println!("{name}, {extension:?}: off {off:.4}, on/off {ratio:.3} [{low:.3}, {high:.3}]");
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(1, |n| n.parse().expect("a number of rounds"));
    compare("lock and unlock, ns", rounds, pair);
    for (outside, inside) in [(10_000, 100), (10_000, 1000), (2000, 2000), (1000, 10_000)] {
        let name = format!("steps per second, {outside} out, {inside} in");
        compare(&name, rounds, |extension| steps(extension, outside, inside));
    }
}
