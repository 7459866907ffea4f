//! The result for people (a table) and for programs (JSON).

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::harness::Row;
use super::probes;
use crate::doctor::detect::Facts;

/// Everything about one call of `quaver bench`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of Quaver.
    pub version: &'static str,
    /// Which benchmarks ran.
    pub benchmarks: Vec<&'static str>,
    /// Was it a look only?
    pub quick: bool,
    /// The machine, as `quaver doctor --json` describes it.
    pub machine: Facts,
    /// The measurements.
    pub rows: Vec<Row>,
    /// Of `probes`, over all programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<probes::Summary>,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// How processes of Quaver crashed or computed wrongly: then the command fails.
    pub crashes: Vec<String>,
}

impl Report {
    /// The table, and under it what a reader must know.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for benchmark in &self.benchmarks {
            let rows: Vec<&Row> =
                self.rows.iter().filter(|row| row.benchmark == *benchmark).collect();
            if !rows.is_empty() {
                let table = match &self.summary {
                    Some(summary) if *benchmark == probes::NAME => probes::text(&rows, summary),
                    _ => table(&rows).to_string(),
                };
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{benchmark}\n{table}\n");
            }
        }
        for note in self.remarks() {
            let _ = writeln!(text, "* {note}");
        }
        text
    }

    /// Notes of rows, once for each implementation, then those of the run.
    fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        for row in &self.rows {
            for note in &row.notes {
                let remark = format!("{} {}: {note}", row.benchmark, row.implementation);
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
        }
        remarks.extend(self.notes.iter().cloned());
        remarks
    }
}

fn table(rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["", "implementation", "median", "min", "max", "unit", "runs", "ratio"];
    let aims = rows.iter().any(|row| row.aim.is_some());
    header.extend(aims.then_some("aim"));
    table.set_header(header);
    let mut previous = "";
    for row in rows {
        // The name once, above its implementations.
        let name = if row.name == previous { "" } else { &row.name };
        previous = &row.name;
        let mut cells = vec![
            name.to_owned(),
            row.implementation.clone(),
            number(row.median),
            number(row.min),
            number(row.max),
            row.unit.to_owned(),
            row.runs.to_string(),
            row.ratio.map(|ratio| format!("{ratio:.2}x")).unwrap_or_default(),
        ];
        if aims {
            cells.push(row.aim.map(|aim| aim.to_string()).unwrap_or_default());
        }
        table.add_row(cells);
    }
    for column in [2, 3, 4, 6, 7, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Three digits that mean something; the rest would be noise.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0..100.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Bound;
    use crate::doctor::detect;

    fn row(name: &str, implementation: &str, median: f64) -> Row {
        Row {
            benchmark: "ops",
            name: name.into(),
            implementation: implementation.into(),
            unit: "ns",
            min: 1.0,
            median,
            max: 1234.5,
            runs: 3,
            ratio: Some(2.0),
            ratio_interval: None,
            labels: None,
            lock: None,
            values: Vec::new(),
            metrics: Default::default(),
            aim: None,
            notes: vec!["pooled".into()],
        }
    }

    fn report() -> Report {
        Report {
            version: "1",
            benchmarks: vec!["ops"],
            quick: true,
            machine: detect::detect(),
            rows: vec![row("yield", "a", 34.56), row("yield", "b", 1.234), row("mutex", "a", 9.0)],
            summary: None,
            notes: vec!["no Go".into()],
            crashes: Vec::new(),
        }
    }

    #[test]
    fn text_has_all_rows_and_every_remark_once() {
        let text = report().to_text();
        assert_eq!(text.matches("yield").count(), 1);
        for part in ["34.6", "1.23", "9.00", "1234", "2.00x", "* no Go\n"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert_eq!(text.matches("ops a: pooled").count(), 1);
        assert!(!text.contains("aim"), "{text}");
    }

    #[test]
    fn aims_stand_beside_what_became_of_them() {
        let mut report = report();
        report.rows[1].aim = Some(Bound::AtLeast(0.9));
        let text = report.to_text();
        assert!(text.contains("aim") && text.contains(">= 0.90x"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][1]["aim"], serde_json::json!({"at_least": 0.9}));
        assert!(json["rows"][0]["aim"].is_null());
    }

    #[test]
    fn json_has_what_scripts_are_promised() {
        let json = serde_json::to_value(report()).unwrap();
        for key in ["benchmark", "name", "implementation", "unit", "min", "median", "max", "runs"] {
            assert!(!json["rows"][0][key].is_null(), "{key}");
        }
        assert!(json["machine"].is_object());
    }
}
