//! Figures of Aspen-Go: drawn from what `go/bench/run --json` measured instead of a simulation.

use serde::Deserialize;

use super::curves::{self, Simulated};
use super::figure::Points;
use crate::chart;

/// What has to be run first.
pub const COMMAND: &str = "go/bench/run --only badger1,compute --json go-bench-results.json";

/// What a figure shows of it.
#[derive(Deserialize)]
pub struct Go {
    /// A workload under load, of which `class` is shown; none: the slowdown by preemption.
    workload: Option<String>,
    /// The percentile's µs or the slowdown's percent that are tolerated.
    pub limit: f64,
    /// The first decides.
    #[serde(default)]
    class: Vec<Class>,
    curve: Vec<Variant>,
    /// Points that the paper's text gives.
    #[serde(default)]
    paper: Vec<Given>,
}

#[derive(Deserialize)]
struct Class {
    name: String,
    what: String,
}

#[derive(Deserialize)]
struct Variant {
    name: String,
    variant: String,
}

#[derive(Deserialize)]
struct Given {
    name: String,
    points: Vec<(f64, f64)>,
}

/// What the driver of `go/bench` writes; what it did not run is null.
#[derive(Default, Deserialize)]
pub struct Results {
    rows: Option<Vec<Row>>,
    compute: Option<Vec<Cost>>,
}

#[derive(Deserialize)]
struct Row {
    workload: String,
    variant: String,
    rate: f64,
    class: String,
    p99_us: Option<f64>,
}

#[derive(Deserialize)]
struct Cost {
    variant: String,
    quantum_us: f64,
    slowdown_percent: f64,
}

/// One drawing of a figure.
pub struct Drawing {
    /// Of the file's name.
    pub suffix: String,
    pub y: String,
    pub log: bool,
    pub curves: Vec<chart::Curve>,
}

impl Go {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.curve.iter().map(|curve| curve.name.as_str())
    }

    pub fn x_label(&self) -> &'static str {
        if self.workload.is_some() { "requests/s" } else { "quantum, µs" }
    }

    /// Has anything of it been measured?
    pub fn is_measured(&self, results: &Results) -> bool {
        self.best(results).iter().any(|curve| !curve.points.is_empty())
    }

    /// The curves that decide, and what they say: the highest rate, or the shortest quantum, up to
    /// which the limit holds.
    pub fn best(&self, results: &Results) -> Vec<Simulated> {
        let class = self.class.first().map(|class| class.name.as_str());
        let curve = |curve: &Variant| {
            let points = self.points(results, class, &curve.variant);
            let best = match self.workload {
                Some(_) if points.is_empty() => None,
                Some(_) => Some(curves::highest(&points, self.limit)),
                None => shortest(&points, self.limit),
            };
            Simulated { name: curve.name.clone(), points, shares: Points::new(), best }
        };
        self.curve.iter().map(curve).collect()
    }

    pub fn drawings(&self, results: &Results) -> Vec<Drawing> {
        if self.workload.is_none() {
            let y = "slowdown of the slowest program, %".to_owned();
            return vec![self.drawing(results, None, String::new(), y)];
        }
        let each = self.class.iter().enumerate().map(|(index, class)| {
            let suffix = if index == 0 { String::new() } else { format!("-{}", class.name) };
            self.drawing(results, Some(&class.name), suffix, class.what.clone())
        });
        each.collect()
    }

    fn drawing(
        &self,
        results: &Results,
        class: Option<&str>,
        suffix: String,
        y: String,
    ) -> Drawing {
        // What is not slower at all lies on the axis.
        let drawn = |(x, y): (f64, Option<f64>)| Some((x, y?.max(0.0)));
        let ours = self.curve.iter().enumerate().map(|(colour, curve)| chart::Curve {
            name: curve.name.clone(),
            colour,
            line: chart::Line::Thick,
            points: self
                .points(results, class, &curve.variant)
                .into_iter()
                .filter_map(drawn)
                .collect(),
        });
        let theirs = self.paper.iter().enumerate().map(|(index, given)| chart::Curve {
            name: format!("{} (paper)", given.name),
            colour: self.curve.len() + index,
            line: chart::Line::Thin,
            points: given.points.clone(),
        });
        let mut curves: Vec<_> = ours.chain(theirs).collect();
        curves.retain(|curve| !curve.points.is_empty());
        Drawing { suffix, y, log: self.workload.is_some(), curves }
    }

    /// A variant's percentile over the rate, or the most that any program is slowed down over the
    /// quantum.
    fn points(&self, results: &Results, class: Option<&str>, variant: &str) -> Points {
        let mut points = Points::new();
        if let Some(workload) = &self.workload {
            for row in results.rows.iter().flatten() {
                if row.workload == *workload
                    && row.variant == variant
                    && Some(row.class.as_str()) == class
                {
                    points.push((row.rate, row.p99_us));
                }
            }
        } else {
            for cost in results.compute.iter().flatten() {
                // "off" has no quantum.
                if cost.variant == variant && cost.quantum_us > 0.0 {
                    points.push((cost.quantum_us, Some(cost.slowdown_percent)));
                }
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.partial_cmp(&a.1).unwrap()));
        points.dedup_by_key(|point| point.0);
        points
    }
}

/// The shortest x from which on all values are within the limit.
fn shortest(points: &[(f64, Option<f64>)], limit: f64) -> Option<f64> {
    let within = |point: &&(f64, Option<f64>)| point.1.is_some_and(|y| y <= limit);
    points.iter().rev().take_while(within).last().map(|point| point.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_quantum_is_before_the_first_that_costs_too_much() {
        let points = [(20.0, Some(4.0)), (50.0, Some(9.0)), (100.0, Some(5.0)), (200.0, Some(1.0))];
        assert_eq!(shortest(&points, 5.0), Some(100.0));
        assert_eq!(shortest(&points, 0.5), None);
        assert_eq!(shortest(&[], 5.0), None);
    }
}
