//! The outcomes as a table for people.

use comfy_table::{CellAlignment, Table, presets};
use quaver_sim::{ClassOutcome, Outcome};

use crate::demo::table::time;

/// A row for each load and class.
pub fn render(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "load",
        "requests/s",
        "class",
        "count",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "slowdown p99.9",
        "busy",
        "overhead",
        "BE",
        "preemptions/s",
        "",
    ]);
    for outcome in outcomes {
        let classes: Vec<&ClassOutcome> = match outcome.classes.len() {
            1 => outcome.classes.iter().collect(),
            _ => outcome.classes.iter().chain([&outcome.total]).collect(),
        };
        for (index, class) in classes.into_iter().enumerate() {
            let first = index == 0;
            let once = |text: String| if first { text } else { String::new() };
            let count = outcome.workers.len().max(1) as f64;
            let mean = |of: fn(&quaver_sim::WorkerUse) -> f64| {
                format!("{:.1} %", outcome.workers.iter().map(of).sum::<f64>() / count * 100.0)
            };
            let latency = |of: fn(&quaver_sim::Latency) -> f64| {
                class.latency_us.as_ref().map_or("-".into(), |l| time(of(l)))
            };
            table.add_row([
                once(format!("{:.1} %", outcome.load * 100.0)),
                once(format!("{:.0}", outcome.rate)),
                class.name.clone(),
                class.completed.to_string(),
                latency(|l| l.mean),
                latency(|l| l.p50),
                latency(|l| l.p99),
                latency(|l| l.p99_9),
                class.slowdown.as_ref().map_or("-".into(), |s| format!("{:.1}", s.p99_9)),
                once(mean(|w| w.busy)),
                once(mean(|w| w.overhead)),
                once(format!("{:.1} %", outcome.best_effort_share * 100.0)),
                once(format!("{:.0}", outcome.counts.preemptions as f64 / outcome.seconds)),
                once(if outcome.unstable { "unstable".into() } else { String::new() }),
            ]);
        }
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
