//! Fig. 7: GETs and SCANs on one worker, preempted every 5 us by what the core model says that
//! interrupts cost.
//!
//! Twice. In the simulator (`quaver-sim`) the service, the scheduler and the network have the costs
//! of Aspen's runtime, and an interrupt costs what the core model says. On the core model itself a
//! [`server`] runs, with the same policy: there nothing is assumed, and preemptions disturb caches
//! and branches; but its runtime is a small one, and there is no network. It takes a second for
//! each millisecond.

use std::time::Duration;

use anyhow::{Context, Result};
use quaver_load::{ArrivalProcess, Limit, Schedule};
use quaver_sim::{Options, Outcome, Scenario};
use quaver_uarch::workload::BuildError;

use super::four;
use super::jobs;
use super::paper::Paper;
use super::rows::{Report, Row};
use super::server::{self, By, Served};
use crate::chart::{Chart, Curve, Line};
use crate::demo::table::mark;

/// A curve: what interrupts the worker, and how the simulator calls it.
struct System {
    name: &'static str,
    mechanism: &'static str,
    policy: &'static str,
    /// Which strategy of Fig. 4 says what an interrupt costs.
    strategy: Option<usize>,
    /// What interrupts the server on the model.
    by: By,
}

const SYSTEMS: [System; 3] = [
    System {
        name: "no preemption",
        mechanism: "none",
        policy: "ws:quantum=none",
        strategy: None,
        by: By::Nobody,
    },
    System { name: "UIPI", mechanism: "uintr", policy: POLICY, strategy: Some(0), by: By::Sender },
    System {
        name: "xUI",
        mechanism: "xui-timer",
        policy: POLICY,
        strategy: Some(2),
        by: By::Timer,
    },
];
/// What is asked for, as the mix calls it.
const CLASSES: [&str; 2] = ["get", "scan"];
/// The charts, and whether the objective is theirs.
const TITLES: [(&str, bool); 2] =
    [("99th percentile of GETs", true), ("99th percentile of SCANs", false)];
const POLICY: &str = "aspen:quantum=5us,long=500us,max-age=none";

/// Requests a second of the curves.
const RATES: [u32; 12] = [20, 40, 60, 80, 100, 110, 120, 130, 140, 150, 160, 170];

/// The same on the core model, and for how long; in a quick look only the last.
const ON_MODEL: [u32; 5] = [20, 60, 100, 140, 170];
const SPANS: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(4)];

