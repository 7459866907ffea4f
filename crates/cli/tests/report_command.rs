//! `quaver report` as users and scripts call it, with small inputs.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const FIGURE: &str = r#"
title = "A <small> figure & its \"limit\""
real = "one worker"
difference = "less < more"
class = "all"
percentile = "p99"
limit-us = 100.0
headlines = [["two & <b>", "one"], ["two & <b>", "one", 1.5]]
[reference]
file = "r.json"
x = "rps"
y = "ns"
divide = 1000.0
curves = { "a" = "one", "b" = "two & <b>" }
[scenario]
load = { mix = "short:1:fixed=10us", loads = "20,60", requests = 2000 }
server = { workers = 1 }
[[curve]]
name = "one"
args = ["--policy", "fifo"]
[[curve]]
name = "two & <b>"
args = ["--policy", "fifo"]
server = { workers = 2 }
[[measured]]
benchmark = "mixes"
row = "t={x} p99"
what = "µs, p99"
over = "% of <capacity>"
at = [30, 50]
vary = "load.load"
vary-divide = 100
length = "length"
[measured.scenario]
load = { mix = "short:1:fixed=10us", load = 0.5, requests = 2000 }
server = { workers = 1 }
[[measured.curve]]
name = "ours"
implementation = "quaver <fifo>"
args = ["--policy", "fifo"]
paper = "one"
[[measured.curve]]
name = "theirs"
implementation = "go & co"
"#;

const TIMER: &str = r#"
title = "Workers of one timer core"
real = "nothing"
difference = "none"
timer-quanta-us = [5, 10]
headline-quantum-us = 5
most-workers = 3
paper-best = { "interrupts" = 2 }
[scenario]
load = { mix = "long:1:fixed=1ms", rate = 1000000.0, requests = 50, warm-up = 0.0 }
server = { workers = 1, policy = "rr:quantum=5us", mechanism = "uintr", skip-unnecessary = false }
"server.costs" = { receive = "0s", deliver = "0s" }
[[curve]]
name = "interrupts"
args = ["--policy", "rr:quantum={quantum}us", "--mechanism", "uintr"]
"#;

const THREADS: &str = r#"
title = "Threads of a message benchmark"
real = "nothing"
difference = "none"
class = "wakeup"
percentile = "p99"
threads = [1, 2]
headline-threads = 2
[scenario]
load = { requests = 500 }
schbench = { workers = 1, messages = 1, request = "100us", sleep = "20us" }
[scenario.server]
workers = 1
system = "quaver"
mechanism = "quaver-posix-timer"
policy = "ws:quantum=50us"
[[curve]]
name = "rr"
args = ["--policy", "ws:quantum=50us"]
"#;

const QUANTA: &str = r#"
title = "The highest load over the quantum"
real = "nothing"
difference = "none"
class = "short"
percentile = "p99"
limit-us = 50.0
quanta-us = [5, 500]
[scenario]
load = { mix = "short:95%:fixed=1us,long:5%:fixed=260us", loads = "20,40", requests = 5000 }
server = { workers = 1, mechanism = "uintr" }
[[curve]]
name = "rr"
args = ["--policy", "rr:quantum={quantum}us"]
"#;

/// A folder with figures and the papers' numbers, and a place for the page.
struct Setting(tempfile::TempDir);

impl Setting {
    fn new(figures: &[(&str, &str)]) -> Setting {
        let setting = Setting(tempfile::tempdir().unwrap());
        for (name, text) in figures {
            setting.write(&format!("figures/{name}/figure.toml"), text);
        }
        let rows =
            |ns: [f64; 2]| json!([{ "rps": 30.0, "ns": ns[0] }, { "rps": 50000.0, "ns": ns[1] }]);
        let reference = json!({ "a": { "rows": rows([9e3, 9e5]) }, "b": rows([8e3, 9e3]) });
        setting.write("reference/r.json", &reference.to_string());
        setting
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn report(&self, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["report", "--out", &self.path("out"), "--figures", &self.path("figures")]);
        command.args(["--bench", &self.path("bench.json")]).args(more).output().unwrap()
    }

