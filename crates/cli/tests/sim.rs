//! `quaver sim` and `quaver plan` as users and scripts call them.

use std::process::{Command, Output};

fn quaver(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaver")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const SMALL: &[&str] = &[
    "sim",
    "--mix",
    "get:95%:fixed=1us,scan:5%:fixed=260us",
    "--workers",
    "4",
    "--requests",
    "5000",
    "--check",
];

fn small(more: &[&str]) -> Output {
    quaver(&[SMALL, more].concat())
}

#[test]
fn a_scenario_of_options_gives_a_table() {
    let output =
        small(&["--policy", "two-queue:quantum=5us", "--mechanism", "uintr", "--load", "50,70"]);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in ["get", "scan", "all", "50.0 %", "70.0 %", "p99.9", "million events"] {
        assert!(out.contains(part), "{part} is missing from\n{out}");
    }
}

#[test]
fn a_file_gives_json_page_and_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let scenario = "seed = 3\n[load]\nmix = \"get:1:exp=2us\"\nload = 0.5\nrequests = 3000\n\
                    [server]\nworkers = 2\n";
    std::fs::write(path("s.toml"), scenario).unwrap();
    let output = quaver(&[
        "sim",
        &path("s.toml"),
        "--json",
        &path("o.json"),
        "--html",
        &path("o.html"),
        "--perfetto",
        &path("o.trace"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path(name)).unwrap()).unwrap()
    };
    let outcome = &json("o.json")["outcomes"][0];
    assert_eq!(outcome["counts"]["completed"], 3_000);
    assert!(outcome["classes"][0]["latency_us"]["p99"].as_f64().unwrap() > 2.0);
    assert!(!json("o.trace")["traceEvents"].as_array().unwrap().is_empty());
    assert!(std::fs::read_to_string(path("o.html")).unwrap().contains("<svg"));
}

#[test]
fn overload_is_said_and_ends() {
    let output = small(&["--load", "150"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("150 % of what 4 worker(s) can serve"));
    assert!(text(&output.stdout).contains("unstable"));
}

#[test]
fn errors_name_what_is_wrong() {
    for (more, part) in [
        (&["--policy", "best"][..], "--policy: unknown policy `best`"),
        (&["--mechanism", "pigeon"], "--mechanism: unknown name `pigeon`"),
        (&["--system", "x"], "--system: unknown name `x`"),
        (&["--load=-5"], "load"),
        (&["--json", "/no/such/file"], "/no/such/file"),
        (&["--window", "3..1"], "--window"),
    ] {
        let output = small(more);
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(part), "{more:?}: {error}");
    }
    let none = quaver(&[&SMALL[..5], &["--requests", "0"]].concat());
    let error = text(&none.stderr);
    assert!(!none.status.success() && error.contains("--requests: 0"), "{error}");
    let error = text(&quaver(&["sim"]).stderr);
    assert!(error.contains("--mix and --workers"), "{error}");
    let error = text(&quaver(&["sim", "/no/such.toml"]).stderr);
    assert!(error.contains("/no/such.toml"), "{error}");
}

/// Whatever the machine does meanwhile, and whatever comes of it: the verdict follows from the
/// rows.
#[test]
fn a_validation_passes_only_where_every_row_does() {
    let output = quaver(&["sim", "--validate", "--quick", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let list = |key: &str| json[key].as_array().unwrap().clone();
    let (rows, missing, warnings) = (list("rows"), list("missing"), list("warnings"));
    assert!(!rows.is_empty(), "nothing was served: {missing:?}");
    // Two cases, four loads, two classes, two percentiles.
    assert_eq!(rows.len() + missing.len(), 32, "{missing:?}");
    let mut all_pass = missing.is_empty() && warnings.is_empty();
    for row in &rows {
        assert!(["in proportion", "default"].contains(&row["case"].as_str().unwrap()), "{row}");
        assert!(["short", "long"].contains(&row["class"].as_str().unwrap()), "{row}");
        assert!(["p50", "p99"].contains(&row["percentile"].as_str().unwrap()), "{row}");
        let number = |key: &str| row[key].as_f64().unwrap();
        let ratio = number("simulated_us") / number("measured_us");
        assert!(number("measured_us") >= 1.0 && number("simulated_us") >= 1.0, "{row}");
        assert!((number("ratio") - ratio).abs() < 1e-9 && number("load_percent") >= 30.0, "{row}");
        let passes = (0.85..=1.15).contains(&ratio) && row["disturbed"] == false;
        assert_eq!(row["passed"], passes, "{row}");
        all_pass &= passes;
    }
    assert_eq!(json["passed"], all_pass);
    assert_eq!(output.status.code(), Some(if all_pass { 0 } else { 2 }));
    assert_eq!(json["noisy"].as_bool().unwrap(), !warnings.is_empty());
    for warning in warnings {
        let warning = warning.as_str().unwrap();
        assert!(text(&output.stderr).contains(warning), "{warning}");
    }
    assert!(json["machine"]["worker_noise"]["watched_s"].as_f64().unwrap() > 0.5);
}

#[test]
fn a_plan_names_the_least_cores() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    let plan = |slo: &str| {
        format!(
            "[load]\nmix = \"get:95%:fixed=1us,scan:5%:fixed=260us\"\nrate = 100000.0\n\
             requests = 5000\n[server]\nworkers = 1\n\
             [plan]\nslo = \"{slo}\"\npolicies = [\"two-queue\", \"fifo\"]\nquanta = [\"5us\"]\n\
             mechanisms = [\"uintr\"]\nmax-cores = 8\n"
        )
    };
    std::fs::write(&path, plan("get:p99<=50us")).unwrap();
    let output = quaver(&["plan", path.to_str().unwrap()]);
    let out = text(&output.stdout);
    assert!(output.status.success() && out.contains("core(s)"), "{out}{}", text(&output.stderr));
    std::fs::write(&path, plan("get:p99<=1ns")).unwrap();
    let output = quaver(&["plan", path.to_str().unwrap(), "--json", "-"]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["best"].is_null() && !json["impossible"].as_array().unwrap().is_empty());
    let out = text(&quaver(&["plan", path.to_str().unwrap()]).stdout);
    assert!(out.contains("No server can meet get:p99<=1ns"), "{out}");
    std::fs::write(&path, plan("get:p99<=2us").replace("max-cores = 8", "max-cores = 2")).unwrap();
    let output = quaver(&["plan", path.to_str().unwrap(), "--json", "-"]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["best"].is_null() && !json["tried"].as_array().unwrap().is_empty());
    std::fs::write(&path, plan("put:p99<=1us")).unwrap();
    let error = text(&quaver(&["plan", path.to_str().unwrap()]).stderr);
    assert!(error.contains("no class `put`") && error.contains("get, scan"), "{error}");
}
