//! What is wrong in a scenario is named, with its line and key.

use quaver_sim::Scenario;

const GOOD: &str = "[load]\nmix = \"a:1:fixed=1us\"\nload = 0.5\n[server]\nworkers = 2\n";

#[test]
fn a_small_scenario_is_enough() {
    GOOD.parse::<Scenario>().unwrap();
}

#[test]
fn errors_name_line_and_key() {
    for (from, to, parts) in [
        (
            "workers = 2",
            "workers = -2",
            &["line 5", "workers", "-2 is not a whole number from 1"][..],
        ),
        ("workers = 2", "workers = 0", &["line 5", "workers"]),
        ("workers = 2", "wokers = 2", &["line 5", "unknown field `wokers`", "workers"]),
        (
            "workers = 2",
            "workers = 2\npolicy = \"best\"",
            &["line 6", "policy", "unknown policy `best`", "two-queue"],
        ),
        ("workers = 2", "workers = 2\npolicy = \"rr:quantum=-1us\"", &["line 6", "is negative"]),
        (
            "workers = 2",
            "workers = 2\nmechanism = \"pigeon\"",
            &["line 6", "unknown name `pigeon`", "uintr"],
        ),
        (
            "workers = 2",
            "workers = 2\nsystem = \"mine\"",
            &["line 6", "unknown name `mine`", "aspen-kb"],
        ),
        (
            "workers = 2",
            "workers = 2\ntick = \"5us\"",
            &["line 6", "tick", "no timer of each worker"],
        ),
        ("workers = 2", "workers = 2\ndispatcher = true", &["line 6", "dispatcher", "two-queue"]),
        (
            "workers = 2",
            "workers = 2\npolicy = \"fifo\"\nskip-unnecessary = false",
            &["line 7", "no quantum"],
        ),
        (
            "workers = 2",
            "workers = 2\npolicy = \"fifo\"\nonce-a-quantum = true",
            &["line 7", "no quantum"],
        ),
        (
            "workers = 2",
            "workers = 2\npolicy = \"rr\"\nbalance = false",
            &["line 7", "balance", "`rr` has one queue"],
        ),
        ("workers = 2", "workers = 2\ntax = 0", &["line 6", "tax", "from 1 to 100"]),
        (
            "workers = 2",
            "workers = 2\nmechanism = \"xui-timer\"\ntick = \"5us\"\ntax = 10",
            &["line 8", "tax", "ticks"],
        ),
        ("workers = 2", "workers = 2\nthreads = 0", &["line 6", "threads", "0 is not"]),
        ("workers = 2", "workers = 2\nthreads = 4", &["line 6", "threads", "rss"]),
        (
            "workers = 2",
            "workers = 2\n[server.costs]\nsend = \"fast\"",
            &["line 7", "send", "`fast`"],
        ),
        (
            "workers = 2",
            "workers = 2\n[server.costs]\ndeliver = \"lognormal=1us\"",
            &["line 7", "deliver", "MEAN/SIGMA"],
        ),
        (
            "workers = 2",
            "workers = 2\n[server.costs]\nlate = \"quantiles=0%:5us,100%:1us\"",
            &["line 7", "late", "no quantiles"],
        ),
        (
            "workers = 2",
            "workers = 2\nmechanism = \"quaver-timer-thread\"\nskip-unnecessary = false",
            &["line 7", "skip-unnecessary", "its own way"],
        ),
        (
            "workers = 2",
            "workers = 2\n[[noise]]\nevery = \"50us\"\nlasts = \"1us\"\n[[noise]]\nlasts = \"1us\"",
            &["line 9", "missing field `every`"],
        ),
        (
            "workers = 2",
            "workers = 2\n[noise]\nevery = \"50us\"\nlasts = \"-5us\"",
            &["line 8", "lasts", "negative"],
        ),
        (
            "workers = 2",
            "workers = 2\n[noise]\nevery = \"50us\"\nlasts = \"exp=50us\"",
            &["line 7", "every", "all time of the workers"],
        ),
        ("load = 0.5", "load = -0.5", &["line 3", "load", "-0.5 is not a number above 0"]),
        ("load = 0.5", "rate = -1000.0", &["line 3", "rate", "-1000 is not a number above 0"]),
        ("load = 0.5", "load = 0.5\nnetwork = \"-1us\"", &["line 4", "network", "negative"]),
        ("load = 0.5", "load = 0.5\narrivals = \"batch=0\"", &["line 4", "arrivals", "batch"]),
        ("a:1:fixed=1us", "a:-1:fixed=1us", &["line 2", "mix", "-1"]),
        ("a:1:fixed=1us", "a:1:gauss=1us", &["line 2", "mix", "gauss"]),
        ("workers = 2", "workers = 2\n[plan]\nslo = \"a:p99<=-5us\"", &["line 7", "slo", "-5us"]),
        ("workers = 2", "workers = 2\n[plan]\nslo = []", &["line 7", "slo", "at least one"]),
        ("load = 0.5", "load = nan", &["line 3", "not a number above 0"]),
        ("load = 0.5", "loads = \"high\"", &["line 3", "loads", "high"]),
        ("load = 0.5", "", &["line 1", "one of `rate`, `load` and `loads` is missing"]),
        ("load = 0.5", "load = 0.5\nrate = 3.0", &["line 1", "only one"]),
        ("load = 0.5", "load = 0.5\nwarm-up = 2.0", &["line 4", "warm-up", "0 to 0.9"]),
        ("load = 0.5", "load = 0.5\nrequests = 0", &["line 4", "requests"]),
        ("a:1:fixed=1us", "a:1:fixed=-1us", &["line 2", "mix", "-1us"]),
        ("a:1:fixed=1us", "a:1", &["line 2", "mix", "service time"]),
        ("mix = \"a:1:fixed=1us\"\n", "", &["line 1", "`mix` or `trace` is missing"]),
        ("[load]", "[laod]", &["line 1", "laod"]),
        ("[server]", "[server", &["line 4"]),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replace(from, to);
        let error = text.parse::<Scenario>().expect_err(&text).to_string();
        for part in parts {
            assert!(error.contains(part), "{text}\n{error}\nlacks {part:?}");
        }
    }
}

