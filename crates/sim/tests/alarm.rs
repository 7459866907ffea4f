//! Workers' own timers that are set only while something waits, and clocks that look seldom while
//! threads are short: the runtime's `posix-timer` and `timer-thread`.

use quaver_sim::{Options, Outcome, Scenario, simulate};

/// Of a trace of so many requests, `time_us,class,service_us` each, on one worker.
fn run(trace: &str, mechanism: &str, costs: &str) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, trace).unwrap();
    let text = format!(
        "[load]\ntrace = '{}'\nrequests = {}\nwarm-up = 0.0\n[server]\nworkers = 1\n\
         policy = \"two-queue:quantum=100us\"\nmechanism = \"{mechanism}\"\n[server.costs]\n\
         send = \"0s\"\ndeliver = \"2us\"\nreceive = \"10us\"\n{costs}",
        path.display(),
        trace.lines().count()
    );
    let scenario: Scenario = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let options = Options { check: true, ..Options::default() };
    simulate(&scenario, scenario.rates().unwrap()[0], &options).unwrap().0
}

const ALARM: &str = "late = \"1us\"\nlook = \"5us\"\narm = \"0s\"";

fn latest(outcome: &Outcome, class: &str) -> f64 {
    outcome.class(class).unwrap().latency_us.unwrap().max
}

fn is(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.002
}

/// Set for the short request at 162, the timer is still set when that has ended at 163. It expires
/// while the long one runs alone.
#[test]
fn a_timer_that_is_left_over_takes_time_of_another_thread() {
    let trace = "0,long,300\n150,short,1\n";
    let alarm = run(trace, "quaver-posix-timer", ALARM);
    let counts = alarm.counts;
    assert_eq!([counts.sent, counts.preemptions, counts.stale], [2, 1, 1]);
    assert!(is(latest(&alarm, "short"), 13.0) && is(latest(&alarm, "long"), 316.0), "{alarm:?}");
    // A timer that is always set for what runs is off then.
    let ideal = run(trace, "user-timer", "");
    assert_eq!(ideal.counts.stale, 0);
    assert!(is(latest(&ideal, "long"), 311.0), "{ideal:?}");
}

/// At 263 it is too early for the long request, which goes on since 192, and is set again for 292:
/// that is as late as if it had been set for this at once.
#[test]
fn a_timer_that_expires_too_early_is_set_for_the_rest() {
    let trace = "0,long,300\n150,short,30\n200,other,1\n";
    let outcome = run(trace, "quaver-posix-timer", ALARM);
    let counts = outcome.counts;
    assert_eq!([counts.sent, counts.preemptions, counts.stale], [4, 2, 1]);
    assert!(is(latest(&outcome, "other"), 104.0) && is(latest(&outcome, "long"), 356.0));
}

/// Nothing that outlives its quantum for 50 ms, but always something that waits; then two long
/// requests, each with a short one behind it.
fn short_ones_for_long() -> String {
    let mut trace: String =
        (0..500).map(|i| format!("{0},short,45\n{0},short,45\n", 100 * i)).collect();
    trace += "60000,long,3000\n60001,first,1\n65000,long,3000\n65001,second,1\n";
    trace
}

#[test]
fn looks_in_vain_become_rare_and_the_first_long_request_is_stopped_late() {
    for mechanism in ["quaver-posix-timer", "quaver-timer-thread"] {
        let of = |price: &str| {
            let costs = format!("late = \"1us\"\nlook = \"1us\"\nprice = \"{price}\"");
            run(&short_ones_for_long(), mechanism, &costs)
        };
        // A look that costs nothing is always on time.
        let (dear, free) = (of("25us"), of("0ns"));
        let [late, on_time] = [&dear, &free].map(|outcome| latest(outcome, "first"));
        assert!(late > 250.0 && late < 650.0 && on_time < 130.0, "{mechanism}: {late} {on_time}");
        for outcome in [&dear, &free] {
            let second = latest(outcome, "second");
            assert!(second < 130.0, "{mechanism}: {second}");
        }
        if mechanism == "quaver-posix-timer" {
            let [dear, free] = [dear.counts.stale, free.counts.stale];
            assert!(free > 300 && dear < free / 2, "{dear} {free}");
        }
    }
}

fn four_workers(costs: &str, rest: &str) -> Outcome {
    let text = format!(
        "[load]\nmix = \"short:95%:fixed=1us,long:5%:fixed=260us\"\nload = 0.6\n\
         requests = 20000\n[server]\nworkers = 4\nmechanism = \"quaver-posix-timer\"\n\
         policy = \"two-queue:quantum=20us\"\n[server.costs]\n{costs}\n{rest}"
    );
    let scenario: Scenario = text.parse().unwrap();
    let options = Options { check: true, ..Options::default() };
    simulate(&scenario, scenario.rates().unwrap()[0], &options).unwrap().0
}

/// Who brings work sets one timer. Another worker that begins to run a thread, beside which
/// something waits, sets its own.
#[test]
fn a_worker_pays_for_setting_its_timer_at_a_dispatch() {
    let overhead = |arm: &str| {
        let outcome = four_workers(&format!("arm = \"{arm}\""), "");
        outcome.workers.iter().map(|worker| worker.overhead).sum::<f64>()
    };
    let (dear, free) = (overhead("9us"), overhead("0s"));
    assert!(dear > free + 0.005, "{dear} {free}");
}

#[test]
fn a_timer_waits_for_a_stopped_worker() {
    let with = |noise: &str| four_workers("", noise);
    let (quiet, noisy) = (with(""), with("[noise]\nevery = \"20ms\"\nlasts = \"400us\""));
    assert!(latest(&noisy, "short") > latest(&quiet, "short") + 200.0);
    assert!(quiet.counts.stale > 0 && quiet.counts.preemptions > 0, "{:?}", quiet.counts);
}
