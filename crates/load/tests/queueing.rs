//! The whole path, from arrivals to the summary, against queueing theory: a single server with a
//! queue in simulated time. Fixed seeds: the results are always the same.

use std::cell::Cell;

use quaver_load::{
    ArrivalProcess, Clock as _, Limit, Mix, OpenLoop, Recorder, Schedule, Sent, SimClock, Summary,
};

/// Runs a first-come-first-served server at `load` with this service time and gives the results.
fn single_server(mix: &str, load: f64, requests: u64) -> Summary {
    let mix: Mix = mix.parse().unwrap();
    let rate = load * mix.capacity(1).unwrap();
    let limit = Limit::Requests(requests);
    let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, limit, 5).unwrap();
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let free_at = Cell::new(0);
    let clock = SimClock::new();
    let outcome = OpenLoop::new(&recorder).run(&schedule, &clock, |request| {
        let end = free_at.get().max(clock.now_ns()) + request.service_ns;
        free_at.set(end);
        let (recorder, id) = (&recorder, request.id);
        clock.at(end, move |clock| {
            recorder.complete(id, clock.now_ns());
        });
        Sent::Accepted
    });
    let summary = outcome.summary(&recorder);
    assert_eq!(summary.total.completed, requests);
    assert_eq!(summary.generator.as_ref().unwrap().lateness_ns.unwrap().max.value, 0);
    summary
}

/// Pollaczek and Khinchine: the mean sojourn time in units of the mean service time, whose squared
/// coefficient of variation is `cv2`.
fn sojourn(load: f64, cv2: f64) -> f64 {
    1.0 + load / (1.0 - load) * (1.0 + cv2) / 2.0
}

#[track_caller]
fn assert_within(got: f64, want: f64, relative: f64) {
    assert!(
        (got / want - 1.0).abs() <= relative,
        "{got} differs from {want} by more than {relative}"
    );
}

#[test]
fn fixed_service_times_give_the_mean_of_m_d_1() {
    for (load, tolerance) in [(0.3, 0.01), (0.7, 0.02), (0.9, 0.05)] {
        let summary = single_server("a:fixed=10us", load, 300_000);
        let latency = summary.total.latency_ns.unwrap();
        assert_within(latency.mean.value, 1e4 * sojourn(load, 0.0), tolerance);
        assert_within(summary.total.slowdown.unwrap().mean.value, sojourn(load, 0.0), tolerance);
        assert_within(summary.total.achieved_rate.unwrap(), load * 1e5, 0.01);
        assert_within(summary.total.offered_rate.unwrap(), load * 1e5, 0.01);
    }
}

#[test]
fn exponential_service_times_give_the_distribution_of_m_m_1() {
    let load = 0.7;
    let summary = single_server("a:exp=10us", load, 600_000);
    let latency = summary.total.latency_ns.unwrap();
    let mean = 1e4 * sojourn(load, 1.0);
    assert_within(latency.mean.value, mean, 0.03);
    // The sojourn time is exponential.
    assert_within(latency.p50.value as f64, mean * 2.0f64.ln(), 0.03);
    assert_within(latency.p99.value as f64, mean * 100.0f64.ln(), 0.04);
    assert_within(latency.p999.value as f64, mean * 1000.0f64.ln(), 0.08);
}

#[test]
fn a_bimodal_mix_gives_the_mean_of_m_g_1_and_short_requests_suffer() {
    let load = 0.5;
    let summary = single_server("short:99%:fixed=1us,long:1%:fixed=100us", load, 600_000);
    let (mean, square) = (0.99 * 1e3 + 0.01 * 1e5, 0.99 * 1e6 + 0.01 * 1e10);
    let cv2 = square / (mean * mean) - 1.0;
    let latency = summary.total.latency_ns.unwrap();
    assert_within(latency.mean.value, mean * sojourn(load, cv2), 0.05);
    let [short, long] = ["short", "long"].map(|name| summary.class(name).unwrap());
    assert_eq!(short.completed + long.completed, 600_000);
    assert!(short.slowdown.unwrap().p99.value > 50.0);
    assert!(long.slowdown.unwrap().p50.value < 2.0);
}