fn with_trace(content: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.csv"), content).unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, "[load]\ntrace = \"t.csv\"\n[server]\nworkers = 1\n").unwrap();
    let scenario = Scenario::open(&path).unwrap();
    match scenario.rates() {
        Ok(rates) => format!("{rates:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn traces_are_read_from_beside_the_scenario_and_checked() {
    assert_eq!(with_trace("0,a,1\n1,a,1\n2,a,1\n"), "[1000000.0]");
    for (content, part) in [
        ("", "t.csv"),
        ("0,a\n1,a\n", "record 1 has no service time"),
        ("0,a,1\n1,a,1\n2,a", "t.csv"),
        ("0,a,1\n1,a,x\n", "t.csv"),
    ] {
        let error = with_trace(content);
        assert!(error.contains("load.trace") && error.contains(part), "{content:?}: {error}");
    }
}

#[test]
fn recorded_stops_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, format!("{GOOD}[stops]\ntrace = \"stops.csv\"\n")).unwrap();
    let scenario = Scenario::open(&path).unwrap();
    let stops = |content: &str| {
        std::fs::write(folder.path().join("stops.csv"), content).unwrap();
        scenario.recorded_stops().map_err(|error| error.to_string())
    };
    assert_eq!(stops("1,kernel,2\n3.5,host,4\n"), Ok(vec![(1_000, 2_000), (3_500, 4_000)]));
    for (content, part) in [
        ("", "stops.csv"),
        ("1,kernel\n", "record 1 has no length"),
        ("5,kernel,1\n4,kernel,1\n", "line 2"),
        ("5,kernel,1\n6,kern", "stops.csv"),
    ] {
        let error = stops(content).unwrap_err();
        assert!(error.contains("stops.trace") && error.contains(part), "{content:?}: {error}");
    }
    let text = format!("{GOOD}[stops]\nfile = \"stops.csv\"\n");
    let error = text.parse::<Scenario>().unwrap_err().to_string();
    assert!(error.contains("line 7") && error.contains("unknown field `file`"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Scenario::open("no/such.toml".as_ref()).unwrap_err().to_string();
    assert!(error.contains("no/such.toml"), "{error}");
}
