//! The table and the JSON document.

use comfy_table::{CellAlignment, Table, presets};
use quaver_selftest::Outcome;
use serde::Serialize;

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
#[derive(Debug, Default, Serialize)]
pub(super) struct Sums {
    rows: u64,
    pub(super) preemptions: u64,
    migrations: u64,
    differences: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    kind: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
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
            self.torture.rows += 1;
            self.torture.preemptions += outcome.counts.preemptions;
            self.torture.migrations += outcome.counts.migrations;
            self.torture.differences += outcome.differences;
        }
        self.rows.push(Row { kind, outcome });
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
            let boundaries = *kind == "boundaries";
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
        for Row { outcome, .. } in &self.rows {
            for difference in &outcome.details {
                let (name, workers) = (&outcome.name, outcome.workers);
                text += &format!("DIFFERENCE in {name}, {workers} workers: {}\n", difference.what);
                if !difference.reproducer.is_empty() {
                    text += &format!("  again: {}\n", difference.reproducer);
                }
            }
        }
        text += &format!(
            "{} boundaries tried, {} preemptions, {} migrations, {} deferred: {} differences\n",
            self.boundaries_tried,
            self.preemptions,
            self.migrations,
            self.deferred,
            self.differences
        );
        let Sums { rows, preemptions, migrations, differences } = self.torture;
        if rows > 0 {
            text += &format!(
                "torture: {preemptions} preemptions, {migrations} migrations, {differences} differences\n"
            );
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
