//! The table and the JSON document.

use comfy_table::{CellAlignment, Table, presets};
use quaver_selftest::Outcome;
use serde::{Deserialize, Serialize};
use std::fmt;

/// All that came of the jobs.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    quick: bool,
    seed: u64,
    /// The user has ended it, and there are rows missing.
    pub(super) interrupted: bool,
    /// Sums over all rows.
    boundaries_tried: u64,
    preemptions: u64,
    migrations: u64,
    deferred: u64,
    pub(super) differences: u64,
    /// Of the rows of torture.
    pub(super) torture: Sums,
    rows: Vec<Row>,
}

/// What those who only want to know how much was survived look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sums {
    rows: u64,
    pub(super) preemptions: u64,
    migrations: u64,
    pub(super) differences: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    kind: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Sums {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.rows += 1;
        self.preemptions += outcome.counts.preemptions;
        self.migrations += outcome.counts.migrations;
        self.differences += outcome.differences;
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sums { preemptions, migrations, differences, .. } = self;
        writeln!(
            f,
            "torture: {preemptions} preemptions, {migrations} migrations, {differences} differences"
        )
    }
}

impl Report {
    pub(super) fn new(quick: bool, seed: u64) -> Report {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            quick,
            seed,
            interrupted: false,
            boundaries_tried: 0,
            preemptions: 0,
            migrations: 0,
            deferred: 0,
            differences: 0,
            torture: Sums::default(),
            rows: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, kind: &'static str, outcome: Outcome) {
        self.boundaries_tried += outcome.counts.boundaries_tried;
        self.preemptions += outcome.counts.preemptions;
        self.migrations += outcome.counts.migrations;
        self.deferred += outcome.counts.deferred;
        self.differences += outcome.differences;
        if kind == "torture" {
            self.torture.add(&outcome);
        }
        let same = |row: &&mut Row| row.kind == kind && row.outcome.is_of_the_same_job(&outcome);
        match self.rows.iter_mut().find(same) {
            Some(row) => row.outcome.add(outcome),
            None => self.rows.push(Row { kind, outcome }),
        }
    }

    /// The differences, and how to get each again.
    pub(super) fn details(&self) -> String {
        let mut text = String::new();
        for Row { outcome, .. } in &self.rows {
            for difference in &outcome.details {
                let (name, workers) = (&outcome.name, outcome.workers);
                text += &format!("DIFFERENCE in {name}, {workers} workers: {}\n", difference.what);
                if !difference.reproducer.is_empty() {
                    text += &format!("  again: {}\n", difference.reproducer);
                }
            }
        }
        text
    }

    pub(super) fn to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "",
            "workers",
            "libraries",
            "tried",
            "of",
            "preempted",
            "migrated",
            "deferred",
            "steps",
            "differences",
            "",
        ]);
        for Row { kind, outcome } in &self.rows {
            let boundaries = *kind != "torture";
            let (of, steps) = if boundaries {
                (outcome.counts.boundaries.to_string(), String::new())
            } else {
                (String::new(), outcome.counts.steps.to_string())
            };
            let tried = if boundaries {
                outcome.counts.boundaries_tried.to_string()
            } else {
                String::new()
            };
            let remark = outcome.skipped.as_ref().map(|why| format!("skipped: {why}"));
            table.add_row([
                outcome.name.clone(),
                outcome.workers.to_string(),
                outcome.libraries.map_or_else(|| "both".into(), |l| l.to_string()),
                tried,
                of,
                outcome.counts.preemptions.to_string(),
                outcome.counts.migrations.to_string(),
                outcome.counts.deferred.to_string(),
                steps,
                outcome.differences.to_string(),
                remark.or_else(|| outcome.note.clone()).unwrap_or_default(),
            ]);
        }
        for column in table.column_iter_mut().skip(1).take(9) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = format!("{table}\n\n");
        text += &self.details();
        text += &format!(
            "{} boundaries tried, {} preemptions, {} migrations, {} deferred: {} differences\n",
            self.boundaries_tried,
            self.preemptions,
            self.migrations,
            self.deferred,
            self.differences
        );
        if self.torture.rows > 0 {
            text += &self.torture.to_string();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_and_say_how_to_get_them_again() {
        let mut report = Report::new(true, 1);
        report.add("torture", Outcome::new("good", 1));
        assert_eq!(report.differences, 0);
        let mut bad = Outcome::new("bad", 2);
        bad.differ("two is three".into(), "quaver selftest --only bad".into());
        report.add("torture", bad);
        let text = report.to_text();
        assert_eq!(report.differences, 1);
        assert!(text.contains("two is three") && text.contains("--only bad"), "{text}");
        assert!(text.contains(": 1 differences\n"), "{text}");
        let last = "torture: 0 preemptions, 0 migrations, 1 differences\n";
        assert!(text.ends_with(last), "{text}");
    }
}
