//! What people see of a run.

use comfy_table::{CellAlignment, Table, presets};
use quaver_load::net::{ClassErrors, Offered};
use quaver_load::{ClassSummary, Distribution, Measured};

/// The results as a table, with what else there is to know.
pub(super) fn text(offered: &Offered) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "class",
        "offered/s",
        "done/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "refused",
        "lost",
        "dropped",
        "unsent",
        "unfinished",
    ]);
    let total = offered.errors.iter().fold(ClassErrors::default(), |sum, errors| ClassErrors {
        refused: sum.refused + errors.refused,
        lost: sum.lost + errors.lost,
        ..sum
    });
    let errors = offered.errors.iter().chain([&total]);
    let summary = &offered.summary;
    for (class, errors) in summary.classes.iter().chain([&summary.total]).zip(errors) {
        table.add_row(row(class, errors));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n");
    let generator = summary.generator.as_ref();
    if let Some(lateness) = generator.and_then(|generator| generator.lateness_ns) {
        text += &format!(
            "The client was late by {} us (p50) and {} us (p99), which is in the latencies.\n",
            us(lateness.p50),
            us(lateness.p99)
        );
    }
    if offered.broken_connections > 0 {
        text += &format!("{} connections broke.\n", offered.broken_connections);
    }
    text
}

fn row(class: &ClassSummary, errors: &ClassErrors) -> [String; 12] {
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
    let latency = |pick: fn(&Distribution<u64>) -> Measured<u64>| {
        class.latency_ns.as_ref().map_or("-".to_owned(), |latency| us(pick(latency)))
    };
    // What was refused or lost counts as dropped, too.
    let dropped = class.dropped.saturating_sub(errors.refused + errors.lost);
    [
        class.name.clone(),
        rate(class.offered_rate),
        rate(class.achieved_rate),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        latency(|latency| latency.p999),
        latency(|latency| latency.max),
        errors.refused.to_string(),
        errors.lost.to_string(),
        dropped.to_string(),
        class.unsent.to_string(),
        class.unfinished.to_string(),
    ]
}

/// Microseconds, with `>` where requests are missing.
fn us(value: Measured<u64>) -> String {
    let sign = if value.at_least { ">" } else { "" };
    format!("{sign}{:.1}", value.value as f64 / 1e3)
}