/// Computes the figure.
///
/// # Errors
///
/// The core model cannot run the programs that say what interrupts cost.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried().fig7_text;
    // Whoever has no Rust sees what is simulated.
    let (program, missing) = match server::program() {
        Ok(program) => (Some(program), None),
        Err(error @ BuildError::NoRust { .. }) => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let costs = four::costs(paper.quantum_us, quick)?;
    let requests = if quick { 100_000 } else { 400_000 };
    let name = |(system, rate): &(usize, Option<u32>)| match rate {
        Some(rate) => format!("{} at {rate} krps", SYSTEMS[*system].name),
        None => format!("{}, the most", SYSTEMS[*system].name),
    };
    let mut wanted = Vec::new();
    for system in 0..SYSTEMS.len() {
        wanted.push((system, None));
        wanted.extend(RATES.iter().map(|&rate| (system, Some(rate))));
    }
    let runs = jobs::all(&wanted, name, |&(system, rate)| {
        let scenario = scenario(&SYSTEMS[system], &paper.mix, &costs, requests)?;
        match rate {
            Some(rate) => {
                let outcome = simulate(&scenario, f64::from(rate) * 1e3)?;
                Ok([p99(&outcome, CLASSES[0])?, p99(&outcome, CLASSES[1])?])
            }
            None => Ok([Some(most(&scenario, paper.slo_us)?), None]),
        }
    })?;
    let values = |system, rate| {
        let place = wanted.iter().position(|known| *known == (system, rate));
        runs[place.expect("it was run")]
    };
    let value = |system, rate| values(system, rate)[0];
    let best = [0, 1, 2].map(|system| value(system, None).unwrap_or_default());

    let rates = if quick { &ON_MODEL[ON_MODEL.len() - 1..] } else { &ON_MODEL[..] };
    let model = match &program {
        Some(program) => on_model(program, &paper.mix, rates, quick)?,
        None => Vec::new(),
    };
    let mut charts = Vec::new();
    for (class, (title, limit)) in TITLES.into_iter().enumerate() {
        let mut curves = Vec::new();
        for (colour, system) in SYSTEMS.iter().enumerate() {
            let points = RATES.iter().filter_map(|&rate| {
                let us = values(colour, Some(rate))[class];
                Some((f64::from(rate), us.filter(|us| *us > 0.0)?))
            });
            let (name, points) = (system.name.to_owned(), points.collect());
            curves.push(Curve { name, colour, line: Line::Thick, points });
        }
        for (colour, system) in SYSTEMS.iter().enumerate() {
            let points = rates.iter().zip(&model);
            let points =
                points.filter_map(|(&rate, all)| Some((f64::from(rate), all[colour].us[class]?)));
            let name = format!("{}, on the model", system.name);
            curves.push(Curve { name, colour, line: Line::Dashed, points: points.collect() });
        }
        curves.retain(|curve| !curve.points.is_empty());
        let limit = limit.then_some(("objective", paper.slo_us));
        let (x, y) = ("thousand requests/s", "µs");
        charts.push(Chart { title, x, y, log: true, label: mark, limit }.draw(&curves)?);
    }
    let gain = Row::new("xUI over UIPI, throughput", "ratio", paper.gain, best[2] / best[1]);
    // What the core does at the highest rate: as much more could it serve.
    let on_model = model.last().map(|highest| {
        let more = highest[1].served.busy_ns as f64 / highest[2].served.busy_ns as f64;
        Row::new("the same on the model", "ratio", paper.gain, more)
    });
    let said = |system: usize, rate| {
        value(system, Some(rate)).map_or("unbounded".into(), |us| format!("{us:.0} us"))
    };
    let mut notes = vec![
        format!(
            "an interrupt costs {:.0} cycles by UIPI and {:.0} by the timer: the mean over the \
             programs of figure 4, at this quantum",
            costs[0], costs[2]
        ),
        format!(
            "within {} us, in thousand requests/s: {:.0} without preemption, {:.0} by UIPI, \
             {:.0} by xUI; the paper: UIPI keeps GETs at a few hundred us beyond 100",
            paper.slo_us,
            best[0] / 1e3,
            best[1] / 1e3,
            best[2] / 1e3
        ),
        format!(
            "at 20 thousand requests/s: {} without preemption (the paper: hundreds), {} by UIPI, \
             {} by xUI",
            said(0, 20),
            said(1, 20),
            said(2, 20)
        ),
        "simulated: the worker, its scheduler and the network; their costs are those of system \
         aspen-kb in costs.toml"
            .into(),
        missing.map_or(
            "on the model: a server with the scheduler's code, without a network".into(),
            |why| format!("not run on the model: {why}"),
        ),
    ];
    for (rate, all) in rates.iter().zip(&model) {
        let said = |i: usize| {
            let Point { us, served } = &all[i];
            let Served { preemptions, interrupts, .. } = served;
            let counts = format!("{interrupts} interrupts, {preemptions} preemptions");
            let [get, scan] = us.map(|us| us.map_or("none".into(), |us| format!("{us:.1}")));
            format!("{get} and {scan} us with {} ({counts})", SYSTEMS[i].name)
        };
        notes.push(format!(
            "on the model at {rate}, GETs and SCANs: {}, {}, {}",
            said(0),
            said(1),
            said(2)
        ));
    }
    if !gain.within(0.02) {
        notes.push(format!(
            "the paper's gain of {:.0} % is not reached: {:.0} cycles less for each interruption \
             are {:.1} % of a quantum of {} us, and the rest of a preemption costs both the same",
            (paper.gain - 1.0) * 100.0,
            costs[0] - costs[2],
            (costs[0] - costs[2]) / f64::from(paper.quantum_us) / 20.0,
            paper.quantum_us
        ));
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        figure: "figure 7".into(),
        title: "a key-value store with preemption by UIPI and by xUI",
        quick,
        rows: std::iter::once(gain).chain(on_model).collect(),
        summary: Vec::new(),
        notes,
        charts,
    })
}

/// A run on the model, and the 99th percentiles of its GETs and SCANs, if there were any.
struct Point {
    us: [Option<f64>; 2],
    served: Served,
}

