//! The simulated side: the requests that the real side served, one for one, at the measured prices.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use quaver_load::Schedule;
use quaver_sim::{Options, Outcome, Scenario, simulate};

use super::prices::Prices;
use super::waits::Waits;

/// What the simulator is told beside the requests.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The policy with its quantum.
    pub policy: String,
    /// The clock's name.
    pub clock: String,
    /// Costs on the worker.
    pub prices: Prices,
    /// What lies between a client and a worker that sleeps, in nanoseconds.
    pub offset_ns: u64,
}

/// What would have become of the requests of `schedule`, while the kernel took `waits` from the worker's time `took`.
///
/// # Errors
///
/// When the requests cannot be written to a file for the simulator.
pub fn run(schedule: &Schedule, took: Duration, waits: Waits, facts: &Facts) -> Result<Outcome> {
    let folder = tempfile::tempdir().context("cannot make a folder for the trace")?;
    let path = folder.path().join("requests.csv");
    std::fs::write(&path, trace(schedule)).with_context(|| format!("cannot write {path:?}"))?;
    let path = path.to_str().context("the folder for temporary files has no name in UTF-8")?;
    let text = scenario(path, schedule.count(), &noise(took, waits), facts);
    let scenario: Scenario = text.parse()?;
    let rate = scenario.rates()?[0];
    Ok(simulate(&scenario, rate, &Options::default())?.0)
}

fn trace(schedule: &Schedule) -> String {
    let mut text = String::from("time_us,class,service_us\n");
    let classes = schedule.classes();
    for request in schedule.iter() {
        let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let class = &classes[request.class as usize];
        let _ = writeln!(text, "{},{class},{}", us(request.intended_ns), us(request.service_ns));
    }
    text
}

/// As many waits of their mean length. Those that were too few to matter are left out.
fn noise(took: Duration, waits: Waits) -> String {
    let Some(mean_ns) = waits.total_ns.checked_div(waits.count).filter(|&ns| ns > 0) else {
        return String::new();
    };
    // A worker that never ran serves nothing, and could not be simulated.
    let every_ns = (took.as_nanos() as u64 / waits.count).max(mean_ns + mean_ns / 10 + 1);
    format!("[noise]\nevery = \"{every_ns}ns\"\nlasts = \"exp={mean_ns}ns\"\n")
}

fn scenario(trace: &str, requests: u64, noise: &str, facts: &Facts) -> String {
    let Facts { policy, clock, prices, offset_ns } = facts;
    let mechanism = match clock.as_str() {
        "posix-timer" => "quaver-posix-timer",
        _ => "quaver-signal",
    };
    let wake = offset_ns.saturating_sub(prices.send_ns);
    let Prices { request_ns, send_ns, preemption_ns, late_ns } = prices;
    format!(
        "[load]\ntrace = '{trace}'\nrequests = {requests}\nnetwork = \"{send_ns}ns\"\n\
         [server]\nworkers = 1\npolicy = \"{policy}\"\nmechanism = \"{mechanism}\"\nsystem = \"quaver\"\n\
         [server.costs]\nsend = \"0ns\"\nscan = \"0ns\"\ndeliver = \"{late_ns}ns\"\nreceive = \"{preemption_ns}ns\"\n\
         dispatch = \"0ns\"\npreempt-switch = \"0ns\"\nrequest = \"{request_ns}ns\"\nwake = \"{wake}ns\"\n{noise}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_load::{ArrivalProcess, Limit, Mix};

    fn outcome(waits: Waits) -> Outcome {
        let mix: Mix = "short:95%:fixed=20us,long:5%:fixed=400us".parse().unwrap();
        let span = Duration::from_secs(1);
        let limit = Limit::Duration(span);
        let schedule = Schedule::new(ArrivalProcess::Poisson, 100.0, &mix, limit, 1).unwrap();
        let prices =
            Prices { request_ns: 1_000, send_ns: 2_000, preemption_ns: 5_000, late_ns: 3_000 };
        let facts = Facts {
            policy: "two-queue:quantum=100us".into(),
            clock: "timer-thread".into(),
            prices,
            offset_ns: 32_000,
        };
        run(&schedule, span, waits, &facts).unwrap()
    }

    #[test]
    fn a_lonely_request_takes_what_was_measured() {
        let p50 = |outcome: &Outcome| outcome.classes[0].latency_us.unwrap().p50;
        let quiet = outcome(Waits::default());
        // The request, its own cost, the client's, and waking the worker.
        assert!((p50(&quiet) - 53.0).abs() < 0.5, "{}", p50(&quiet));
        let disturbed = outcome(Waits { count: 5_000, total_ns: 500_000_000 });
        assert!(p50(&disturbed) > 60.0, "{}", p50(&disturbed));
        // Whatever was measured, the simulation ends.
        outcome(Waits { count: 1_000, total_ns: 3_000_000_000 });
    }
}