    fn good(&self, more: &[&str]) -> String {
        let output = self.report(more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.read("out/index.html")
    }

    fn bad(&self, more: &[&str]) -> String {
        let output = self.report(more);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    }

    fn results(&self) -> Value {
        serde_json::from_str(&self.read("out/figures/results.json")).unwrap()
    }

    fn measure(&self) {
        let row = |name: &str, implementation: &str, median: f64| {
            json!({ "benchmark": "mixes", "name": name, "implementation": implementation,
                    "unit": "ns", "runs": 3, "min": median / 2.0, "median": median,
                    "max": median * 2.0, "ratio": null })
        };
        let mut ratio = row("t=30 p99", "go & co", 138.0);
        ratio["ratio"] = json!(4.056);
        let rows = [row("t=30 p99", "quaver <fifo>", 7.5), ratio, row("drop", "quaver", 0.0)];
        let machine = json!({ "kernel": { "release": "6.18", "processor": "A <fast> one" },
                              "cpus": { "allowed": [0, 1] } });
        let bench =
            json!({ "machine": machine, "quick": true, "rows": rows, "notes": ["no <Go>"] });
        self.write("bench.json", &bench.to_string());
        let demo = json!({ "summary": { "verdict": "It bought <much>." } });
        self.write("out/report.json", &demo.to_string());
    }
}

/// Checks that elements nest, attributes are quoted and every `&` begins an entity.
fn well_formed(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a loose '>' in {:?}", &rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes another element");
        } else {
            assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}> has an unquoted attribute");
            let name = tag.split([' ', '/', '\n']).next().unwrap();
            if !tag.ends_with('/') && !tag.starts_with('!') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    for (at, _) in text.match_indices('&') {
        let entity = text[at + 1..].split(';').next().unwrap();
        assert!(["lt", "gt", "amp", "quot", "apos", "#39"].contains(&entity), "&{entity}");
    }
}

#[test]
fn everything_is_on_the_page_escaped_and_well_formed() {
    let setting = Setting::new(&[("small", FIGURE)]);
    setting.measure();
    setting.write("out/report.html", "");
    let page = setting.good(&[]);
    well_formed(&page);
    for part in [
        "It bought &lt;much&gt;.",
        "href=\"report.html\"",
        "A &lt;small&gt; figure &amp; its &quot;limit&quot;</a>, and one worker for real",
        "two &amp; &lt;b&gt; over one",
        "in the paper 1.50",
        "src=\"figures/small.svg\"",
        "src=\"figures/small-one-worker-1.svg\"",
        "<td>ours</td><td>for real</td><td>7.5</td><td></td>",
        "% of &lt;capacity&gt;",
        "For real: one worker. Difference: less &lt; more.",
        "A &lt;fast&gt; one, 2 usable CPUs, Linux 6.18",
        "no &lt;Go&gt;",
        "go &amp; co",
        "138 ns",
        "4.06",
        "A quick look",
    ] {
        assert!(page.contains(part), "{part} is missing from\n{page}");
    }
    assert!(!page.contains("Nothing"), "{page}");
}

#[test]
fn drawings_stand_alone_in_light_and_dark_with_the_paper_beside_ours() {
    let setting = Setting::new(&[("small", FIGURE)]);
    setting.good(&[]);
    for file in ["small.svg", "small-one-worker-1.svg"] {
        let svg = setting.read(&format!("out/figures/{file}"));
        well_formed(&svg);
        for part in ["http://www.w3.org/2000/svg", "prefers-color-scheme: dark", "currentColor"] {
            assert!(svg.contains(part), "{part} is missing from {file}");
        }
    }
    let svg = setting.read("out/figures/small.svg");
    for part in ["two &amp; &lt;b&gt;", "one (paper)", "within 100", "p99 of all"] {
        assert!(svg.contains(part), "{part} is missing");
    }
}