/// All systems at these rates on the model, with the same requests.
fn on_model(program: &[u8], mix: &str, rates: &[u32], quick: bool) -> Result<Vec<Vec<Point>>> {
    let mix = mix.parse().context("the mix")?;
    let span = Limit::Duration(SPANS[usize::from(quick)]);
    let systems = 0..SYSTEMS.len();
    let wanted: Vec<_> =
        rates.iter().flat_map(|&rate| systems.clone().map(move |system| (rate, system))).collect();
    let name = |(rate, system): &(u32, usize)| format!("{} at {rate} krps", SYSTEMS[*system].name);
    let mut points = jobs::all(&wanted, name, |&(rate, system)| {
        let rate = f64::from(rate) * 1e3;
        let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, span, 7)?;
        let System { policy, by, .. } = SYSTEMS[system];
        let served = server::serve(program, &schedule, policy, by)?;
        let us = [0, 1].map(|class| server::percentile(&schedule, &served, class, 99).ok());
        Ok(Point { us, served })
    })?
    .into_iter();
    Ok(rates.iter().map(|_| points.by_ref().take(SYSTEMS.len()).collect()).collect())
}

/// One worker; `costs` in cycles by strategy.
fn scenario(system: &System, mix: &str, costs: &[f64; 3], requests: u64) -> Result<Scenario> {
    let receive = system.strategy.map_or_else(String::new, |strategy| {
        // Two cycles are a nanosecond.
        format!("[server.costs]\nreceive = {}\n", (costs[strategy] / 2.0).round().max(0.0))
    });
    let timer = system.mechanism == "uintr";
    let text = format!(
        "seed = 7\n[load]\nmix = \"{mix}\"\nrate = 1000.0\nrequests = {requests}\n\
         [server]\nworkers = 1\npolicy = \"{}\"\nmechanism = \"{}\"\nsystem = \"aspen-kb\"\n\
         threads = 64\nqueues = \"rss\"\nrun-on = true\nonce-a-quantum = {timer}\n{receive}",
        system.policy, system.mechanism
    );
    text.parse().context("the scenario")
}

fn simulate(scenario: &Scenario, rate: f64) -> Result<Outcome> {
    Ok(quaver_sim::simulate(scenario, rate, &Options::default())?.0)
}

/// The 99th percentile of a class in microseconds, unless the worker cannot follow.
fn p99(outcome: &Outcome, class: &str) -> Result<Option<f64>> {
    let of = outcome.class(class).with_context(|| format!("there are no requests {class}"))?;
    Ok(if outcome.unstable { None } else { of.latency_us.map(|latency| latency.p99) })
}

/// The highest rate within the objective, to a part in a thousand.
fn most(scenario: &Scenario, limit: f64) -> Result<f64> {
    let (mut low, mut high) = (0.0, scenario.capacity()?);
    while high - low > high / 1000.0 {
        let middle = f64::midpoint(low, high);
        let p99 = p99(&simulate(scenario, middle)?, CLASSES[0])?;
        (low, high) =
            if p99.is_some_and(|us| us <= limit) { (middle, high) } else { (low, middle) };
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheaper_interrupts_leave_more_for_requests() {
        let mix = Paper::carried().fig7_text.mix;
        let most = |system: &System, costs| {
            most(&scenario(system, &mix, &costs, 100_000).unwrap(), 1000.0).unwrap()
        };
        let none = most(&SYSTEMS[0], [0.0; 3]);
        let dear = most(&SYSTEMS[1], [2000.0, 0.0, 0.0]);
        let cheap = most(&SYSTEMS[1], [200.0, 0.0, 0.0]);
        assert!(cheap > 1.03 * dear, "{cheap} and {dear}");
        assert!(cheap > 1.5 * none, "{cheap} and {none}: SCANs block GETs");
    }

    /// What the charts show: GETs no longer wait for SCANs, which pay for it at high load (6.2.1).
    #[test]
    fn preemption_takes_from_scans_what_it_gives_to_gets() {
        let mix = Paper::carried().fig7_text.mix;
        let at = |system: &System, rate| {
            let scenario = scenario(system, &mix, &[600.0, 0.0, 100.0], 100_000).unwrap();
            let outcome = simulate(&scenario, rate).unwrap();
            CLASSES.map(|class| p99(&outcome, class).unwrap().unwrap())
        };
        for rate in [20e3, 140e3] {
            let [none, uipi, xui] = [0, 1, 2].map(|system| at(&SYSTEMS[system], rate));
            for preempted in [uipi, xui] {
                assert!(preempted[0] < 0.5 * none[0], "{rate}: {preempted:?} and {none:?}");
                assert!(preempted[1] > none[1], "{rate}: {preempted:?} and {none:?}");
            }
        }
    }
}
