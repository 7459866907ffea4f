//! One worker on this machine beside its simulation and, where a curve names one, the paper's.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::benchmarks::Bench;
use super::curves::{self, Run};
use super::figure::{self, Curve, Figure, Measured, Points};

/// What `results.json` says of a counterpart.
#[derive(Serialize, Deserialize)]
pub struct Counterpart {
    pub benchmark: String,
    pub what: String,
    pub over: String,
    pub curves: Vec<Compared>,
    /// The drawing's file, if there is anything to draw.
    pub chart: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub struct Compared {
    pub name: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    pub at: f64,
    pub real: Option<f64>,
    pub simulated: Option<f64>,
    /// At the same share of the paper's cores.
    pub paper: Option<f64>,
}

/// One of a point's three numbers, and its name.
pub type Kind = (&'static str, fn(&Point) -> Option<f64>);

pub const KINDS: [Kind; 3] = [
    ("for real", |point| point.real),
    ("simulated", |point| point.simulated),
    ("the paper, for each core", |point| point.paper),
];

/// Simulates what was measured, and puts it beside.
pub fn compare(
    figure: &Figure,
    measured: &Measured,
    bench: Option<&Bench>,
    papers: &BTreeMap<String, Points>,
    quick: bool,
) -> Result<Counterpart> {
    let rows = bench.map_or(&[][..], |bench| &bench.rows);
    let mut tables = measured.scenario.clone().unwrap_or_default();
    let vary = measured.vary.as_deref().and_then(|vary| vary.split_once('.'));
    let length =
        measured.length.as_ref().and_then(|name| rows.iter().find(|row| row.name == *name));
    if let (Some(row), Some((table, _))) = (length, vary) {
        // A request takes as long as on this machine.
        let keys = curves::keys("request", format!("{:.0}us", row.median));
        figure::change(&mut tables, table, &keys)?;
    }
    let mut compared = Vec::new();
    for curve in &measured.curve {
        let point = |&at: &f64| {
            let name = measured.row.replace("{x}", &at.to_string());
            // Of a row that was measured twice the last counts.
            let row = rows.iter().rev().find(|row| {
                row.benchmark == measured.benchmark
                    && row.name == name
                    && row.implementation == curve.implementation
            });
            let simulated = match &curve.args {
                Some(args) => {
                    let (table, key) = vary.ok_or_else(|| anyhow!("`vary` is missing"))?;
                    let value = match measured.vary_divide {
                        Some(divide) => Value::Float(at / divide),
                        None => Value::Integer(at as i64),
                    };
                    let (name, args) = (curve.name.clone(), args.clone());
                    let curve = Curve { name, args, server: Table::new(), best_of_us: None };
                    let run = Run { tables: &tables, curve: &curve, quick };
                    let outcomes = run.outcomes(None, &[(table, curves::keys(key, value))])?;
                    figure.shown.value(curves::first(&outcomes)?)?
                }
                None => None,
            };
            let paper = curve.paper.as_ref().and_then(|name| papers.get(name));
            let cores = measured.paper_cores.unwrap_or(1.0);
            let paper = paper.and_then(|points| curves::between(points, at * cores));
            Ok(Point { at, real: row.map(|row| row.median), simulated, paper })
        };
        let points = measured.at.iter().map(point).collect::<Result<_>>();
        let points =
            points.with_context(|| format!("the counterpart in {}", measured.benchmark))?;
        compared.push(Compared { name: curve.name.clone(), points });
    }
    let Measured { benchmark, what, over, .. } = measured;
    let [benchmark, what, over] = [benchmark, what, over].map(Clone::clone);
    Ok(Counterpart { benchmark, what, over, curves: compared, chart: None })
}

impl Counterpart {
    /// Has anything been run for real?
    pub fn is_measured(&self) -> bool {
        self.curves.iter().flat_map(|curve| &curve.points).any(|point| point.real.is_some())
    }

    pub fn title(&self) -> String {
        format!("One worker on this machine: {}, over {}", self.what, self.over)
    }
}
