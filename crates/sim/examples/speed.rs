//! How many events one core simulates in a second of its time: `cargo run --release -p quaver-sim
//! --example speed`.
//!
//! A number of requests as an argument: only the last scenario, with a thousand workers, and so
//! many.

use std::error::Error;
use std::time::Instant;

use quaver_sim::{Options, Scenario, simulate};

/// What this thread has had of a CPU, in seconds: others may use the machine too.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = text.split_whitespace().next().ok_or("/proc/thread-self/schedstat is empty")?;
    Ok(ns.parse::<u64>()? as f64 / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let requests: Option<u64> = std::env::args().nth(1).map(|text| text.parse()).transpose()?;
    let scenarios =
        [(8, "two-queue:quantum=5us"), (8, "ws:quantum=5us"), (1_000, "two-queue:quantum=5us")];
    for (workers, policy) in scenarios {
        if requests.is_some() && workers < 1_000 {
            continue;
        }
        let requests = requests.unwrap_or(1_000_000);
        let text = format!(
            "[load]\nmix = \"get:95%:fixed=1us,scan:5%:fixed=100us\"\nload = 0.7\n\
             requests = {requests}\n\
             [server]\nworkers = {workers}\npolicy = \"{policy}\"\nmechanism = \"uintr\"\n\
             queues = \"rss\"\n"
        );
        let scenario: Scenario = text.parse()?;
        let rate = scenario.rates()?[0];
        let (start, cpu) = (Instant::now(), cpu_seconds()?);
        let (outcome, _) = simulate(&scenario, rate, &Options::default())?;
        let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        let events = outcome.counts.events as f64;
        println!(
            "{workers} workers, {policy}: {:.1} million events a second; {:.1} million events, \
             {cpu:.2} s of CPU, {wall:.2} s",
            events / cpu / 1e6,
            events / 1e6,
        );
    }
    Ok(())
}
