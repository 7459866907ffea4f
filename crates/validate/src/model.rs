//! The simulated side: the requests that the real side served, one for one and when they were sent,
//! at the measured prices. Rounds are simulated one after the other, with pauses in which all is
//! served.

use std::fmt::Write as _;

use std::time::Duration;

use anyhow::{Context, Result};
use quaver_load::Request;
use quaver_sim::{Delay, Options, Outcome, Scenario, simulate};

use super::prices::Prices;
use super::stops::{SPIN, Stops};

/// From the start of a round to the next one's: longer than any takes.
const ROUND: Duration = Duration::from_secs(60);

/// What the simulator is told beside the requests.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The policy with its quantum.
    pub policy: String,
    /// The clock's name.
    pub clock: String,
    /// Costs on the worker.
    pub prices: Prices,
}

/// The requests of a round, and the stops of the worker meanwhile.
#[derive(Debug)]
pub struct Round<'a> {
    /// In the order in which they were sent.
    pub requests: Vec<Request>,
    /// In the order of time.
    pub stops: &'a Stops,
}

/// What would have become of the requests of these rounds.
///
/// # Errors
///
/// When the requests cannot be written to a file for the simulator.
pub fn run(classes: &[String], rounds: &[Round<'_>], facts: &Facts) -> Result<Outcome> {
    let folder = tempfile::tempdir().context("cannot make a folder for the trace")?;
    let path = folder.path().join("requests.csv");
    let mut requests = String::from("time_us,class,service_us\n");
    let mut stops = String::from("time_us,cause,lasts_us\n");
    let (mut count, mut stopped) = (0, false);
    for (i, round) in (0..).zip(rounds) {
        let start = i * ROUND.as_nanos() as u64;
        for request in &round.requests {
            let class = &classes[request.class as usize];
            let (at, service) = (us(start + request.intended_ns), us(request.service_ns));
            let _ = writeln!(requests, "{at},{class},{service}");
        }
        for stop in &round.stops.all {
            let _ = writeln!(stops, "{},stop,{}", us(start + stop.at_ns), us(stop.ns));
        }
        count += round.requests.len();
        stopped |= !round.stops.all.is_empty();
    }
    std::fs::write(&path, requests).with_context(|| format!("cannot write {path:?}"))?;
    let path = path.to_str().context("the folder for temporary files has no name in UTF-8")?;
    let mut scenario: Scenario = scenario(path, count, facts).parse()?;
    if stopped {
        let trace = folder.path().join("stops.csv");
        std::fs::write(&trace, stops).with_context(|| format!("cannot write {trace:?}"))?;
        scenario.stops = Some(quaver_sim::Stops { trace });
    }
    let rate = scenario.rates()?[0];
    Ok(simulate(&scenario, rate, &Options::default())?.0)
}

fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// The mechanism of that clock, its costs, and how late it interrupts: a core that keeps time
/// whenever it does; the worker's own timer, or a thread that sleeps, unless who brings work does.
/// One worker hardly ever sets its timer elsewhere than in an interruption, whose price has it.
fn mechanism(clock: &str, prices: &Prices) -> String {
    let Prices { preemption, look, late, wake, deliver, interruption_ns, .. } = prices;
    let none = &Delay::default();
    let (name, late, deliver) = match clock {
        "timer-thread" => ("quaver-timer-thread", wake, deliver),
        "posix-timer" => ("quaver-posix-timer", late, deliver),
        _ => ("quaver-signal", none, late),
    };
    format!(
        "mechanism = \"{name}\"\n[server.costs]\nsend = \"0ns\"\nscan = \"0ns\"\n\
         late = \"{late}\"\ndeliver = \"{deliver}\"\n\
         receive = \"{preemption}\"\nlook = \"{look}\"\narm = \"0ns\"\n\
         price = \"{interruption_ns}ns\"\n"
    )
}

/// What a turn costs is paid at each beginning of one, also after another's end for a request that
/// was preempted. A new thread, and cold caches, are paid for once.
fn scenario(trace: &str, requests: usize, facts: &Facts) -> String {
    let Facts { policy, clock, prices } = facts;
    let mechanism = mechanism(clock, prices);
    let Prices { turn_ns, entry_ns, send_ns, start, .. } = prices;
    let spin = SPIN.as_nanos();
    format!(
        "[load]\ntrace = '{trace}'\nrequests = {requests}\nwarm-up = 0.0\n\
         network = \"{send_ns}ns\"\n\
         [server]\nworkers = 1\npolicy = \"{policy}\"\nsystem = \"quaver\"\n\
         {mechanism}dispatch = \"{turn_ns}ns\"\npreempt-switch = \"0ns\"\n\
         request = \"{entry_ns}ns\"\n\
         spin = \"{spin}ns\"\nwake = \"{start}\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::stops::Stop;
    use super::*;
    use quaver_load::{ArrivalProcess, Limit, Mix, Schedule};

    fn outcome(load: f64, stops: &Stops, clock: &str, late: &str) -> Outcome {
        run_with(load, stops, clock, late, "30us")
    }

    fn run_with(load: f64, stops: &Stops, clock: &str, late: &str, start: &str) -> Outcome {
        let mix: Mix = "short:95%:fixed=20us,long:5%:fixed=400us".parse().unwrap();
        let limit = Limit::Duration(Duration::from_secs(1));
        let rate = mix.capacity(1).unwrap() * load;
        let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, limit, 1).unwrap();
        let prices = Prices {
            request_ns: 1_000,
            turn_ns: 1_000,
            entry_ns: 0,
            send_ns: 2_000,
            preemption_ns: 5_000,
            preemption: Delay::Fixed(5_000),
            look: Delay::Fixed(4_000),
            interruption_ns: 5_000,
            late_ns: 3_000,
            late: late.parse().unwrap(),
            wake: late.parse().unwrap(),
            deliver: Delay::Fixed(3_000),
            start_ns: 30_000,
            start: start.parse().unwrap(),
        };
        let policy = "two-queue:quantum=100us".into();
        let facts = Facts { policy, clock: clock.into(), prices };
        let round = || Round { requests: Vec::from_iter(&schedule), stops };
        run(schedule.classes(), &[round(), round()], &facts).unwrap()
    }

    fn short(outcome: &Outcome) -> quaver_sim::Latency {
        outcome.class("short").unwrap().latency_us.unwrap()
    }

    #[test]
    fn a_lonely_request_takes_what_was_measured() {
        let of = |stops: &Stops| short(&outcome(0.003, stops, "timer-thread", "3us"));
        let stops = |ns: u64, every_ns: u64| Stops {
            watched_ns: 1_000_000_000,
            all: (1..1_000_000_000 / every_ns).map(|i| Stop { at_ns: i * every_ns, ns }).collect(),
        };
        let quiet = of(&Stops::default());
        // The request, its own cost, the client's, and waking the worker.
        assert!((quiet.p50 - 53.0).abs() < 0.5, "{quiet:?}");
        let disturbed = of(&stops(100_000, 200_000));
        assert!(disturbed.mean > quiet.mean + 10.0, "{disturbed:?}");
        // Whatever was measured, the simulation ends.
        of(&stops(3_000_000, 1_000_000));
    }

    /// A request that finds the worker asleep begins when that is awake, which takes now longer,
    /// now less.
    #[test]
    fn waking_up_takes_as_long_as_was_measured() {
        let of =
            |start: &str| short(&run_with(0.003, &Stops::default(), "timer-thread", "3us", start));
        let (same, seldom) = (of("30us"), of("quantiles=0%:30us,90%:30us,100%:2ms"));
        assert_eq!(same.p50, seldom.p50);
        assert!(seldom.p99 > same.p99 + 500.0, "{same:?} {seldom:?}");
    }

    #[test]
    fn late_preemptions_delay_short_requests_under_every_clock() {
        for clock in ["timer-thread", "posix-timer", "timer-core"] {
            let p99 = |late: &str| short(&outcome(0.7, &Stops::default(), clock, late)).p99;
            let late = "quantiles=0%:3us,90%:3us,100%:4ms";
            assert!(p99(late) > 1.2 * p99("3us"), "{clock}: {} {}", p99(late), p99("3us"));
        }
    }

    /// The worker's own timer expires for threads that have given way since, each time at a price.
    #[test]
    fn a_timer_of_the_worker_looks_in_vain() {
        let of = |clock: &str| outcome(0.7, &Stops::default(), clock, "3us");
        let (timer, core) = (of("posix-timer"), of("timer-core"));
        let [many, few] = [&timer, &core].map(|outcome| outcome.counts.stale);
        assert!(many > 10 * few.max(100), "{many} {few}");
        let [more, less] = [&timer, &core].map(|o| o.workers[0].overhead * o.seconds);
        assert!(more > less + 0.03, "{more} {less}");
    }

    /// Its thread may sleep while something comes that makes a preemption due.
    #[test]
    fn a_thread_that_sleeps_is_later_than_a_core() {
        let all = |clock: &str| short(&outcome(0.5, &Stops::default(), clock, "9us"));
        let (thread, core) = (all("timer-thread"), all("timer-core"));
        assert!(thread.p90 > core.p90 + 1.0, "{thread:?} {core:?}");
    }
}