#[test]
fn results_compare_ours_with_the_paper_and_one_worker() {
    let setting = Setting::new(&[("small", FIGURE)]);
    setting.measure();
    setting.good(&[]);
    let result = &setting.results()[0];
    assert_eq!(result["figure"], "small");
    // Both are within the limit at 60 % of their workers' capacity.
    assert_eq!(result["best"], json!({ "one": 60_000.0, "two & <b>": 120_000.0 }));
    let (ours, paper) = (&result["headline"]["ours"], &result["headline"]["paper"]);
    assert_eq!(ours.as_f64(), Some(2.0));
    // The paper's first curve crosses the limit on the way, the second never.
    let crossed = 30.0 + (50_000.0 - 30.0) * (100f64 / 9.0).ln() / 100f64.ln();
    assert!((paper.as_f64().unwrap() - 50_000.0 / crossed).abs() < 1e-9, "{paper}");
    assert_eq!(result["headlines"][1]["paper"], 1.5);

    let curves = &result["measured"][0]["curves"];
    let point = &curves[0]["points"][0];
    assert_eq!((&point["real"], &point["paper"]), (&json!(7.5), &json!(9.0)));
    assert!(point["simulated"].as_f64().unwrap() >= 10.0, "{point}");
    let nothing = json!({ "at": 50.0, "real": null, "simulated": null, "paper": null });
    assert_eq!(curves[1]["points"][1], nothing);
}

#[test]
fn every_kind_of_figure_is_drawn() {
    let setting = Setting::new(&[("timer", TIMER), ("threads", THREADS), ("quanta", QUANTA)]);
    well_formed(&setting.good(&["--quick"]));
    let results = setting.results();
    let names: Vec<_> = results.as_array().unwrap().iter().map(|r| &r["figure"]).collect();
    assert_eq!(names, ["quanta", "threads", "timer"]);
    // A quantum beyond the long requests is none.
    assert_eq!(results[0]["best"]["rr"], 5.0);
    assert!(results[1]["best"]["rr"].as_f64().unwrap() > 0.0);
    assert_eq!(results[2]["best"]["interrupts"], 3.0);
    assert_eq!(results[2]["paper_best"]["interrupts"], 2.0);
}

#[test]
fn what_is_missing_is_left_out() {
    let setting = Setting::new(&[]);
    let page = setting.good(&[]);
    well_formed(&page);
    assert!(page.contains("Nothing has been measured yet"), "{page}");

    let setting = Setting::new(&[]);
    setting.measure();
    let page = setting.good(&["--demo", &setting.path("no.json")]);
    assert!(!page.contains("Demonstration") && page.contains("Benchmarks"), "{page}");
    assert!(!page.contains("papers' figures") && !page.contains("report.html"), "{page}");

    let setting = Setting::new(&[("timer", TIMER)]);
    let page = setting.good(&["timer", "--quick"]);
    assert!(!page.contains("Demonstration") && !page.contains("Benchmarks"), "{page}");
    assert!(page.contains("papers' figures"), "{page}");
}

#[test]
fn a_counterpart_that_was_not_run_says_so() {
    let setting = Setting::new(&[("small", FIGURE)]);
    let page = setting.good(&[]);
    assert!(page.contains("Nothing was run for real yet: <code>quaver bench mixes</code>"));
}

#[test]
fn figures_that_were_drawn_before_can_be_kept() {
    let setting = Setting::new(&[("timer", TIMER)]);
    setting.good(&["--quick"]);
    let before = setting.read("out/figures/results.json");
    std::fs::remove_dir_all(setting.path("figures")).unwrap();
    let page = setting.good(&["--keep-figures"]);
    assert!(page.contains("src=\"figures/timer.svg\""), "{page}");
    assert_eq!(setting.read("out/figures/results.json"), before);
}

#[test]
fn files_are_replaced_as_a_whole() {
    let setting = Setting::new(&[]);
    setting.measure();
    let before = setting.good(&[]);
    setting.write("bench.json", "{");
    let error = setting.bad(&[]);
    assert!(error.contains("bench.json is not what was expected"), "{error}");
    assert_eq!(setting.read("out/index.html"), before);
    let mut names: Vec<_> = std::fs::read_dir(setting.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["figures", "index.html", "report.json"]);
}

