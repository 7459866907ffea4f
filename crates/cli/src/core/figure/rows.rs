//! What a figure says: the paper's number beside ours, point by point.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::chart::number;

/// One number of the paper, and ours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Which one, such as `fib/uipi/5us`.
    pub point: String,
    /// The paper's.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// Ours over the paper's; nothing where that is 0.
    pub ratio: Option<f64>,
    /// Parameters may be fitted to this point; all others are held out.
    pub fitted: bool,
    /// What both are measured in.
    pub unit: &'static str,
    /// Why they differ, where that is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Row {
    /// A row that is held out.
    pub fn new(point: impl Into<String>, unit: &'static str, paper: f64, ours: f64) -> Row {
        let ratio = (paper != 0.0).then(|| ours / paper);
        Row { point: point.into(), paper, ours, ratio, fitted: false, unit, why: String::new() }
    }

    /// The same with the cause of a difference.
    pub fn because(self, why: impl Into<String>) -> Row {
        Row { why: why.into(), ..self }
    }

    /// Whether ours is within a share of the paper's: `within(0.15)`.
    pub fn within(&self, share: f64) -> bool {
        self.ratio.map_or(self.ours == self.paper, |ratio| (ratio - 1.0).abs() <= share)
    }
}

/// A figure, as `--json` writes it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of Quaver.
    pub version: &'static str,
    /// Which figure or table of the paper.
    pub figure: String,
    /// What it shows.
    pub title: &'static str,
    /// Was it a look only?
    pub quick: bool,
    /// Each point.
    pub rows: Vec<Row>,
    /// What the points say together.
    pub summary: Vec<Row>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Charts for the page.
    #[serde(skip)]
    pub charts: Vec<String>,
}

impl Report {
    /// The tables for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n\n{}\n", self.figure, self.title, table(&self.rows));
        if !self.summary.is_empty() {
            text += &format!("\nin all\n{}\n", table(&self.summary));
        }
        let held: Vec<&Row> = self.rows.iter().filter(|row| !row.fitted).collect();
        let close = held.iter().filter(|row| row.within(0.15)).count();
        text += &format!(
            "\n{close} of {} points that are held out from fitting are within 15 %\n",
            held.len()
        );
        for row in self.rows.iter().filter(|row| !row.why.is_empty()) {
            text += &format!("* {}: {}\n", row.point, row.why);
        }
        for note in &self.notes {
            text += &format!("* {note}\n");
        }
        text
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "paper", "ours", "ours/paper", "unit", ""]);
    for row in rows {
        table.add_row([
            row.point.clone(),
            number(row.paper),
            number(row.ours),
            row.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
            row.unit.into(),
            if row.fitted { "for fitting" } else { "" }.into(),
        ]);
    }
    for numbers in table.column_iter_mut().skip(1).take(3) {
        numbers.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_something_to_divide_by() {
        let row = Row::new("a", "%", 4.0, 5.0);
        assert_eq!(row.ratio, Some(1.25));
        assert!(row.within(0.26) && !row.within(0.24));
        let zero = Row::new("b", "%", 0.0, 5.0);
        assert_eq!(zero.ratio, None);
        assert!(!zero.within(0.15) && Row::new("c", "%", 0.0, 0.0).within(0.15));
    }

    #[test]
    fn points_for_fitting_are_marked_and_not_counted() {
        let fitting = Row { fitted: true, ..Row::new("fib/5us", "%", 1.0, 1.0) };
        let missed = Row::new("memops/5us", "%", 1.0, 3.0).because("its caches are colder");
        let json = serde_json::to_value([&fitting, &missed]).unwrap();
        assert_eq!((&json[0]["why"], &json[1]["why"]), (&().into(), &missed.why.as_str().into()));
        let rows = vec![fitting, missed];
        let report = Report {
            version: "0",
            figure: "figure 4".into(),
            title: "t",
            quick: false,
            rows,
            summary: Vec::new(),
            notes: vec!["a note".into()],
            charts: Vec::new(),
        };
        let text = report.to_text();
        assert!(text.contains("for fitting \n") && text.contains("0 of 1 points"), "{text}");
        assert!(text.ends_with("* memops/5us: its caches are colder\n* a note\n"), "{text}");
    }
}
