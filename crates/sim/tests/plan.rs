//! What a plan answers, and that it is the answer.

use std::time::Duration;

use quaver_sim::plan::{Found, candidates, plan, ratio};
use quaver_sim::{Options, Scenario, ScenarioError, Timer, simulate};

fn scenario(text: &str) -> Scenario {
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The plan is what trying everything finds.
#[test]
fn a_plan_agrees_with_brute_force() {
    for (rate, text) in
        [(60_000.0, "short:p99<=30us"), (150_000.0, "short:p99.9<=40us"), (90_000.0, "p99<=20x")]
    {
        let file = format!(
            "[load]\nmix = \"short:95%:exp=2us,long:5%:fixed=100us\"\nrate = {rate}\n\
             requests = 4000\n[server]\nworkers = 1\n\
             [plan]\nslo = \"{text}\"\npolicies = [\"fifo\", \"two-queue\", \"las\"]\n\
             quanta = [\"5us\", \"20us\"]\n\
             mechanisms = [\"uintr\", \"signal\", \"xui-timer\"]\nmax-cores = 12"
        );
        let scenario = scenario(&file);
        let found = plan(&scenario, |_| ()).unwrap();
        let slo = &scenario.plan.as_ref().unwrap().slo;
        let mut least: Option<(usize, f64)> = None;
        for (policy, mechanism) in candidates(&scenario) {
            for workers in 1..=12 {
                let mut here = scenario.clone();
                here.server.workers = workers;
                here.server.policy = policy.clone();
                here.server.mechanism = mechanism.clone();
                let timer = mechanism.value.timer == Timer::Core;
                let timer = timer && policy.quantum().is_some_and(|q| q > Duration::ZERO);
                let cores = workers + usize::from(timer);
                let (outcome, _) = simulate(&here, rate, &Options::default()).unwrap();
                if let Some(ratio) = ratio(&outcome, slo)
                    && ratio <= 1.0
                    && cores <= 12
                    && least.is_none_or(|best| (cores, ratio) < best)
                {
                    least = Some((cores, ratio));
                }
            }
        }
        let best = found.best.map(|best| (best.candidate.cores, best.ratio.unwrap()));
        assert!(best.is_some());
        assert_eq!(best, least, "{rate} {text}");
    }
}

/// With `each-mechanism` each has the plan that it would have alone.
#[test]
fn each_mechanism_has_its_own_plan() {
    let load = "mix = \"get:99.5%:fixed=1.2us,scan:0.5%:fixed=580us\"\nrate = 1000000.0\n\
                requests = 20000";
    let keys = |mechanisms: &str, more: &str| {
        format!(
            "slo = \"get:p99<=100us\"\npolicies = [\"two-queue\"]\nquanta = [\"5us\"]\n\
             mechanisms = [{mechanisms}]\n{more}"
        )
    };
    let names = ["signal", "uintr", "xui-timer"];
    let all = keys("\"signal\", \"uintr\", \"xui-timer\"", "each-mechanism = true");
    let found = of(load, &all).unwrap();
    let each: Vec<_> = found.each.iter().map(|tried| &*tried.candidate.mechanism).collect();
    assert_eq!(each, names);
    for (name, tried) in names.into_iter().zip(&found.each) {
        let alone = of(load, &keys(&format!("\"{name}\""), "")).unwrap();
        assert_eq!(alone.best.as_ref(), Some(tried));
        assert!(alone.each.is_empty());
    }
    // No core that keeps time; and more room by cheaper interrupts where cores are as many.
    let cores = |place: usize| found.each[place].candidate.cores;
    assert!(cores(2) < cores(1) && cores(1) == cores(0), "{:?}", found.each);
    assert!(found.each[1].ratio < found.each[0].ratio, "{:?}", found.each);
    assert_eq!(found.best.unwrap().candidate.mechanism, "xui-timer");
}

/// A mechanism with which no server up to the limit of cores is enough is missing.
#[test]
fn a_mechanism_without_a_plan_is_missing() {
    let load = "mix = \"get:99.5%:fixed=1.2us,scan:0.5%:fixed=580us\"\nrate = 100000.0\n\
                requests = 20000";
    let keys = "slo = \"get:p99<=20us\"\npolicies = [\"two-queue\"]\nquanta = [\"5us\"]\n\
                mechanisms = [\"xui-timer\", \"none\"]\neach-mechanism = true\nmax-cores = 1";
    let found = of(load, keys).unwrap();
    let each: Vec<_> = found.each.iter().map(|tried| &*tried.candidate.mechanism).collect();
    assert_eq!(each, ["xui-timer"]);
}

fn of(load: &str, plan_keys: &str) -> Result<Found, ScenarioError> {
    let text = format!("[load]\n{load}\n[server]\nworkers = 1\n[plan]\n{plan_keys}\n");
    plan(&scenario(&text), |_| ())
}

const TWO: &str =
    "mix = \"short:95%:fixed=2us,long:5%:fixed=100us\"\nrate = 60000.0\nrequests = 4000";

/// Other quanta change only the times that nobody has set.
#[test]
fn quanta_leave_other_parameters_alone() {
    let keys = "slo = \"p99<=1ms\"\nquanta = [\"5us\", \"40us\"]\n\
                policies = [\"two-queue:max-age=3ms\", \"cfs:latency=30us\", \
                \"two-queue:long=80us\"]";
    let text = format!("[load]\n{TWO}\n[server]\nworkers = 1\n[plan]\n{keys}\n");
    let policies: Vec<String> =
        candidates(&scenario(&text)).iter().map(|(policy, _)| policy.to_string()).collect();
    assert_eq!(
        policies,
        [
            "two-queue:quantum=5us,long=100us,max-age=3ms",
            "two-queue:quantum=40us,long=800us,max-age=3ms",
            "cfs:quantum=5us,latency=30us",
            "cfs:quantum=40us,latency=40us",
            "two-queue:quantum=5us,long=80us,max-age=2.5ms",
            "two-queue:quantum=40us,long=80us,max-age=20ms",
        ]
    );
}

/// More cores do not make a request shorter.
#[test]
fn an_objective_below_the_service_time_is_met_by_no_server() {
    for (more, slo, part) in [
        ("", "long:p50<=50us", "long:p50<=50us: the service time of `long` alone takes 100"),
        ("", "p99<=20us", "of all requests alone takes 100"),
        ("\nnetwork = \"3us\"", "short:p50<=4us", "`short` alone with the network takes 5"),
        ("", "p99<=0.5x", "never below 1"),
    ] {
        let found = of(&format!("{TWO}{more}"), &format!("slo = \"{slo}\"")).unwrap();
        assert!(found.best.is_none() && found.tried.is_empty(), "{found:?}");
        assert!(found.impossible[0].contains(part), "{:?}", found.impossible);
    }
    // Exactly the service time is not below it.
    let found = of(&TWO.replace("60000", "10"), "slo = \"long:p50<=100us\"").unwrap();
    assert!(found.impossible.is_empty(), "{:?}", found.impossible);
}

/// Nothing is known of what was never counted: that is no server that cannot follow.
#[test]
fn an_objective_without_requests_is_refused() {
    let load = "mix = \"a:99.99:fixed=1us,b:0.01:fixed=1us\"\nrate = 1000.0\nrequests = 50";
    let error = of(load, "slo = \"b:p99<=1ms\"").unwrap_err().to_string();
    assert!(
        error.contains("none of the 45 requests") && error.contains("load.requests"),
        "{error}"
    );
}

/// A trace that is shorter than the default number of requests is enough.
#[test]
fn a_short_trace_is_planned_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let text: String = (0..300).map(|i| format!("{},a,10\n", 20 * i)).collect();
    std::fs::write(&path, text).unwrap();
    let load = format!("trace = '{}'\nrate = 50000.0", path.display());
    let best = of(&load, "slo = \"a:p99<=11us\"\nmax-cores = 8").unwrap().best.unwrap();
    assert_eq!(best.candidate.workers, 1);
    assert!(best.ratio.is_some_and(|ratio| (0.8..=1.0).contains(&ratio)), "{best:?}");
}
