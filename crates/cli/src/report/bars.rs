//! Figures of single numbers: rows of `quaver bench` as bars, beside what the paper says.

use serde::Deserialize;

use super::benchmarks::{self, Row};
use crate::chart::{Bar, number};

/// What a figure shows of the rows.
#[derive(Deserialize)]
pub struct Bars {
    /// What has to be run first.
    pub command: String,
    /// The first decides.
    drawing: Vec<Of>,
}

/// One drawing: the implementations of one row.
#[derive(Deserialize)]
struct Of {
    #[serde(default)]
    suffix: String,
    title: String,
    benchmark: String,
    row: String,
    /// A name, and the lowest and the highest number that the paper's text gives, in the row's
    /// unit.
    #[serde(default)]
    paper: Vec<(String, f64, f64)>,
}

/// One of a figure's drawings.
pub struct Drawing {
    /// The ending of its file.
    pub suffix: String,
    pub title: String,
    pub bars: Vec<Bar>,
}

impl Bars {
    /// What each implementation of the first drawing comes to; nothing where none was measured.
    pub fn best(&self, rows: &[Row]) -> Vec<(String, Option<f64>)> {
        let first = self.drawing.first().into_iter().flat_map(|of| of.rows(rows));
        first.map(|row| (row.implementation.clone(), Some(row.median))).collect()
    }

    /// Those of which something was measured.
    pub fn drawings(&self, rows: &[Row]) -> Vec<Drawing> {
        let drawing = |of: &Of| {
            let rows = of.rows(rows);
            let unit = &rows.first()?.unit;
            let ours = rows.iter().map(|row| benchmarks::bar(row));
            let theirs = of.paper.iter().map(|(name, low, high)| Bar {
                name: format!("{name} (paper)"),
                text: match low == high {
                    true => format!("{} {unit}", number(*low)),
                    false => format!("{} to {} {unit}", number(*low), number(*high)),
                },
                values: [*low, (low + high) / 2.0, *high],
                main: false,
            });
            let bars = ours.chain(theirs).collect();
            Some(Drawing { suffix: of.suffix.clone(), title: of.title.clone(), bars })
        };
        self.drawing.iter().filter_map(drawing).collect()
    }
}

impl Of {
    /// A row for each implementation; of one that was measured twice the last counts.
    fn rows<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        let mut found: Vec<&Row> = Vec::new();
        let wanted = |row: &&Row| row.benchmark == self.benchmark && row.name == self.row;
        for row in rows.iter().filter(wanted) {
            found.retain(|other| other.implementation != row.implementation);
            found.push(row);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, implementation: &str, median: f64) -> Row {
        serde_json::from_value(serde_json::json!({
            "benchmark": "preempt", "name": name, "implementation": implementation, "unit": "ns",
            "median": median, "min": median - 1.0, "max": median + 1.0, "runs": 3, "ratio": null,
        }))
        .unwrap()
    }

    #[test]
    fn rows_stand_above_the_papers_numbers() {
        let text = "command = \"c\"\n[[drawing]]\ntitle = \"t\"\nbenchmark = \"preempt\"\n\
                    row = \"switch\"\npaper = [[\"UINTR\", 200, 900]]\n\
                    [[drawing]]\nsuffix = \"-other\"\ntitle = \"o\"\nbenchmark = \"preempt\"\n\
                    row = \"handler\"\n";
        let bars: Bars = toml::from_str(text).unwrap();
        let rows = [
            row("switch", "quaver", 70.0),
            row("else", "quaver", 1.0),
            row("switch", "naive", 90.0),
            row("switch", "quaver", 80.0),
        ];
        assert_eq!(bars.best(&rows), [("naive".into(), Some(90.0)), ("quaver".into(), Some(80.0))]);
        let drawings = bars.drawings(&rows);
        assert_eq!(drawings.len(), 1, "nothing of the other was measured");
        let names: Vec<&str> = drawings[0].bars.iter().map(|bar| &*bar.name).collect();
        assert_eq!(names, ["naive", "quaver", "UINTR (paper)"]);
        let paper = &drawings[0].bars[2];
        assert_eq!((paper.values, &*paper.text), ([200.0, 550.0, 900.0], "200 to 900 ns"));
        assert!(bars.drawings(&[]).is_empty() && bars.best(&[]).is_empty());
    }
}
