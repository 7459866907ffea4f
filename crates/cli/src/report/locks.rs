//! Figures of FlexGuard: drawn from what `quaver bench lock --json` measured.
//!
//! The paper's machines have 104 and 512 CPUs, so what is comparable is the number of threads for
//! each CPU: that is x.

use serde::Deserialize;

use super::benchmarks::Row;
use super::curves::Simulated;
use super::figure::Points;
use super::go::Drawing;
use crate::chart;

/// Of all drawings.
pub const X_LABEL: &str = "threads for each CPU";
/// What has to be run first.
pub const COMMAND: &str = "quaver bench lock --json bench-results.json";

/// What a row of `lock` is about, and its numbers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Measured {
    workload: String,
    threads: f64,
    lock: String,
    background: f64,
    between: Option<f64>,
    ops_per_s: f64,
    ratio_to_pthread: Option<f64>,
}

/// What a figure shows of it.
#[derive(Deserialize)]
pub struct Locks {
    /// Locks with a curve; none: all that were measured.
    #[serde(default)]
    curve: Vec<String>,
    /// The first decides.
    drawing: Vec<Of>,
}

/// One drawing.
#[derive(Deserialize)]
struct Of {
    #[serde(default)]
    suffix: String,
    title: String,
    workload: String,
    /// A part of the rows' names, where a program has several rows.
    part: Option<String>,
    /// With threads that compute beside the others.
    #[serde(default)]
    background: bool,
    /// Only with so many cycles between two sections.
    between: Option<f64>,
    y: Y,
    /// Points that the paper's text gives.
    #[serde(default)]
    paper: Vec<Given>,
}

#[derive(Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Y {
    /// Time of a critical section, of all threads, by that of the lock of `futex` alone.
    TimeToFutex,
    /// The same in µs.
    Time,
    /// Operations a second by those of pthread.
    RatioToPthread,
    /// A metric of the rows.
    Metric(String),
}

#[derive(Deserialize)]
struct Given {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Y {
    fn label(&self) -> String {
        match self {
            Y::TimeToFutex => "time of a section / futex".into(),
            Y::Time => "time of a section, µs".into(),
            Y::RatioToPthread => "operations / pthread".into(),
            Y::Metric(name) => name.replace('_', " "),
        }
    }

    fn log(&self) -> bool {
        matches!(self, Y::TimeToFutex | Y::Time)
    }

    /// Of a row; `rows` are those of the same drawing.
    fn value(&self, row: &Row, rows: &[(&Row, &Measured)]) -> Option<f64> {
        let of = row.lock.as_ref()?;
        // A section is over when the next thread's can be: the lock serves one after another.
        match self {
            Y::Time => Some(of.threads * 1e6 / of.ops_per_s),
            Y::RatioToPthread if of.lock == "pthread" || of.lock == "native" => Some(1.0),
            Y::RatioToPthread => of.ratio_to_pthread,
            Y::Metric(name) => row.metrics.get(name).copied(),
            Y::TimeToFutex => {
                let same = |other: &&(&Row, &Measured)| {
                    other.1.lock == "futex" && other.1.threads == of.threads
                };
                Some(rows.iter().find(same)?.1.ops_per_s / of.ops_per_s)
            }
        }
    }
}

impl Locks {
    /// Has anything of it been measured?
    pub fn is_measured(&self, rows: &[Row], cpus: usize) -> bool {
        self.best(rows, cpus).iter().any(|curve| !curve.points.is_empty())
    }

    /// The curves of the first drawing, and their values at most threads for each CPU.
    pub fn best(&self, rows: &[Row], cpus: usize) -> Vec<Simulated> {
        let Some(of) = self.drawing.first() else { return Vec::new() };
        let curve = |name: String| {
            let points = of.points(rows, cpus, &name);
            let best = points.last().and_then(|point| point.1);
            Simulated { name, points, shares: Points::new(), best }
        };
        self.names(of, rows).into_iter().map(curve).collect()
    }

    fn names(&self, of: &Of, rows: &[Row]) -> Vec<String> {
        if !self.curve.is_empty() {
            return self.curve.clone();
        }
        let mut names = Vec::new();
        for (_, row) in of.rows(rows) {
            if !names.contains(&row.lock) {
                names.push(row.lock.clone());
            }
        }
        names
    }

