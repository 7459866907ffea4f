//! What `quaver bench --json` wrote, as charts and tables.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value as Json;

use super::{locks, probes, share};
use crate::chart::{self, Bar, number};
use crate::html::escape;

#[derive(Deserialize)]
pub struct Bench {
    pub rows: Vec<Row>,
    #[serde(default)]
    machine: Json,
    #[serde(default)]
    quick: bool,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
pub struct Row {
    #[serde(default)]
    pub benchmark: String,
    pub name: String,
    pub implementation: String,
    pub unit: String,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: u64,
    pub ratio: Option<f64>,
    #[serde(flatten)]
    pub labels: Option<probes::Labels>,
    #[serde(flatten)]
    pub lock: Option<locks::Measured>,
    /// Of rows with either.
    #[serde(default)]
    pub metrics: std::collections::BTreeMap<String, f64>,
}

impl Bench {
    /// A section for each benchmark, with a chart for each row name in it. `reference`: the folder
    /// of the papers' numbers.
    pub fn section(&self, reference: &Path) -> Result<String> {
        let mut page = format!("<p class=\"soft\">Benchmarks: {}. ", escape(&self.place()));
        if self.quick {
            page.push_str("<strong>A quick look, no measurement.</strong> ");
        }
        page.push_str(
            "Bars are medians, lines reach from the lowest to the highest run; ratios compare with \
             the first implementation of each table in the same round.</p>\n",
        );
        for benchmark in self.rows.chunk_by(|a, b| a.benchmark == b.benchmark) {
            page.push_str(&format!("<h2>{}</h2>\n", escape(&benchmark[0].benchmark)));
            if benchmark[0].labels.is_some() {
                page.push_str(&probes::section(benchmark, reference)?);
                continue;
            }
            if benchmark[0].benchmark == "share" {
                page.push_str(&share::section(benchmark)?);
            }
            for rows in benchmark.chunk_by(|a, b| a.name == b.name) {
                let title = format!("{}, {}", rows[0].name, rows[0].unit);
                let svg = chart::bars(&title, &rows.iter().map(bar).collect::<Vec<_>>())?;
                page.push_str(&format!("<h3>{}</h3>\n{svg}\n{}", escape(&title), table(rows)));
            }
        }
        let notes: String =
            self.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        if !notes.is_empty() {
            page.push_str(&format!("<h2>Notes</h2>\n<ul>{notes}</ul>\n"));
        }
        Ok(page)
    }

    /// How many CPUs could be used.
    pub fn cpus(&self) -> usize {
        self.machine["cpus"]["allowed"].as_array().map_or(0, Vec::len)
    }

    /// Where it was measured, in one line.
    fn place(&self) -> String {
        let text = |key: &str| self.machine["kernel"][key].as_str().unwrap_or_default();
        let cpus = self.cpus();
        let mut parts = vec![text("processor").to_owned(), format!("{cpus} usable CPUs")];
        for (before, key) in [("Linux", "release"), ("under", "hypervisor")] {
            if !text(key).is_empty() {
                parts.push(format!("{before} {}", text(key)));
            }
        }
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

/// A row as a bar.
pub fn bar(row: &Row) -> Bar {
    Bar {
        name: row.implementation.clone(),
        text: format!("{} {}", number(row.median), row.unit),
        values: [row.min, row.median, row.max],
        main: row.implementation.starts_with("quaver"),
    }
}

/// All figures of the rows.
fn table(rows: &[Row]) -> String {
    let mut lines = String::new();
    for row in rows {
        let numbers = [row.median, row.min, row.max].map(number);
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let runs = row.runs.to_string();
        let [median, min, max] = &numbers;
        let cells = [&row.implementation, median, min, max, &row.unit, &runs, &ratio];
        let cells = cells.map(|cell| format!("<td>{}</td>", escape(cell)));
        lines.push_str(&format!("<tr>{}</tr>\n", cells.concat()));
    }
    format!(
        "<details><summary>figures</summary><table>\n<tr><th>implementation</th><th>median</th>\
         <th>min</th><th>max</th><th>unit</th><th>runs</th><th>ratio</th></tr>\n\
         {lines}</table></details>\n"
    )
}