#[test]
fn bad_figures_are_named() {
    let setting = Setting::new(&[("small", FIGURE)]);
    let error = setting.bad(&["large"]);
    assert!(error.contains("no figure large") && error.contains("known are: small"), "{error}");

    for (from, to, parts) in [
        ("limit-us = 100.0\n", "", ["figure small", "`limit-us` is missing"]),
        ("\"one\", 1.5", "\"none\", 1.5", ["figure.toml", "no curve none"]),
        (
            "\"--policy\", \"fifo\"]\nserver",
            "\"--polic\", \"fifo\"]\nserver",
            ["curve two", "--polic "],
        ),
        ("\"a\" = \"one\"", "\"c\" = \"one\"", ["r.json", "no curve c"]),
        ("p99\"\nlimit", "p98\"\nlimit", ["figure small", "p98"]),
    ] {
        let text = FIGURE.replace(from, to);
        assert_ne!(text, FIGURE);
        setting.write("figures/small/figure.toml", &text);
        let error = setting.bad(&[]);
        for part in parts {
            assert!(error.contains(part), "{part} is missing from {error}");
        }
    }
}

/// The figures of Go programs, with what the driver of `go/bench` wrote in a run of a moment.
#[test]
fn figures_of_go_programs_are_drawn_from_measurements() {
    let figures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/figures");
    let setting = Setting::new(&[]);
    for name in ["aspen-07", "aspen-12"] {
        let text = std::fs::read_to_string(figures.join(name).join("figure.toml")).unwrap();
        setting.write(&format!("figures/{name}/figure.toml"), &text);
    }
    // Without measurements there is nothing of ours, and the page says what to run.
    let page = setting.good(&["--go", &setting.path("none.json")]);
    well_formed(&page);
    assert_eq!(page.matches("go/bench/run --only badger1,compute").count(), 2, "{page}");

    setting.write("go.json", include_str!("go-bench.json"));
    let page = setting.good(&["--go", &setting.path("go.json")]);
    well_formed(&page);
    assert!(!page.contains("Nothing was run for real yet"), "{page}");
    for (file, parts) in [
        ("aspen-07.svg", &["Go's own", "paper's policy", "quaver-go", "within 1000"][..]),
        ("aspen-07-long.svg", &["p99 of scans"][..]),
        ("aspen-12.svg", &["quaver-go", "signals (paper)", "user interrupts (paper)"][..]),
    ] {
        let svg = setting.read(&format!("out/figures/{file}")).replace("&apos;", "'");
        well_formed(&svg);
        for part in parts {
            assert!(svg.contains(part), "{part} is missing from {file}");
        }
    }
    let results = setting.results();
    for name in ["Go's own", "paper's policy", "quaver-go"] {
        assert!(results[0]["best"][name].is_number(), "{results}");
    }
    assert_eq!(results[0]["headlines"][0]["paper"], 1.175);
    assert_eq!(results[1]["paper_best"]["signals"], 100.0);
    setting.write("go.json", "{");
    let error = setting.bad(&["--go", &setting.path("go.json")]);
    assert!(error.contains("go.json is not what was expected"), "{error}");
    setting.write("go.json", r#"{ "rows": null, "compute": null }"#);
    let page = setting.good(&["--go", &setting.path("go.json")]);
    assert_eq!(page.matches("Nothing was run for real yet").count(), 2, "{page}");
}

/// Every figure of the repository states what was simulated, run and compared.
#[test]
fn every_figure_says_what_was_run_and_differs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/figures");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(path.join("figure.toml")) else { continue };
        let figure: toml::Table = text.parse().unwrap();
        let real = figure["real"].as_str().unwrap();
        assert!(!figure["difference"].as_str().unwrap().is_empty(), "{path:?}");
        let kinds = ["measured", "go", "locks", "probes", "bars"];
        let measured = kinds.iter().any(|key| figure.contains_key(*key));
        assert_eq!(measured, !real.starts_with("nothing"), "{path:?}");
        let readme = std::fs::read_to_string(path.join("README.md")).unwrap();
        for (part, told) in
            [("*Simulated*", true), ("*Run for real*", measured), ("*Compared*", true)]
        {
            assert!(!told || readme.contains(part), "{path:?}: {part}");
        }
    }
}
