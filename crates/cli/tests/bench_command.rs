//! `quaver bench` as a user or a script runs it. What the numbers are is not tested: they depend on
//! the machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The command, without the Rust peers and without Go.
fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.arg("bench").args(args);
    command.env("QUAVER_BENCH_PEERS", "/nonexistent/peers").env("PATH", "/nonexistent");
    command
}

fn run(args: &[&str]) -> Output {
    bench(args).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is UTF-8")
}

fn json(args: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("bench.json");
    let output = run(&[args, &["--json", file.to_str().expect("the path is UTF-8")]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let content = std::fs::read(&file).expect("the file is there");
    serde_json::from_slice(&content).expect("the file is JSON")
}

/// The names of all rows, after checking what every row must have.
fn names(report: &Value) -> BTreeSet<String> {
    let rows = report["rows"].as_array().expect("rows");
    let row = |row: &Value| {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(number("min") <= number("median") && number("median") <= number("max"), "{row}");
        assert!(number("runs") >= 1.0, "{row}");
        assert!(row["unit"].is_string() && row["implementation"].is_string(), "{row}");
        row["name"].as_str().expect("a name").to_owned()
    };
    rows.iter().map(row).collect()
}

fn notes(report: &Value) -> String {
    report["notes"].to_string()
}

#[test]
fn ops_are_measured_without_any_peer() {
    let report = json(&["ops", "--quick", "--rounds", "2"]);
    let expected = ["yield", "spawn-join", "spawn-detached", "mutex", "condvar", "channel"];
    assert_eq!(names(&report), expected.map(String::from).into());
    for row in report["rows"].as_array().expect("rows") {
        assert!(row["implementation"].as_str().expect("a name").starts_with("quaver"), "{row}");
        assert!(row["min"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["runs"], 2, "{row}");
    }
    assert!(notes(&report).contains("QUAVER_BENCH_PEERS"), "{}", notes(&report));
    assert!(notes(&report).contains("go left out"), "{}", notes(&report));
    assert_eq!(report["quick"], true);
    assert!(report["machine"]["cpus"]["allowed"].is_array());
}

#[test]
fn preempted_threads_compute_rightly_in_every_variant() {
    let report = json(&["preempt", "--quick", "--rounds", "1"]);
    // A crash or a wrong result fails the command. On a machine that is too busy an event may be
    // missing, and with it rows of a variant; not all of ours.
    assert_eq!(report["crashes"], serde_json::json!([]));
    let names = names(&report);
    assert!(names.iter().any(|name| name.starts_with("scalar ")), "{}", notes(&report));
    for name in names {
        assert!(name.starts_with("scalar ") || name.starts_with("avx "), "{name}");
    }
    let rows = report["rows"].as_array().expect("rows");
    let ours =
        |row: &&Value| row["implementation"].as_str().is_some_and(|i| i.starts_with("quaver"));
    assert!(rows.iter().any(|row| ours(&row)), "{}", notes(&report));
}

#[test]
fn the_cost_of_a_preemption_is_split_for_chosen_threads() {
    let only = ["--quick", "--rounds", "2", "--only", "timer-thread", "--tasks"];
    let report = json(&[&["preempt"], &only[..], &["get*2+scan*2"]].concat());
    assert_eq!(report["crashes"], serde_json::json!([]));
    let names = names(&report);
    if notes(&report).contains("take a second CPU") {
        return;
    }
    for what in ["slowdown", "cost", "handler", "switch"] {
        let name = format!("get*2+scan*2 100us {what}");
        assert!(names.contains(&name), "{name} in {names:?}; {}", notes(&report));
    }
    let output = run(&["preempt", "--tasks", "put*2"]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("\"put\" is no kind of thread"), "{error}");
}

#[test]
fn probes_without_compilers_say_what_is_missing() {
    let output = run(&["probes", "--quick"]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("nothing is left to measure"), "{error}");
    assert!(error.contains("gcc left out") && error.contains("clang left out"), "{error}");
    let output = run(&["probes", "--programs", "lu,doom"]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("no program doom") && error.contains("word_count"), "{error}");
    let output = run(&["probes", "--scale", "0"]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("from 0.001 to 100"), "{error}");
}

#[test]
fn pointers_are_chased_with_all_ways_to_save_registers() {
    let report = json(&["chase", "--quick", "--rounds", "2"]);
    assert_eq!(names(&report), ["32 KiB", "1024 KiB"].map(String::from).into());
    let rows = report["rows"].as_array().unwrap();
    let of = |name: &str| rows.iter().filter(|row| row["implementation"] == name).count();
    assert_eq!(of("quaver general registers"), 2, "{}", notes(&report));
    assert_eq!(of("quaver signal frame"), 2, "{}", notes(&report));
}

#[test]
fn threads_that_wake_one_another_are_measured_with_schbenchs_options() {
    let flags = "-m 1 -t 2 -r 0.5 -w 0 -n 1 -F 8";
    let report = json(&["schbench", "--quick", "--rounds", "1", "--schbench", flags]);
    let expected =
        ["wakeup p50", "wakeup p99", "wakeup p99.9", "request p50", "request p99", "rps"];
    assert_eq!(names(&report), expected.map(|name| format!("t=2 {name}")).into());
    let rows = report["rows"].as_array().unwrap();
    let implementations: BTreeSet<_> =
        rows.iter().map(|row| row["implementation"].as_str().unwrap()).collect();
    assert_eq!(implementations.len(), 5, "the kernel twice, three policies: {implementations:?}");
    assert!(implementations.contains("kernel threads, slice 100us"), "{implementations:?}");
    let output = run(&["schbench", "--quick", "--schbench", "-t 0"]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("--schbench") && error.contains("0 is not in 1..=4096"), "{error}");
}

#[test]
fn mixes_are_offered_to_one_worker() {
    let args = ["mixes", "--quick", "--rounds", "1", "--only", "quaver fifo"];
    let report = json(&args);
    if notes(&report).contains("takes a second CPU") {
        return;
    }
    let names = names(&report);
    for class in ["short", "all"] {
        for percentile in ["p50", "p99", "p99.9"] {
            let name = format!("dispersive 50% {class} {percentile}");
            assert!(names.contains(&name), "{name} in {names:?}");
        }
    }
}

#[test]
fn servers_answer_their_client() {
    let report = json(&["net", "--quick", "--rounds", "1", "--only", "net auto,std auto,run"]);
    if notes(&report).contains("take two CPUs") {
        return;
    }
    assert_eq!(report["crashes"], serde_json::json!([]));
    let names = names(&report);
    for name in ["echo 32 server CPU", "echo 256 rate", "2 scans: GET p99", "4 scans: SCANs"] {
        assert!(names.contains(name), "{name} in {names:?}; {}", notes(&report));
    }
    // Those with which aims compare are not here.
    assert!(names.iter().all(|name| !name.contains(" / ")), "{names:?}");
    assert!(notes(&report).contains("quaver-bench-async"), "{}", notes(&report));
    let rows = report["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["median"].as_f64() > Some(0.0)), "{rows:?}");
}

#[test]
fn several_benchmarks_make_one_report() {
    let args = [
        "wake",
        "scale",
        "defer",
        "stall",
        "--quick",
        "--rounds",
        "1",
        "--only",
        "run-to-completion,timer-thread",
    ];
    let report = json(&args);
    assert_eq!(report["benchmarks"], serde_json::json!(["wake", "scale", "defer", "stall"]));
    let names = names(&report);
    for name in [
        "4 hogs p99",
        "1000 parked: memory of a thread",
        "yield with 1 workers",
        "pthread mutex 20us p99",
        "blocking read 100us back p99",
    ] {
        assert!(names.contains(name), "{name} in {names:?}; {}", notes(&report));
    }
}

#[test]
fn clocks_beside_short_threads() {
    let report = json(&["short", "--quick", "--rounds", "2", "--only", "timer-thread"]);
    let names = names(&report);
    for name in ["queue", "queue stale", "echo", "echo stale"] {
        assert!(names.contains(name), "{name} in {names:?}; {}", notes(&report));
    }
}

#[test]
fn locks_are_measured_beside_that_of_the_c_library() {
    let which = ["--workloads", "shared-memory", "--threads", "1,2,4,8,16,32", "--background", "0"];
    let quick = ["lock", "--quick", "--rounds", "1", "--only", "pthread,quaver unmonitored"];
    let report = json(&[&quick[..], &which].concat());
    assert_eq!(names(&report).len(), 6, "{}", notes(&report));
    let rows = report["rows"].as_array().expect("rows");
    for threads in [1, 2, 4, 8, 16, 32] {
        for lock in ["pthread", "quaver unmonitored"] {
            let row = rows.iter().find(|row| row["threads"] == threads && row["lock"] == lock);
            let row = row.unwrap_or_else(|| panic!("{lock}, {threads}: {}", notes(&report)));
            assert_eq!(
                (&row["workload"], &row["background"]),
                (&"shared-memory".into(), &0.into())
            );
            assert!(row["ops_per_s"].as_f64() > Some(0.0), "{row}");
            assert_eq!(row["ratio_to_pthread"].is_number(), lock != "pthread", "{row}");
        }
    }
}

#[test]
fn the_table_shows_rows_and_notes() {
    let output = run(&["ops", "--quick", "--rounds", "1", "--only", "posix-timer"]);
    let table = text(&output.stdout);
    assert!(table.contains("spawn-join") && table.contains("quaver posix-timer"), "{table}");
    assert!(!table.contains("run-to-completion") && table.contains("* go left out"), "{table}");
}

#[test]
fn benchmarks_are_listed() {
    for args in [&["list"][..], &[]] {
        let output = run(args);
        assert!(output.status.success());
        let listing = text(&output.stdout);
        let names = ["ops", "preempt", "chase", "short", "kv", "wake", "scale", "defer", "stall"];
        for name in names.into_iter().chain(["net", "servers", "implementations: quaver"]) {
            assert!(listing.contains(name), "{name} in {listing}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    for (args, part) in [
        (&["fly"][..], "'fly'"),
        (&["ops", "--rounds", "0"], "'0'"),
        (&["ops", "--only", "erlang"], "nothing is left to measure"),
        (&["ops", "--json", "/nonexistent/directory/file"], "/nonexistent/directory/file"),
        (&["--child", "{}"], "no work"),
    ] {
        let output = run(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(text(&output.stderr).contains(part), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn children_end_with_the_command() {
    // Children that compute for seconds.
    let args = ["wake", "--rounds", "100", "--only", "timer-thread"];
    let mut command = bench(&args).stdout(Stdio::null()).spawn().expect("it starts");
    let children = format!("/proc/{0}/task/{0}/children", command.id());
    let child = wait_for(|| {
        let children = std::fs::read_to_string(&children).ok()?;
        children.split_whitespace().next().map(|pid| format!("/proc/{pid}"))
    });
    // The worst end: nothing can be cleaned up any more.
    command.kill().expect("it can be killed");
    command.wait().expect("it can be waited for");
    wait_for(|| (!Path::new(&child).exists() || is_zombie(&child)).then_some(()));
}

#[test]
fn an_interrupted_benchmark_reports_what_it_has() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("bench.json");
    let path = file.to_str().expect("the path is UTF-8");
    let mut command = bench(&["ops", "--quick", "--rounds", "100000", "--json", path]);
    let command = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let children = format!("/proc/{0}/task/{0}/children", command.id());
    let mut seen = BTreeSet::new();
    // A round of all settings, and a child of the next one.
    wait_for(|| {
        seen.extend(std::fs::read_to_string(&children).ok()?.split_whitespace().map(String::from));
        (seen.len() > 4).then_some(())
    });
    let pid = rustix::process::Pid::from_child(&command);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it can be told");
    let output = command.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(143));
    assert!(text(&output.stdout).contains("stopped by SIGTERM after"), "{}", text(&output.stdout));
    let report = std::fs::read(&file).expect("the file is there");
    let report: Value = serde_json::from_slice(&report).expect("the file is JSON");
    assert_eq!(names(&report), BTreeSet::from(["yield".into()]));
}

/// Ended, but whoever inherited it has not noticed.
fn is_zombie(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "it did not happen within two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_shares_its_cpu_with_a_program() {
    let variants = ["alone spinning", "quaver probed", "quaver plain", "SCHED_IDLE"];
    let only = variants.map(|name| format!("{name} (10 us)")).join(",");
    // A round is a moment, in which a machine that is busy with other things may serve nothing, or
    // not let a program of the lowest class begin.
    let disturbed = ["no request was served", "no answer within"];
    let served = |report: &Value| disturbed.iter().all(|what| !notes(report).contains(what));
    let reports = || json(&["share", "--quick", "--only", &only]);
    let report = std::iter::repeat_with(reports).take(4).find(served);
    let report = report.expect("requests are served in one of four runs");
    let notes = notes(&report);
    if notes.contains("it takes a second CPU") {
        return eprintln!("skipped: {notes}");
    }
    assert_eq!(report["crashes"], serde_json::json!([]));
    const WINDOW: &str = "LC p99 ratio of a window";
    let rows = report["rows"].as_array().expect("rows");
    for load in [5, 20, 50] {
        for variant in ["quaver probed", "quaver plain", "SCHED_IDLE"] {
            for what in ["LC p99 ratio", WINDOW, "BE share", "LC p50", "LC p99"] {
                let name = format!("{what}, load {load} %");
                let is_it = |row: &&Value| {
                    row["name"] == name && row["implementation"] == format!("{variant} (10 us)")
                };
                assert!(rows.iter().any(|row| is_it(&row)), "{name} of {variant}\n{notes}");
            }
        }
    }
    // The program that looks at bells has answered some. How many depends on the machine.
    let answered = |row: &&Value| {
        row["implementation"] == "quaver probed (10 us)"
            && row["name"].as_str().is_some_and(|name| name.starts_with("answered at a look"))
            && row["median"].as_f64() > Some(0.0)
    };
    assert!(rows.iter().any(|row| answered(&row)), "{notes}");
}
