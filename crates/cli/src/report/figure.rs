//! A figure of a paper, as its `figure.toml` states it, and the paper's own curves.
//!
//! There are eight kinds: a percentile over the load, whose result is the highest load within
//! `limit-us`; that highest load over the quantum (`quanta-us`); the workers that one timer core
//! serves over the quantum (`timer-quanta-us`); a percentile over the threads of a message
//! benchmark (`threads`); and what was measured of Go programs (`go`), of locks (`locks`), of
//! programs with probes (`probes`), or as single numbers (`bars`).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use quaver_sim::{Latency, Outcome};
use serde::Deserialize;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::bars::Bars;
use super::go::Go;
use super::locks::Locks;
use super::probes;

/// Points by ascending x; `None`: the workers cannot follow.
pub type Points = Vec<(f64, Option<f64>)>;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Figure {
    pub title: String,
    /// What is simulated; none: all curves.
    pub simulated: Option<String>,
    /// What was run for real.
    pub real: String,
    /// Where ours differs from the paper's.
    pub difference: String,
    #[serde(flatten)]
    pub shown: Shown,
    pub limit_us: Option<f64>,
    pub quanta_us: Option<Vec<u32>>,
    pub timer_quanta_us: Option<Vec<u32>>,
    pub headline_quantum_us: Option<u32>,
    pub most_workers: Option<u32>,
    pub threads: Option<Vec<u32>>,
    pub headline_threads: Option<u32>,
    #[serde(default)]
    pub headlines: Vec<Headline>,
    #[serde(default)]
    pub paper_best: BTreeMap<String, f64>,
    pub reference: Option<Reference>,
    pub share_reference: Option<Reference>,
    /// Drawn from measurements; then there is neither a scenario nor a curve.
    pub go: Option<Go>,
    /// The same, of locks.
    pub locks: Option<Locks>,
    /// The same, of programs with probes.
    pub probes: Option<probes::Figure>,
    /// The same, as bars.
    pub bars: Option<Bars>,
    #[serde(default)]
    pub scenario: Table,
    #[serde(default)]
    pub curve: Vec<Curve>,
    #[serde(default)]
    pub measured: Vec<Measured>,
}

/// Which number of an outcome a figure shows.
#[derive(Clone, Deserialize)]
pub struct Shown {
    pub class: Option<String>,
    pub percentile: Option<String>,
    #[serde(default)]
    pub slowdown: bool,
}

/// A ratio of two curves, with the paper's where it gives no curves.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Headline {
    Given(String, String, f64),
    Published(String, String),
}

/// Where the paper's curves are.
#[derive(Deserialize)]
pub struct Reference {
    file: String,
    x: String,
    y: String,
    divide: f64,
    /// Their names and ours.
    curves: BTreeMap<String, String>,
}

/// One simulated curve: the figure's scenario with changes.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Curve {
    pub name: String,
    pub args: Vec<String>,
    #[serde(default)]
    pub server: Table,
    /// Quanta of which the best counts at each load.
    pub best_of_us: Option<Vec<u32>>,
}

/// Rows of `quaver bench` with one worker, beside a simulation of it where there are `args`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Measured {
    pub benchmark: String,
    /// The row's name; `{x}` is where it was measured.
    pub row: String,
    pub what: String,
    pub over: String,
    pub at: Vec<f64>,
    /// `TABLE.KEY` of the scenario that varies.
    pub vary: Option<String>,
    pub vary_divide: Option<f64>,
    /// At how many times this x the paper's curve is read.
    pub paper_cores: Option<f64>,
    /// A row that says how long a request takes here.
    pub length: Option<String>,
    pub scenario: Option<Table>,
    pub curve: Vec<MeasuredCurve>,
}

#[derive(Deserialize)]
pub struct MeasuredCurve {
    pub name: String,
    pub implementation: String,
    pub args: Option<Vec<String>>,
    pub paper: Option<String>,
}

impl Figure {
    /// Reads `figure.toml` of a folder.
    pub fn open(folder: &Path) -> Result<Figure> {
        let path = folder.join("figure.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let figure: Figure =
            toml::from_str(&text).with_context(|| format!("cannot use {}", path.display()))?;
        let measured = figure.go.iter().flat_map(Go::names);
        let names: Vec<_> =
            figure.curve.iter().map(|curve| curve.name.as_str()).chain(measured).collect();
        let drawn = figure.locks.is_some() || figure.probes.is_some() || figure.bars.is_some();
        if names.is_empty() && !drawn {
            bail!("{}: there is no curve", path.display());
        }
        for headline in &figure.headlines {
            for name in headline.names() {
                if !names.contains(&name) {
                    bail!("{}: there is no curve {name} for the headline", path.display());
                }
            }
        }
        Ok(figure)
    }
}

impl Headline {
    pub fn names(&self) -> [&str; 2] {
        match self {
            Headline::Given(of, over, _) | Headline::Published(of, over) => [of, over],
        }
    }
}

impl Shown {
    /// The number, or `None` where the workers cannot follow.
    pub fn value(&self, outcome: &Outcome) -> Result<Option<f64>> {
        let name = self.class.as_deref().ok_or_else(|| anyhow!("`class` is missing"))?;
        let class = outcome.class(name).ok_or_else(|| anyhow!("there is no class {name}"))?;
        let of = if self.slowdown { class.slowdown } else { class.latency_us };
        let read: fn(&Latency) -> f64 = match self.percentile.as_deref() {
            Some("p50") => |of| of.p50,
            Some("p90") => |of| of.p90,
            Some("p99") => |of| of.p99,
            Some("p99_5") => |of| of.p99_5,
            Some("p99_9") => |of| of.p99_9,
            Some("p99_99") => |of| of.p99_99,
            other => {
                bail!("`percentile` is {other:?}, not one of p50, p90, p99, p99_5, p99_9, p99_99")
            }
        };
        Ok(if outcome.unstable { None } else { of.as_ref().map(read) })
    }

    /// What it is, in words.
    pub fn label(&self) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let unit = if self.slowdown { "slowdown" } else { "µs" };
        format!("{} of {}, {unit}", text(&self.percentile).replace('_', "."), text(&self.class))
    }
}

impl Reference {
    /// The paper's curves by our names, by ascending x.
    pub fn curves(&self, folder: &Path) -> Result<BTreeMap<String, Points>> {
        let path = folder.join(&self.file);
        let read = || -> Result<BTreeMap<String, Points>> {
            let data: Json = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            let curve = |(theirs, ours): (&String, &String)| {
                let curve =
                    data.get(theirs).ok_or_else(|| anyhow!("there is no curve {theirs}"))?;
                let rows = curve.get("rows").unwrap_or(curve).as_array();
                let rows = rows.ok_or_else(|| anyhow!("{theirs} is no list of rows"))?;
                let mut points = Points::new();
                for row in rows {
                    let number = |key: &str| {
                        let number = row.get(key).and_then(Json::as_f64);
                        number.ok_or_else(|| anyhow!("a row of {theirs} has no number {key}"))
                    };
                    points.push((number(&self.x)?, Some(number(&self.y)? / self.divide)));
                }
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Ok((ours.clone(), points))
            };
            self.curves.iter().map(curve).collect()
        };
        read().with_context(|| format!("cannot use {}", path.display()))
    }
}

/// Sets keys of a scenario's table.
pub fn change(tables: &mut Table, table: &str, keys: &Table) -> Result<()> {
    let into = tables.get_mut(table).and_then(Value::as_table_mut);
    into.ok_or_else(|| anyhow!("the scenario has no table {table}"))?.extend(keys.clone());
    Ok(())
}
