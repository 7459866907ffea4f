//! A graceful stop: workers finish what they have begun, and then end; who does not end in time is
//! named.
//!
//! A token ends sleeps and waits; busy loops ask it.

use quaver::sync::{CancelToken, mpsc, select};
use quaver::thread::Builder;
use std::time::Duration;

/// Does jobs until it is asked to stop; then those that are there already.
fn worker(jobs: &mpsc::Receiver<u32>, stop: &CancelToken) -> u32 {
    let mut done = 0;
    while select(&[jobs, stop]) == 0 {
        match jobs.try_recv() {
            Ok(_) => done += 1,
            Err(_) => return done,
        }
    }
    done + jobs.try_iter().count() as u32
}

/// Says that it lives, every millisecond.
fn heart(stop: &CancelToken) -> u32 {
    (0..).find(|_| stop.sleep(Duration::from_millis(1)).is_err()).unwrap_or(0)
}

/// Computes for ever; a preempted thread needs no yield, only the question.
fn miner(stop: &CancelToken) -> u64 {
    let mut n = 0u64;
    while !stop.is_cancelled() {
        n = std::hint::black_box(n + 1);
    }
    n
}

#[quaver::main(workers = 1, quantum = "50us")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = CancelToken::new();
    let (jobs, to_do) = mpsc::channel();

    let named = |name: &str| Builder::new().name(name.into());
    let working = named("worker").spawn({
        let stop = stop.clone();
        move || u64::from(worker(&to_do, &stop))
    })?;
    let beating = named("heart").spawn({
        let stop = stop.clone();
        move || u64::from(heart(&stop))
    })?;
    let mining = named("miner").spawn({
        let stop = stop.clone();
        move || miner(&stop)
    })?;

    for job in 0..1_000 {
        jobs.send(job)?;
    }
    quaver::sleep(Duration::from_millis(20));

    stop.cancel();
    let mut results = Vec::new();
    for thread in [working, beating, mining] {
        let name = thread.thread().name().unwrap_or_default();
        match thread.join_timeout(Duration::from_secs(10)) {
            Ok(result) => results.push((name, result.map_err(|_| "a thread panicked")?)),
            Err(_) => return Err(format!("{name} did not stop in time").into()),
        }
    }
    assert_eq!(results[0].1, 1_000, "no job is lost");
    for (name, count) in results {
        println!("{name}: {count}");
    }
    Ok(())
}
