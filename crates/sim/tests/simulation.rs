//! Every policy under every kind of clock, with costs, checked at every event.

use quaver_sim::{Options, Scenario, Window, simulate};

fn scenario(text: &str) -> Scenario {
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn text(server: &str, rest: &str) -> String {
    format!(
        "[load]\nmix = \"short:95%:exp=2us,long:5%:fixed=100us\"\nload = 0.6\nrequests = 5000\n\
         [server]\n{server}\n{rest}"
    )
}

#[test]
fn nothing_is_lost_ends_early_or_waits_beside_idle_workers() {
    let options = Options { check: true, ..Options::default() };
    for (policy, _) in quaver_sched::Spec::names() {
        for clock in [
            "mechanism = \"uintr\"",
            "mechanism = \"user-timer\"",
            "mechanism = \"user-timer\"\ntick = \"5us\"",
            "mechanism = \"signal\"\nqueues = \"rss\"",
            "mechanism = \"quaver-timer-thread\"",
            "mechanism = \"quaver-posix-timer\"",
            "mechanism = \"quaver-posix-timer\"\nqueues = \"rss\"\ntax = 10",
            "mechanism = \"uintr\"\n[server.costs]\ndeliver = \"lognormal=2us/1.5\"",
            "mechanism = \"none\"",
            "mechanism = \"ipi\"\ndispatcher = true",
            "mechanism = \"uintr\"\nskip-unnecessary = false",
        ] {
            for workers in [1, 7] {
                let server = format!(
                    "workers = {workers}\npolicy = \"{policy}\"\nsystem = \"skyloft\"\n{clock}"
                );
                let rest =
                    "[best-effort]\nthreads = 3\n[noise]\nevery = \"100us\"\nlasts = \"exp=3us\"";
                // What cannot be is refused: a dispatcher without a central queue, a tick of no
                // quantum.
                let Ok(scenario) = text(&server, rest).parse::<Scenario>() else { continue };
                let rate = scenario.rates().unwrap()[0];
                // Without preemption endless threads would keep the workers.
                let preempts =
                    !clock.contains("none") && scenario.server.policy.quantum().is_some();
                let mut scenario = scenario;
                if !preempts {
                    scenario.best_effort.threads = 0;
                }
                let (outcome, _) = simulate(&scenario, rate, &options).unwrap();
                let counts = outcome.counts;
                assert_eq!((counts.arrived, counts.completed), (5_000, 5_000), "{server}");
                let used = |w: &quaver_sim::WorkerUse| w.busy + w.best_effort + w.overhead;
                assert!(outcome.workers.iter().all(|w| used(w) < 1.05), "{:?}", outcome.workers);
            }
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    let of = |seed: u64| {
        let server = "workers = 4\npolicy = \"two-queue:quantum=5us\"\nmechanism = \"uintr\"\n\
                      queues = \"rss\"";
        let mut scenario =
            scenario(&text(server, "[noise]\nevery = \"50us\"\nlasts = \"fixed=1us\""));
        scenario.seed = seed;
        simulate(&scenario, 100_000.0, &Options::default()).unwrap().0
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn sweeps_do_not_depend_on_the_number_of_cores() {
    let server = "workers = 2\npolicy = \"ws:quantum=10us\"\nmechanism = \"signal\"";
    let scenario = scenario(&text(server, "").replace("load = 0.6", "loads = \"10..90:10\""));
    let rates = scenario.rates().unwrap();
    assert_eq!(rates.len(), 9);
    let outcomes =
        quaver_sim::sweep::sweep(&scenario, &rates, &Options::default(), |_| ()).unwrap();
    for (outcome, &rate) in outcomes.iter().zip(&rates) {
        assert_eq!(*outcome, simulate(&scenario, rate, &Options::default()).unwrap().0);
    }
}

#[test]
fn too_much_load_is_said_to_be_too_much() {
    let server = "workers = 2\npolicy = \"two-queue:quantum=5us\"\nmechanism = \"signal\"";
    for (load, unstable) in [("0.5", false), ("1.2", true), ("0.99", true)] {
        let text = text(server, "").replace("load = 0.6", &format!("load = {load}"));
        let scenario = scenario(&text.replace("5000", "100000"));
        let rate = scenario.rates().unwrap()[0];
        let (outcome, _) = simulate(&scenario, rate, &Options::default()).unwrap();
        assert_eq!(outcome.unstable, unstable, "{load}: {:?}", outcome.total.latency_us);
    }
}

/// A timer core keeps up with as many workers as it has time for: Aspen's Fig. 11. What looking at
/// a worker takes (`scan`) is fitted to the 22 workers that the paper has by user interrupts; the
/// limits by signals and probes hold whatever it is.
#[test]
fn a_timer_core_has_its_limit() {
    let keeps_up = |mechanism: &str, scan: &str, workers: usize| {
        let text = format!(
            "[load]\nmix = \"a:1:fixed=10ms\"\nrate = 1000000\nrequests = 400\nwarm-up = 0.0\n\
             [server]\nworkers = {workers}\n\
             policy = \"rr:quantum=5us\"\nskip-unnecessary = false\nmechanism = \"{mechanism}\"\n\
             [server.costs]\n\
             receive = \"0s\"\ndeliver = \"0s\"\nscan = \"{scan}\""
        );
        let (outcome, _) = simulate(&scenario(&text), 1e6, &Options::default()).unwrap();
        let expected = outcome.seconds / 5e-6 * workers as f64;
        outcome.counts.sent as f64 / expected > 0.99
    };
    for scan in ["0ns", "25ns", "60ns"] {
        assert!(keeps_up("signal", scan, 2) && !keeps_up("signal", scan, 3), "{scan}");
        assert!(keeps_up("probe", scan, 24), "{scan}");
    }
    // Sending takes 200 ns: 25 workers at the most, and fewer the longer it looks.
    assert!(keeps_up("uintr", "0ns", 24) && !keeps_up("uintr", "0ns", 26));
    assert!(keeps_up("uintr", "60ns", 18) && !keeps_up("uintr", "60ns", 20));
}

#[test]
fn a_timeline_can_be_read_by_perfetto() {
    let server =
        "workers = 2\npolicy = \"ws:quantum=10us\"\nmechanism = \"uintr\"\nsystem = \"skyloft\"";
    let window = Some(Window { from: 100_000, to: 3_000_000 });
    let options = Options { window, check: true };
    let (_, timeline) = simulate(&scenario(&text(server, "")), 50_000.0, &options).unwrap();
    assert!(!timeline.spans.is_empty());
    for worker in 0..2 {
        let spans: Vec<_> = timeline.spans.iter().filter(|span| span.worker == worker).collect();
        assert!(spans.windows(2).all(|pair| pair[0].to <= pair[1].from), "they do not overlap");
    }
    let json: serde_json::Value = serde_json::from_str(&timeline.to_perfetto()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    assert!(events.iter().all(|e| e["ph"] == "X" && e["dur"].as_f64().unwrap() >= 0.0));
    assert!(
        events.iter().any(|e| e["name"] == "long") && events.iter().any(|e| e["name"] == "switch")
    );
}

#[test]
fn a_message_benchmark_wakes_its_threads() {
    let text = "[load]\nrequests = 2000\n[schbench]\nworkers = 8\nrequest = \"100us\"\n\
                sleep = \"20us\"\n[server]\nworkers = 4\n\
                policy = \"rr:quantum=10us\"\nmechanism = \"user-timer\"";
    let options = Options { check: true, ..Options::default() };
    let (outcome, _) = simulate(&scenario(text), 0.0, &options).unwrap();
    let wakeup = outcome.class("wakeup").unwrap().latency_us.unwrap();
    assert!(wakeup.p99 > 5.0 && wakeup.p99 < 100.0, "{wakeup:?}");
    assert!(outcome.class("request").unwrap().latency_us.unwrap().p50 >= 100.0);
    assert!(outcome.workers.iter().map(|w| w.busy).sum::<f64>() > 3.2, "{:?}", outcome.workers);
}

fn outcome(server: &str, requests: u64, rate: f64) -> quaver_sim::Outcome {
    outcome_of(2, server, requests, rate)
}

/// Of short requests on one worker, seven tenths of whose time are taken.
fn one_worker(server: &str) -> quaver_sim::Latency {
    let server = format!("policy = \"two-queue:quantum=5us,long=500us\"\n{server}");
    outcome_of(1, &server, 50_000, 50_000.0).class("short").unwrap().latency_us.unwrap()
}

fn outcome_of(workers: usize, server: &str, requests: u64, rate: f64) -> quaver_sim::Outcome {
    let mix = "short:95%:fixed=1us,long:5%:fixed=260us";
    let text = format!(
        "[load]\nmix = \"{mix}\"\nrate = {rate}\nrequests = {requests}\n[server]\n\
         workers = {workers}\nqueues = \"rss\"\n\
         mechanism = \"uintr\"\n{server}"
    );
    let options = Options { check: true, ..Options::default() };
    simulate(&scenario(&text), rate, &options).unwrap().0
}

/// A server whose threads loop over reads: a quantum shorter than a few short requests stops short
/// ones, too.
#[test]
fn a_thread_that_goes_on_uses_up_its_quantum() {
    let p99_9 = |quantum: &str, more: &str| {
        let server = format!("policy = \"two-queue:quantum={quantum},long=500us\"\n{more}");
        let outcome = outcome(&server, 100_000, 110_000.0);
        outcome.class("short").unwrap().latency_us.unwrap().p99_9
    };
    let goes_on = "once-a-quantum = true\nrun-on = true";
    assert!(p99_9("2us", goes_on) > 3.0 * p99_9("10us", goes_on));
    assert!(p99_9("2us", "") < p99_9("10us", ""));
}

/// Its quantum may be used up when it goes on with another request: it begins that first.
#[test]
fn a_thread_whose_quantum_is_used_up_goes_on_before_it_is_stopped() {
    let server = "workers = 1\npolicy = \"two-queue:quantum=5us,long=500us\"\nrun-on = true\n\
                  mechanism = \"xui-timer\"\nsystem = \"aspen-kb\"\nthreads = 64\nqueues = \"rss\"";
    let options = Options { check: true, ..Options::default() };
    let outcome = simulate(&scenario(&text(server, "")), 68_000.0, &options).unwrap().0;
    assert!(outcome.counts.preemptions > 1_000, "{:?}", outcome.counts);
}

/// Who looks once in a quantum notices on average half a quantum later.
#[test]
fn a_clock_that_looks_once_a_quantum_is_later() {
    let p90 = |more: &str| {
        let server = format!("policy = \"two-queue:quantum=20us,long=500us\"\n{more}");
        outcome(&server, 50_000, 110_000.0).class("short").unwrap().latency_us.unwrap().p90
    };
    let later = p90("once-a-quantum = true") - p90("");
    assert!((2.0..20.0).contains(&later), "{later}");
}

/// Where an interruption takes more time than it gives, a bound on what all of them take keeps the
/// server from falling behind, and where there is time to spare it changes nothing.
#[test]
fn a_tax_bounds_what_preemption_costs() {
    let server = |tax: &str| {
        format!("policy = \"two-queue:quantum=10us\"\n{tax}\n[server.costs]\nreceive = \"10us\"")
    };
    let at = |rate: f64, tax: &str| outcome_of(1, &server(tax), 50_000, rate);
    // 90 % of the worker's time without interruptions: with them, each long request takes twice as
    // long. Short ones come first, and long ones wait for ever.
    let (without, with) = (at(64_000.0, ""), at(64_000.0, "tax = 10"));
    let overhead = |outcome: &quaver_sim::Outcome| outcome.workers[0].overhead;
    assert!(without.unstable && overhead(&without) > 0.25, "{:?}", without.workers);
    assert!(!with.unstable && overhead(&with) < 0.13, "{:?}", with.workers);
    let p50 = |outcome: &quaver_sim::Outcome, class| {
        outcome.class(class).unwrap().latency_us.unwrap().p50
    };
    let long = [&with, &without].map(|outcome| p50(outcome, "long"));
    assert!(2.0 * long[0] < long[1], "{long:?}");
    let short = [&with, &without].map(|outcome| p50(outcome, "short"));
    assert!(short.iter().all(|&p50| p50 < 100.0), "{short:?}");
    // A tenth of its time.
    let p99 = |tax: &str| at(7_000.0, tax).class("short").unwrap().latency_us.unwrap().p99;
    assert_eq!(p99(""), p99("tax = 10"));
}

/// A lock that all cores take for each signal makes interruptions dearer the more cores there are.
#[test]
fn a_lock_for_signals_makes_many_workers_slower() {
    let overhead = |workers: usize, lock: &str| {
        let server = format!(
            "policy = \"two-queue:quantum=15us,long=500us\"\n[server.costs]\nsend = \"100ns\"\n\
             receive = \"2400ns\"\n\
             switch = \"300ns\"\nlock = \"{lock}\""
        );
        let outcome = outcome_of(workers, &server, 40_000, 50_000.0 * workers as f64);
        outcome.workers.iter().map(|w| w.overhead).sum::<f64>() / workers as f64
    };
    assert!(overhead(1, "200ns") < 1.05 * overhead(1, "0ns"));
    assert!(overhead(24, "200ns") > 1.2 * overhead(24, "0ns"));
}

/// A notification that is late seldom, but then by much, delays few requests by much: the mean says
/// nothing of it.
#[test]
fn lateness_has_a_distribution() {
    let of = |deliver: &str| one_worker(&format!("[server.costs]\ndeliver = \"{deliver}\""));
    let (fixed, seldom) = (of("10us"), of("bimodal=98%/1us/451us"));
    assert!(seldom.p50 < fixed.p50 && seldom.p99_9 > 2.0 * fixed.p99_9, "{fixed:?} {seldom:?}");
    let none = of("quantiles=0%:10us,100%:10us");
    assert_eq!((none.p50, none.p99_9), (fixed.p50, fixed.p99_9));
}

/// A thread that keeps time sleeps until the quantum of what runs is used up; then it has to wake
/// up first, and so it has where it sleeps for long. Where the running thread has had its quantum
/// already, who brings work interrupts it.
#[test]
fn a_thread_that_keeps_time_is_late_for_what_comes_while_it_sleeps() {
    // Long ones come seldom, each with one short behind it, 30 or 150 us later.
    let after = |us: u64| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let mut text = String::from("0,long,300\n50,short,1\n");
        for long in 1..400_u64 {
            // Not in step with the thread's quanta.
            let at = long * 1_000 + long * 7 % 100;
            text += &format!("{at},long,300\n{},short,1\n", at + us);
        }
        std::fs::write(&path, text).unwrap();
        let run = |mechanism: &str| {
            let text = format!(
                "[load]\ntrace = '{}'\nrequests = 800\nwarm-up = 0.0\n[server]\nworkers = 1\n\
                 policy = \"two-queue:quantum=100us\"\n\
                 mechanism = \"{mechanism}\"\n[server.costs]\nsend = \"0s\"\nscan = \"0s\"\n\
                 receive = \"0s\"\n\
                 deliver = \"2us\"\nlate = \"10us\"",
                path.display()
            );
            let scenario = scenario(&text);
            let options = Options { check: true, ..Options::default() };
            let (outcome, _) = simulate(&scenario, scenario.rates().unwrap()[0], &options).unwrap();
            outcome.class("short").unwrap().latency_us.unwrap()
        };
        (run("quaver-timer-thread"), run("quaver-signal"))
    };
    let (thread, core) = after(150);
    assert!((thread.p99 - 3.0).abs() < 0.1 && (core.p99 - 3.0).abs() < 0.1, "{thread:?} {core:?}");
    let (thread, core) = after(30);
    assert!((core.max - 73.0).abs() < 0.1, "{core:?}");
    assert!(thread.mean > core.mean + 5.0 && thread.max < core.max + 20.0, "{thread:?}");
}

/// While the machine takes a CPU away, nothing is received there.
#[test]
fn a_stopped_worker_is_not_interrupted() {
    let one = "[[noise]]\nevery = \"20ms\"\nlasts = \"400us\"\n";
    let two = format!("{one}[[noise]]\nevery = \"1ms\"\nlasts = \"uniform=10us..30us\"\n");
    let [none, once, twice] = ["", one, &two].map(one_worker);
    assert!(once.p99_9 > none.p99_9 + 300.0, "{none:?} {once:?}");
    assert!(twice.mean > once.mean + 1.0, "{once:?} {twice:?}");
}

/// Stops that were recorded come when they did, whether the worker runs something or not.
#[test]
fn recorded_stops_are_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..20).map(|i| format!("{},a,10\n", 7_000 + 100 * i)).collect();
    std::fs::write(folder.path().join("t.csv"), text).unwrap();
    let latency = |stops: &str| {
        std::fs::write(folder.path().join("stops.csv"), stops).unwrap();
        let path = folder.path().join("s.toml");
        let stops = if stops.is_empty() { "" } else { "[stops]\ntrace = \"stops.csv\"\n" };
        let text = format!(
            "[load]\ntrace = \"t.csv\"\nrequests = 20\nwarm-up = 0.0\n[server]\nworkers = 1\n\
             policy = \"fifo\"\n{stops}"
        );
        std::fs::write(&path, text).unwrap();
        let scenario = Scenario::open(&path).unwrap();
        let options = Options { check: true, ..Options::default() };
        let (outcome, _) = simulate(&scenario, scenario.rates().unwrap()[0], &options).unwrap();
        let latency = outcome.class("a").unwrap().latency_us.unwrap();
        (latency.mean * 20.0, latency.max)
    };
    let [quiet, one, two] =
        ["", "7105,kernel,30\n", "6999,kernel,50\n7105,kernel,30\n7295,host,250.5\n"].map(latency);
    // In the middle of one request; then two requests come while the worker is stopped that was
    // idle, and one soon after.
    assert!(
        (one.0 - quiet.0 - 30.0).abs() < 0.1 && (one.1 - quiet.1 - 30.0).abs() < 0.1,
        "{one:?}"
    );
    let later = 245.5 + 155.5 + 65.5;
    assert!((two.0 - one.0 - later).abs() < 0.5, "{quiet:?} {one:?} {two:?}");
    assert!((two.1 - quiet.1 - 245.5).abs() < 0.5, "{quiet:?} {two:?}");
}

/// Too few threads: what they all wait for is waited for by everybody.
#[test]
fn threads_can_run_out() {
    let p99 = |more: &str| {
        let server = format!("policy = \"two-queue:quantum=5us,long=500us\"\n{more}");
        outcome(&server, 50_000, 110_000.0).class("short").unwrap().latency_us.unwrap().p99
    };
    assert!(p99("threads = 1") > 10.0 * p99(""));
    assert_eq!(p99("threads = 10000"), p99(""));
}

/// Without stealing a worker keeps to its own queue, but for what is evened out from time to time.
#[test]
fn workers_can_keep_to_their_queues() {
    let of = |balance: bool| {
        outcome(&format!("policy = \"ws:quantum=20us\"\nbalance = {balance}"), 20_000, 60_000.0)
    };
    assert!(of(true).counts.steals > 10 * of(false).counts.steals);
    let mean = |balance| of(balance).total.latency_us.unwrap().mean;
    assert!(mean(false) > mean(true));
}

/// What waking a worker, polling and the mechanism's part of a switch cost is in the latency.
#[test]
fn costs_of_an_entry_are_counted() {
    let p50 = |costs: &str| {
        let server = format!("policy = \"ws:quantum=none\"\n[server.costs]\n{costs}");
        outcome(&server, 5_000, 1_000.0).class("short").unwrap().latency_us.unwrap().p50
    };
    let more = |costs: &str| (p50(costs) - p50("") - 3.0).abs() < 0.1;
    for cost in ["poll = \"3us\"", "switch = \"3us\"", "wake = \"3us\"\nspin = \"1us\""] {
        assert!(more(cost), "{cost}");
    }
    assert!(!more("wake = \"3us\"\nspin = \"1s\""), "it never gives its core back");
    assert!(more("wake = \"quantiles=0%:0us,100%:6us\""), "its median");
}

/// Without preemption a short request waits for long ones; with it, not.
#[test]
fn preemption_helps_short_requests() {
    let p99 = |policy: &str| {
        let server = format!("workers = 4\npolicy = \"{policy}\"\nmechanism = \"uintr\"");
        let scenario = scenario(&text(&server, "").replace("5000", "50000"));
        let rate = scenario.rates().unwrap()[0];
        let (outcome, _) = simulate(&scenario, rate, &Options::default()).unwrap();
        outcome.class("short").unwrap().latency_us.unwrap().p99
    };
    assert!(p99("two-queue:quantum=5us") < p99("fifo") / 2.0);
}

/// A trace that is shorter than the default number of requests warms up with a tenth of itself.
#[test]
fn a_short_trace_has_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let text: String = (0..200).map(|i| format!("{},a,10\n", 100 * i)).collect();
    std::fs::write(&path, text).unwrap();
    let trace = path.display();
    let scenario = scenario(&format!("[load]\ntrace = '{trace}'\n[server]\nworkers = 1\n"));
    let rate = scenario.rates().unwrap()[0];
    let (outcome, _) = simulate(&scenario, rate, &Options::default()).unwrap();
    let class = outcome.class("a").unwrap();
    assert_eq!(class.completed, 180);
    assert!((class.latency_us.unwrap().p50 - 10.0).abs() < 0.1);
}
