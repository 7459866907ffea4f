//! The simulator against queueing theory, where nothing costs anything.

use quaver_sim::{Latency, Options, Outcome, Scenario, simulate};

/// Checked at every event, with costs that are all zero.
fn run(server: &str, mix: &str, load: f64, requests: u64, seed: u64) -> Outcome {
    let text = format!(
        "seed = {seed}\n[load]\nmix = \"{mix}\"\nload = {load}\nrequests = {requests}\n[server]\n\
         {server}\n"
    );
    let scenario: Scenario = text.parse().unwrap();
    let rate = scenario.rates().unwrap()[0];
    let options = Options { check: true, ..Options::default() };
    simulate(&scenario, rate, &options).unwrap().0
}

fn latency(outcome: &Outcome) -> Latency {
    outcome.total.latency_us.unwrap()
}

/// The mean over several seeds lies within three standard errors of theory, and those are small.
fn mean_agrees(server: &str, mix: &str, load: f64, theory_us: f64) {
    let means: Vec<f64> =
        (1..=12).map(|seed| latency(&run(server, mix, load, 30_000, seed)).mean).collect();
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (count - 1.0);
    let error = (variance / count).sqrt();
    assert!(error < 0.05 * theory_us, "{mix} at {load}: too wide, {mean} +- {error}");
    let distance = (mean - theory_us).abs();
    assert!(
        distance < 3.0 * error + 0.002 * theory_us,
        "{mix} at {load}: {mean} +- {error}, theory {theory_us}"
    );
}

const FIFO: &str = "workers = 1\npolicy = \"fifo\"";
/// Processor sharing in the limit of a short quantum.
const PS: &str = "workers = 1\npolicy = \"rr:quantum=100ns\"\nmechanism = \"free\"";

#[test]
fn m_m_1() {
    for load in [0.3, 0.5, 0.7, 0.8] {
        mean_agrees(FIFO, "a:1:exp=10us", load, 10.0 / (1.0 - load));
    }
    // The latency itself is exponential.
    let all = latency(&run(FIFO, "a:1:exp=10us", 0.5, 400_000, 1));
    assert!((all.p50 / (20.0 * 2f64.ln()) - 1.0).abs() < 0.03, "{}", all.p50);
    assert!((all.p99 / (20.0 * 100f64.ln()) - 1.0).abs() < 0.05, "{}", all.p99);
}

/// Pollaczek-Khinchine: the wait is load / (1 - load) times the mean rest of a service time.
#[test]
fn m_g_1() {
    for load in [0.4, 0.7] {
        let fixed = 10.0 + load / (1.0 - load) * 5.0;
        mean_agrees(FIFO, "a:1:fixed=10us", load, fixed);
        let (mean, square) = (0.9 * 1.0 + 0.1 * 50.0, 0.9 * 1.0 + 0.1 * 2500.0);
        let bimodal = mean + load / (1.0 - load) * square / (2.0 * mean);
        mean_agrees(FIFO, "a:1:bimodal=90%/1us/50us", load, bimodal);
        let (mean, square) = (5.5, (1.0 + 10.0 + 100.0) / 3.0);
        let uniform = mean + load / (1.0 - load) * square / (2.0 * mean);
        mean_agrees(FIFO, "a:1:uniform=1us..10us", load, uniform);
    }
}

/// Under processor sharing the mean latency depends on the mean service time only: the slowdown is
/// 1 / (1 - load) for everybody.
#[test]
fn m_g_1_ps() {
    for mix in ["a:1:exp=4us", "a:1:bimodal=90%/1us/31us"] {
        mean_agrees(PS, mix, 0.6, 4.0 / 0.4);
    }
    let both = run(PS, "short:9:fixed=1us,long:1:fixed=31us", 0.6, 200_000, 1);
    for class in &both.classes {
        let slowdown = class.slowdown.unwrap().mean;
        assert!((slowdown * 0.4 - 1.0).abs() < 0.06, "{}: {slowdown}", class.name);
    }
}

/// Erlang's C: the probability that a request waits, with `c` workers.
fn erlang_c(workers: u32, load: f64) -> f64 {
    let offered = load * f64::from(workers);
    let term = |k: u32| (1..=k).fold(1.0, |t, i| t * offered / f64::from(i));
    let last = term(workers) / (1.0 - load);
    last / ((0..workers).map(term).sum::<f64>() + last)
}

#[test]
fn m_m_c() {
    for (workers, load) in [(2, 0.7), (4, 0.8), (16, 0.85)] {
        let wait = erlang_c(workers, load) * 10.0 / (f64::from(workers) * (1.0 - load));
        let server = format!("workers = {workers}\npolicy = \"fifo\"");
        mean_agrees(&server, "a:1:exp=10us", load, 10.0 + wait);
        // Stealing without cost is one queue, but for the order.
        let server = format!("workers = {workers}\npolicy = \"ws:quantum=none\"\nqueues = \"rss\"");
        mean_agrees(&server, "a:1:exp=10us", load, 10.0 + wait);
    }
}

/// The error that a run states is that of its mean, also where a long queue makes neighbours alike:
/// the spread of the means of independent runs.
#[test]
fn the_standard_error_is_the_spread_of_means() {
    for load in [0.5, 0.95] {
        let runs: Vec<_> =
            (1..=24).map(|seed| latency(&run(FIFO, "a:1:exp=10us", load, 60_000, seed))).collect();
        let count = runs.len() as f64;
        let mean = runs.iter().map(|run| run.mean).sum::<f64>() / count;
        let spread = runs.iter().map(|run| (run.mean - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let stated =
            runs.iter().map(|run| run.standard_error.unwrap().powi(2)).sum::<f64>() / count;
        let ratio = (stated / spread).sqrt();
        assert!((0.6..1.6).contains(&ratio), "{load}: stated {stated}, spread {spread}: {ratio}");
    }
}
