//! How many events a second one core simulates: `cargo run --release -p quaver-sim --example speed`.

use std::time::Instant;

use quaver_sim::{Options, Scenario, ScenarioError, simulate};

fn main() -> Result<(), ScenarioError> {
    for (workers, policy) in
        [(8, "two-queue:quantum=5us"), (8, "ws:quantum=5us"), (1_000, "two-queue:quantum=5us")]
    {
        let text = format!(
            "[load]\nmix = \"get:95%:fixed=1us,scan:5%:fixed=100us\"\nload = 0.7\nrequests = 1000000\n\
             [server]\nworkers = {workers}\npolicy = \"{policy}\"\nmechanism = \"uintr\"\nqueues = \"rss\"\n"
        );
        let scenario: Scenario = text.parse()?;
        let rate = scenario.rates()?[0];
        let start = Instant::now();
        let (outcome, _) = simulate(&scenario, rate, &Options::default())?;
        let seconds = start.elapsed().as_secs_f64();
        let events = outcome.counts.events as f64;
        println!(
            "{workers} workers, {policy}: {:.1} million events a second",
            events / seconds / 1e6
        );
    }
    Ok(())
}
