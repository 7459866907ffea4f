//! The result for people: a line for each program, and what it comes to.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::samples::FAR_PERCENT;
use super::sections::{CLOCK, SWEEP, SWITCH, TAX};
use super::summary::{Overall, Summary, percent};
use crate::bench::harness::Row;
use crate::bench::plan::Labels;

/// Two or three tables for each compiler, and the summary.
pub fn text(rows: &[&Row], summary: &Summary) -> String {
    let mut compilers: Vec<&str> = Vec::new();
    for labels in rows.iter().filter_map(|row| row.labels.as_ref()) {
        if !compilers.contains(&labels.compiler.as_str()) {
            compilers.push(&labels.compiler);
        }
    }
    let mut text =
        "Additional CPU time in %; far: time further than 5 us from a probe\n".to_owned();
    for compiler in compilers {
        let of = |row: &&&Row| row.labels.as_ref().is_some_and(|l| l.compiler == compiler);
        let rows: Vec<&Row> = rows.iter().filter(of).copied().collect();
        // Writing to a String cannot fail.
        let first = format!("{compiler}, nobody else");
        let beside = format!("{compiler}, two copies");
        let tables = [
            programs(first, &rows, &[TAX, CLOCK], "plain"),
            programs(beside, &rows, &[SWITCH], "off"),
            sweep(compiler, &rows),
        ];
        for table in tables.into_iter().flatten() {
            let _ = writeln!(text, "\n{table}");
        }
    }
    let _ = writeln!(text, "\n{}\n", overall(&summary.variants));
    for line in sentences(summary) {
        let _ = writeln!(text, "{line}");
    }
    text.trim_end().to_owned()
}

/// What a column shows, beside what its rows are compared with.
fn heading(labels: &Labels) -> String {
    let variant = match (labels.variant, labels.instructions) {
        (name, Some(instructions)) => format!("{name} {instructions}"),
        (name, None) => name.to_owned(),
    };
    match labels.quantum_us {
        // There it is the same everywhere.
        Some(us) if labels.section != SWEEP => {
            format!("{variant} {us}")
        }
        _ => variant,
    }
}

/// A line for each program: what its variants in these sections cost more than the first.
fn programs(title: String, rows: &[&Row], sections: &[&str], first: &str) -> Option<Table> {
    let labels = |row: &&Row| row.labels.clone().filter(|l| sections.contains(&l.section));
    let all: Vec<Labels> = rows.iter().filter_map(labels).collect();
    let mut headings: Vec<String> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for labels in all.iter().filter(|labels| labels.variant != first) {
        if !headings.contains(&heading(labels)) {
            headings.push(heading(labels));
        }
        if !names.contains(&labels.program.as_str()) {
            names.push(&labels.program);
        }
    }
    let with_far = sections.contains(&CLOCK);
    let mut header = vec![title, "ms".to_owned()];
    for heading in &headings {
        header.push(heading.clone());
        if heading == "probes" {
            header.push("/control".to_owned());
        }
    }
    header.extend(with_far.then(|| "far".to_owned()));
    let columns = header.len();
    let mut table = plain_table();
    table.set_header(header);
    for name in &names {
        let find = |wanted: &dyn Fn(&Labels) -> bool| {
            let is = |labels: &Labels| {
                labels.program == *name && sections.contains(&labels.section) && wanted(labels)
            };
            rows.iter().find(|row| row.labels.as_ref().is_some_and(is)).copied()
        };
        let ms = find(&|labels| labels.variant == first);
        let mut cells = vec![(*name).to_owned()];
        cells.push(ms.map(|row| format!("{:.0}", row.median)).unwrap_or_default());
        for title in &headings {
            let row = find(&|labels| labels.variant != first && heading(labels) == *title);
            let cell = |against| Some(format!("{:.1}", percent(rows, row?, against)?));
            cells.push(cell(first).unwrap_or_default());
            if title == "probes" {
                cells.push(cell("control").unwrap_or_default());
            }
        }
        if with_far {
            let word = find(&|labels| labels.variant == "word");
            let far = word.and_then(|row| row.metrics.get(FAR_PERCENT));
            cells.push(far.map(|far| format!("{far:.2}")).unwrap_or_default());
        }
        table.add_row(cells);
    }
    right(&mut table, 1..columns);
    (!names.is_empty()).then_some(table)
}

/// What other places for probes cost, and how regular the intervals are.
fn sweep(compiler: &str, rows: &[&Row]) -> Option<Table> {
    let mut table = plain_table();
    table.set_header([&format!("{compiler}, other places"), "probes", "cost", "deviation, us"]);
    for row in rows {
        let Some(labels) = row.labels.as_ref().filter(|labels| labels.section == SWEEP) else {
            continue;
        };
        let Some(deviation) = row.metrics.get(super::samples::DEVIATION_US) else { continue };
        let cost = percent(rows, row, "plain").map(|cost| format!("{cost:.1}"));
        table.add_row([
            labels.program.clone(),
            heading(labels),
            cost.unwrap_or_default(),
            format!("{deviation:.2}"),
        ]);
    }
    right(&mut table, 2..4);
    (table.row_count() > 0).then_some(table)
}

fn overall(variants: &[Overall]) -> Table {
    let mut table = plain_table();
    table.set_header(["all programs", "", "against", "us", "mean", "95 %", "worst", ""]);
    let mut previous = "";
    for one in variants.iter().filter(|one| one.labels.section != SWEEP) {
        let compiler = if one.labels.compiler == previous { "" } else { &one.labels.compiler };
        previous = &one.labels.compiler;
        let variant = match one.labels.section {
            TAX | CLOCK => one.labels.variant.to_owned(),
            section => format!("{section} {}", one.labels.variant),
        };
        let interval = one.interval_percent.map(|[low, high]| format!("{low:.1}..{high:.1}"));
        table.add_row([
            compiler,
            &variant,
            one.against,
            &one.labels.quantum_us.map(|us| us.to_string()).unwrap_or_default(),
            &format!("{:.1}", one.mean_percent),
            &interval.unwrap_or_default(),
            &format!("{:.1}", one.worst_percent),
            &one.worst_program,
        ]);
    }
    right(&mut table, 3..7);
    table
}

fn sentences(summary: &Summary) -> Vec<String> {
    let percents = |what: &str, mean: Option<f64>, worst: Option<f64>| {
        Some(format!("{what}: mean {:.1} %, worst {:.1} %", mean?, worst?))
    };
    let of = &summary.tax_worst_program;
    let ns = |what: &str, ns: Option<f64>| Some(format!("{what}: {:.0} ns", ns?));
    let mut tax = percents("tax while nobody waits", summary.tax_mean, summary.tax_worst);
    if let (Some(tax), Some(program)) = (&mut tax, of) {
        let _ = write!(tax, " ({program})");
    }
    let control = (summary.tax_over_control_mean, summary.tax_over_control_worst);
    let armed = (summary.armed_over_control_mean, summary.armed_over_control_worst);
    [
        tax,
        percents("  against the control", control.0, control.1),
        percents("tax while somebody waits", summary.armed_mean, summary.armed_worst),
        percents("  against the control", armed.0, armed.1),
        ns("a preemption at a probe, with the switch", summary.preemption_ns),
        ns("  to a thread that yields, and back", summary.preemption_and_yield_ns),
        ns("a preemption by a signal, with the switch", summary.signal_ns),
        percents("time further than 5 us from a probe", summary.far_mean, summary.far_worst),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
