//! Whether the simulator has passed: every row that there should be is there, was not disturbed,
//! and agrees.

use serde::Serialize;

/// How far a simulated percentile may be from the measured one.
pub const TOLERANCE_PERCENT: f64 = 15.0;
/// What is compared.
pub const CLASSES: [&str; 2] = ["short", "long"];
/// The names of the percentiles.
pub const PERCENTILES: [&str; 2] = ["p50", "p99"];

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which policy and mix: the name of the case.
    pub case: &'static str,
    /// Offered load in percent.
    pub load_percent: u32,
    /// The class.
    pub class: &'static str,
    /// `p50` or `p99`.
    pub percentile: &'static str,
    /// Microseconds, over all rounds.
    pub simulated_us: f64,
    /// Microseconds, over all rounds.
    pub measured_us: f64,
    /// Simulated divided by measured.
    pub ratio: f64,
    /// The machine took too much of the worker's time in too many rounds.
    pub disturbed: bool,
    /// Not disturbed, and within the tolerance.
    pub passed: bool,
}

impl Row {
    /// A row of these percentiles.
    pub fn new(
        case: &'static str,
        load_percent: u32,
        [class, percentile]: [&'static str; 2],
        [simulated_ns, measured_ns]: [u64; 2],
        disturbed: bool,
    ) -> Row {
        let [simulated_us, measured_us] = [simulated_ns, measured_ns].map(|ns| ns as f64 / 1e3);
        let ratio = simulated_us / measured_us;
        let agrees = (ratio - 1.0).abs() <= TOLERANCE_PERCENT / 100.0;
        let passed = agrees && !disturbed;
        Row {
            case,
            load_percent,
            class,
            percentile,
            simulated_us,
            measured_us,
            ratio,
            disturbed,
            passed,
        }
    }

    fn name(&self) -> String {
        name(self.case, self.load_percent, self.class, self.percentile)
    }
}

fn name(case: &str, load_percent: u32, class: &str, percentile: &str) -> String {
    format!("{case}, {load_percent} %, {class}, {percentile}")
}

/// What came of all rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// All rows are there and have passed, on a machine that was fit to measure on.
    pub passed: bool,
    /// Rows of which nothing was served in time, on either side.
    pub missing: Vec<String>,
    /// Rows that the machine disturbed.
    pub disturbed: Vec<String>,
    /// Rows outside the tolerance.
    pub outside: Vec<String>,
}

impl Verdict {
    /// Of rows, of which there should be one for each of these cases and loads, each class and
    /// percentile. A machine that is unfit for so many reasons cannot pass.
    pub fn of(rows: &[Row], cases: &[&str], loads: &[u32], unfit: usize) -> Verdict {
        let names: Vec<String> = rows.iter().map(Row::name).collect();
        let wanted = cases.iter().flat_map(|case| {
            let classes = CLASSES.iter().flat_map(|class| PERCENTILES.map(|p| (*class, p)));
            let all = loads.iter().flat_map(move |load| classes.clone().map(move |c| (*load, c)));
            all.map(move |(load, (class, percentile))| name(case, load, class, percentile))
        });
        let missing: Vec<String> = wanted.filter(|name| !names.contains(name)).collect();
        let of = |bad: fn(&&Row) -> bool| rows.iter().filter(bad).map(Row::name).collect();
        let disturbed: Vec<String> = of(|row| row.disturbed);
        let outside: Vec<String> = of(|row| !row.disturbed && !row.passed);
        let passed = missing.is_empty() && rows.iter().all(|row| row.passed) && unfit == 0;
        Verdict { passed, missing, disturbed, outside }
    }

    /// For people: what keeps it from passing, or that the machine does.
    pub fn text(&self) -> String {
        let Verdict { passed, missing, disturbed, outside } = self;
        if *passed {
            return "Passed.".into();
        }
        let wrong = [(outside, "outside the tolerance"), (missing, "missing")];
        let wrong = wrong.into_iter().filter(|(rows, _)| !rows.is_empty());
        let wrong: Vec<_> =
            wrong.map(|(rows, what)| format!("{} rows are {what}", rows.len())).collect();
        if !wrong.is_empty() {
            return format!("Failed: {}.", wrong.join(", "));
        }
        match disturbed.len() {
            0 => "No verdict: the machine is unfit to measure on.".into(),
            n => format!("No verdict: the machine disturbed {n} of the rows."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [&str; 2] = ["one", "two"];
    const LOADS: [u32; 2] = [30, 80];

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for case in CASES {
            for load in LOADS {
                for class in CLASSES {
                    let row = |p| Row::new(case, load, [class, p], [1_140, 1_000], false);
                    rows.extend(PERCENTILES.map(row));
                }
            }
        }
        rows
    }

    fn verdict(rows: &[Row]) -> Verdict {
        Verdict::of(rows, &CASES, &LOADS, 0)
    }

    #[test]
    fn only_what_is_complete_undisturbed_and_near_passes() {
        assert!(verdict(&rows()).passed);
        assert_eq!(verdict(&rows()[1..]).missing, ["one, 30 %, short, p50"]);
        assert!(!verdict(&rows()[1..]).passed && !verdict(&[]).passed);
        assert_eq!(verdict(&[]).missing.len(), 16);
        assert!(!Verdict::of(&rows(), &CASES, &LOADS, 1).passed, "a machine that was busy");
        let with = |values, disturbed| {
            let mut rows = rows();
            rows[3] = Row::new("one", 30, ["long", "p99"], values, disturbed);
            verdict(&rows)
        };
        for far in [[1_160, 1_000], [840, 1_000], [0, 1_000], [1_000, 0], [0, 0]] {
            let verdict = with(far, false);
            assert!(!verdict.passed && verdict.outside == ["one, 30 %, long, p99"], "{far:?}");
        }
        assert!(with([860, 1_000], false).passed);
        let disturbed = with([1_000, 1_000], true);
        assert!(!disturbed.passed && disturbed.disturbed == ["one, 30 %, long, p99"]);
        // What people are told.
        assert_eq!(verdict(&rows()).text(), "Passed.");
        assert!(disturbed.text().starts_with("No verdict: the machine disturbed 1 of"));
        let outside = with([1_160, 1_000], false).text();
        assert_eq!(outside, "Failed: 1 rows are outside the tolerance.");
        assert_eq!(verdict(&rows()[1..]).text(), "Failed: 1 rows are missing.");
        assert!(Verdict::of(&rows(), &CASES, &LOADS, 1).text().contains("unfit"));
    }
}
