//! The ratios that the papers' figures are about, simulated: each within the tolerance that its
//! `figure.toml` states.
//!
//! The paper's ratio is computed from its published numbers in `bench/reference` as ours is from
//! the simulation, and stands in `figure.toml` only where the paper gives nothing but the ratio.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quaver_sim::{Options, Outcome, Scenario, simulate};
use serde_json::Value as Json;
use toml::{Table, Value};

fn bench() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench")
}

fn figure(name: &str) -> Table {
    let path = bench().join("figures").join(name).join("figure.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    text.parse().unwrap_or_else(|e| panic!("{path:?}: {e}"))
}

fn curve<'a>(figure: &'a Table, name: &str) -> &'a Table {
    let mut curves = figure["curve"].as_array().unwrap().iter().map(|c| c.as_table().unwrap());
    curves.find(|curve| curve["name"].as_str() == Some(name)).unwrap()
}

/// The scenario of one curve: the figure's, with the curve's options as `quaver sim` takes them.
fn scenario(figure: &Table, curve: &Table, requests: i64) -> Scenario {
    let mut tables = figure["scenario"].as_table().unwrap().clone();
    let server = tables["server"].as_table_mut().unwrap();
    if let Some(own) = curve.get("server") {
        server.extend(own.as_table().unwrap().clone());
    }
    let args: Vec<&str> =
        curve["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    for pair in args.chunks(2) {
        server.insert(pair[0].trim_start_matches("--").into(), pair[1].into());
    }
    let load = tables["load"].as_table_mut().unwrap();
    if load.remove("loads").is_some() {
        load.insert("load".into(), Value::Float(0.5));
    }
    load.insert("requests".into(), Value::Integer(requests));
    let text = toml::to_string(&tables).unwrap().replace("\"server.costs\"", "server.costs");
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What the figure shows of an outcome; `None` where the workers cannot follow.
fn value(figure: &Table, outcome: &Outcome) -> Option<f64> {
    let class = outcome.class(figure["class"].as_str().unwrap()).unwrap();
    let slowdown = figure.get("slowdown").is_some_and(|yes| yes.as_bool() == Some(true));
    let of = (if slowdown { class.slowdown } else { class.latency_us })?;
    let value = match figure["percentile"].as_str().unwrap() {
        "p99" => of.p99,
        "p99_9" => of.p99_9,
        other => panic!("percentile {other}"),
    };
    (!outcome.unstable).then_some(value)
}

/// The highest load within the limit, to a half of a percent; or the value at the headline's
/// threads.
fn ours(figure: &Table, curve: &Table, requests: i64) -> f64 {
    let run = |scenario: &Scenario, rate| {
        value(figure, &simulate(scenario, rate, &Options::default()).unwrap().0)
    };
    if let Some(threads) = figure.get("headline-threads") {
        let mut scenario = scenario(figure, curve, requests);
        scenario.schbench.as_mut().unwrap().workers = threads.as_integer().unwrap() as u16;
        return run(&scenario, 0.0).unwrap();
    }
    let scenario = scenario(figure, curve, requests);
    let (capacity, limit) = (scenario.capacity().unwrap(), limit(figure));
    let (mut low, mut high) = (0.02, 1.0);
    while high - low > 0.005 {
        let load = (low + high) / 2.0;
        let within = run(&scenario, load * capacity).is_some_and(|value| value <= limit);
        (low, high) = if within { (load, high) } else { (low, load) };
    }
    low * capacity
}

fn limit(figure: &Table) -> f64 {
    let limit = &figure["limit-us"];
    limit.as_float().or(limit.as_integer().map(|us| us as f64)).unwrap()
}

/// The paper's curves by our names: points in the order of x.
fn papers(figure: &Table) -> BTreeMap<String, Vec<(f64, f64)>> {
    let Some(spec) = figure.get("reference") else { return BTreeMap::new() };
    let text = |key: &str| spec[key].as_str().unwrap();
    let file = bench().join("reference").join(text("file"));
    let data: Json = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let curve = |(theirs, ours): (&String, &Value)| {
        let rows = data[theirs].get("rows").unwrap_or(&data[theirs]).as_array().unwrap();
        let point = |row: &Json| {
            let y = row[text("y")].as_f64()?;
            Some((row[text("x")].as_f64()?, y / spec["divide"].as_float().unwrap()))
        };
        let mut points: Vec<_> = rows.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (ours.as_str().unwrap().to_owned(), points)
    };
    spec["curves"].as_table().unwrap().iter().map(curve).collect()
}

/// As [`ours`], of published points: between two points the logarithm is taken to be straight.
fn theirs(figure: &Table, points: &[(f64, f64)]) -> f64 {
    if let Some(threads) = figure.get("headline-threads").and_then(Value::as_integer) {
        return points.iter().find(|point| point.0 == threads as f64).unwrap().1;
    }
    let limit = limit(figure);
    let beyond = points.iter().position(|point| point.1 > limit).expect("the curve ends beyond");
    let ((x0, y0), (x1, y1)) = (points[beyond - 1], points[beyond]);
    x0 + (x1 - x0) * (limit / y0).ln() / (y1 / y0).ln()
}

/// Prints all ratios, and asserts those that are not named as misses.
fn check(name: &str, requests: i64) {
    let figure = figure(name);
    let tolerance = figure["tolerance-percent"].as_integer().unwrap() as f64;
    assert!(tolerance <= 15.0, "{name}: {tolerance} % is no tolerance");
    let (papers, mut cache) = (papers(&figure), BTreeMap::new());
    for headline in figure["headlines"].as_array().unwrap() {
        let headline = headline.as_array().unwrap();
        let [one, other] = [0, 1].map(|i| headline[i].as_str().unwrap());
        let paper = match headline.get(2).and_then(Value::as_float) {
            Some(given) => given,
            None => theirs(&figure, &papers[one]) / theirs(&figure, &papers[other]),
        };
        let mut of = |name: &str| {
            *cache
                .entry(name.to_owned())
                .or_insert_with(|| ours(&figure, curve(&figure, name), requests))
        };
        let ratio = of(one) / of(other);
        let off = 100.0 * (ratio / paper - 1.0);
        println!("{name}: {one} over {other}: {ratio:.3}, in the paper {paper:.3}: {off:+.1} %");
        let miss =
            figure.get("misses").and_then(|misses| misses.get(format!("{one} over {other}")));
        if let Some(expected) = miss {
            // A difference that the figure's README explains: it is not to grow unnoticed.
            let expected = expected.as_float().unwrap();
            assert!((off - expected).abs() <= 5.0, "{name}: {one} over {other}: {off:+.1} %");
        } else {
            assert!(off.abs() <= tolerance, "{name}: {one} over {other}: {off:+.1} %");
        }
    }
}

/// With signals one timer core cannot interrupt as often as with user interrupts, and then GETs
/// gain little; the paper (section 4.1.1) says 43 % as often.
#[test]
fn signals_do_little_in_aspen_5() {
    let figure = figure("aspen-05");
    let sent = |name: &str| {
        let scenario = scenario(&figure, curve(&figure, name), 100_000);
        let rate = 0.97 * scenario.capacity().unwrap();
        let (outcome, _) = simulate(&scenario, rate, &Options::default()).unwrap();
        outcome.counts.sent as f64 / outcome.seconds
    };
    let share = sent("signals") / sent("user interrupts");
    let [signals, none] =
        ["signals", "no preemption"].map(|name| ours(&figure, curve(&figure, name), 100_000));
    let gain = signals / none;
    println!("signals: {gain:.2} times no preemption, {share:.2} of user interrupts' preemptions");
    assert!((1.0..1.35).contains(&gain) && (0.38..0.55).contains(&share));
}

/// The published CFS wakes threads as late as ours if every slice is as long as all should be
/// together.
#[test]
fn slices_are_not_shared_in_skyloft_5() {
    let (figure, name) = (figure("skyloft-05"), "skyloft cfs 50us");
    let paper = theirs(&figure, &papers(&figure)[name]);
    let with = |slice: &str| {
        let mut curve = curve(&figure, name).clone();
        let policy = format!("cfs:quantum={slice},latency=50us");
        curve["args"] = Value::Array(vec!["--policy".into(), policy.into()]);
        ours(&figure, &curve, 20_000)
    };
    let [published, forty, fifty] = ["12500ns", "40us", "50us"].map(with);
    println!("slices of 12.5, 40, 50 us: {published:.0}, {forty:.0}, {fifty:.0} us; paper {paper}");
    assert!(published < 0.5 * paper && forty < paper && paper < fifty);
}

macro_rules! figures {
    ($($test:ident: $name:literal, $requests:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name, $requests);
        })*

        /// No figure with ratios is left out.
        #[test]
        fn every_figure_is_checked() {
            for entry in std::fs::read_dir(bench().join("figures")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = bench().join("figures").join(&name).join("figure.toml");
                if !path.exists() || figure(&name).contains_key("go") {
                    continue; // measured, not simulated
                }
                if figure(&name).contains_key("headlines") {
                    assert!([$($name),*].contains(&name.as_str()), "{name}");
                }
            }
        }
    };
}

// With so many requests each that their percentiles hold still.
figures! {
    aspen_5: "aspen-05", 100_000;
    aspen_6: "aspen-06", 100_000;
    skyloft_5: "skyloft-05", 20_000;
    skyloft_6: "skyloft-06", 30_000;
    skyloft_7a: "skyloft-07a", 200_000;
    skyloft_7bc: "skyloft-07bc", 200_000;
    skyloft_8a: "skyloft-08a", 100_000;
    skyloft_8b: "skyloft-08b", 100_000;
}