    pub fn drawings(&self, rows: &[Row], cpus: usize) -> Vec<Drawing> {
        let drawing = |of: &Of| {
            let names = self.names(of, rows);
            let ours = names.iter().enumerate().map(|(colour, name)| chart::Curve {
                name: name.clone(),
                colour,
                line: chart::Line::Thick,
                points: of
                    .points(rows, cpus, name)
                    .into_iter()
                    .filter_map(|(x, y)| Some((x, y?)))
                    .collect(),
            });
            let theirs = of.paper.iter().enumerate().map(|(index, given)| chart::Curve {
                name: format!("{} (paper)", given.name),
                colour: names.len() + index,
                line: chart::Line::Dashed,
                points: given.points.clone(),
            });
            let mut curves: Vec<_> = ours.chain(theirs).collect();
            curves.retain(|curve| !curve.points.is_empty());
            let y = format!("{}: {}", of.title, of.y.label());
            Drawing { suffix: of.suffix.clone(), y, log: of.y.log(), curves }
        };
        self.drawing.iter().map(drawing).collect()
    }
}

impl Of {
    fn rows<'a>(&self, rows: &'a [Row]) -> Vec<(&'a Row, &'a Measured)> {
        let wanted = |row: &&Row| match (&row.lock, &self.part) {
            (None, _) => false,
            (Some(of), part) => {
                of.workload == self.workload
                    && (of.background > 0.0) == self.background
                    && self.between.is_none_or(|between| of.between == Some(between))
                    && part.as_ref().is_none_or(|part| row.name.contains(part.as_str()))
            }
        };
        let rows = rows.iter().filter(wanted);
        rows.filter_map(|row| Some((row, row.lock.as_ref()?))).collect()
    }

    /// A lock's points, by ascending x; of a row that was measured twice the last counts.
    fn points(&self, rows: &[Row], cpus: usize, lock: &str) -> Points {
        let rows = self.rows(rows);
        let mut points = Points::new();
        for (row, of) in rows.iter().filter(|(_, of)| of.lock == lock) {
            let x = of.threads / cpus.max(1) as f64;
            if let Some(y) = self.y.value(row, &rows) {
                points.retain(|point| point.0 != x);
                points.push((x, Some(y)));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |lock: &str, threads: u32, ops: f64, ratio: Option<f64>, metric: f64| {
            serde_json::from_value(serde_json::json!({
                "benchmark": "lock", "name": format!("shared-memory {threads} threads"),
                "implementation": lock, "unit": "ops/s", "median": ops, "min": ops, "max": ops,
                "runs": 15, "ratio": ratio, "metrics": {"spins_per_op": metric},
                "workload": "shared-memory", "threads": threads, "lock": lock, "background": 0,
                "ops_per_s": ops, "ratio_to_pthread": ratio,
            }))
            .unwrap()
        };
        vec![
            row("futex", 4, 2e6, Some(2.0), 0.0),
            row("quaver", 4, 4e6, Some(4.0), 3.0),
            row("quaver", 2, 8e6, Some(1.5), 1.0),
        ]
    }

    fn of(y: Y) -> Locks {
        let workload = "shared-memory".into();
        let (suffix, title, between) = (String::new(), String::new(), None);
        let (part, background, paper) = (None, false, Vec::new());
        let of = Of { suffix, title, workload, part, background, between, y, paper };
        Locks { curve: vec!["quaver".into()], drawing: vec![of] }
    }

    #[test]
    fn points_are_by_threads_for_each_cpu() {
        let rows = rows();
        let points = |y| of(y).best(&rows, 2).remove(0).points;
        assert_eq!(points(Y::RatioToPthread), [(1.0, Some(1.5)), (2.0, Some(4.0))]);
        assert_eq!(points(Y::Metric("spins_per_op".into())), [(1.0, Some(1.0)), (2.0, Some(3.0))]);
        assert_eq!(points(Y::Time), [(1.0, Some(0.25)), (2.0, Some(1.0))]);
        // Nobody measured futex with two threads.
        assert_eq!(points(Y::TimeToFutex), [(2.0, Some(0.5))]);
    }

    #[test]
    fn what_was_not_measured_is_said() {
        assert!(of(Y::Time).is_measured(&rows(), 2));
        assert!(!of(Y::Time).is_measured(&[], 2));
        let mut loaded = of(Y::Time);
        loaded.drawing[0].background = true;
        assert!(!loaded.is_measured(&rows(), 2));
    }
}
