//! The table on the terminal, and how figures are written.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use super::args::Mode;
use super::results::{Latency, Row};

/// The names of a row's columns, in full.
pub const HEADINGS: [&str; 18] = [
    "mode",
    "load %",
    "offered/s",
    "achieved/s",
    "GET p50",
    "p99",
    "p99.9",
    "SCAN p50",
    "p99",
    "p99.9",
    "sent",
    "received",
    "deferred",
    "stale",
    "useful",
    "unsent",
    "dropped",
    "unfinished",
];

/// The same, narrower: a row should fit on a wide terminal.
const NARROW: [&str; 18] = [
    "mode", "load", "offered", "achieved", "GET p50", "p99", "p99.9", "SCAN p50", "p99", "p99.9",
    "sent", "recv", "defer", "stale", "useful", "unsent", "dropd", "unfin",
];

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('\u{2500}'));

/// The table, for a terminal. A GET p99 that meets the objective of `slo_us` has a mark, and so has
/// a row with disturbed rounds.
pub fn render(rows: &[Row], slo_us: f64) -> String {
    let mut table = Table::new();
    let [mode, figures @ ..] = NARROW;
    let heading = std::iter::once(Cell::new(mode)).chain(figures.map(right));
    table.load_style(STYLE).set_header(heading);
    let mut last = None;
    for row in rows {
        let mut texts = cells(row).map(|text| text.replace(' ', ""));
        texts[GET_P99].push(if meets(row, slo_us) { '\u{2713}' } else { ' ' });
        if row.is_marked() {
            texts[LOAD].insert(0, '~');
        }
        // The mode is said once: the block below belongs to it.
        let again = last.replace(row.mode) == Some(row.mode);
        let mode = Cell::new(if again { "" } else { row.mode.name() });
        table.add_row(std::iter::once(mode).chain(texts[1..].iter().map(|text| right(text))));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The column of the load.
const LOAD: usize = 1;
/// The column of GET p99.
pub const GET_P99: usize = 5;

/// Is the row's GET p99 known and within the objective?
pub fn meets(row: &Row, slo_us: f64) -> bool {
    let bound = |get: &Latency| !matches!(get.at_least_from, Some("p50" | "p99"));
    row.get.as_ref().is_some_and(|get| bound(get) && get.p99_us <= slo_us)
}

/// The texts of a row.
pub fn cells(row: &Row) -> [String; 18] {
    let [get_p50, get_p99, get_p999] = latencies(row.get.as_ref());
    let [scan_p50, scan_p99, scan_p999] = latencies(row.scan.as_ref());
    let preemptions = |count: u64| match row.mode {
        Mode::RunToCompletion => "-".to_owned(),
        Mode::Preemptive | Mode::Probe => count.to_string(),
    };
    let p = &row.preemptions;
    [
        row.mode.name().to_owned(),
        format!("{}", row.load_percent),
        format!("{:.0}", row.offered_rps),
        format!("{:.0}", row.achieved_rps),
        get_p50,
        get_p99,
        get_p999,
        scan_p50,
        scan_p99,
        scan_p999,
        preemptions(p.sent),
        preemptions(p.received),
        preemptions(p.deferred),
        preemptions(p.stale),
        preemptions(p.useful),
        row.unsent.to_string(),
        row.dropped.to_string(),
        row.unfinished.to_string(),
    ]
}

fn latencies(latency: Option<&Latency>) -> [String; 3] {
    let Some(latency) = latency else { return ["-", "-", "-"].map(str::to_owned) };
    let names = ["p50", "p99", "p999"];
    let first = latency.at_least_from.and_then(|from| names.iter().position(|&n| n == from));
    let values = [latency.p50_us, latency.p99_us, latency.p999_us];
    std::array::from_fn(|i| {
        let bound = if first.is_some_and(|first| i >= first) { "\u{2265} " } else { "" };
        format!("{bound}{}", time(values[i]))
    })
}

/// A time given in microseconds, to three digits.
pub fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 999_500.0 => (us / 1e6, "s"),
        us if us >= 999.5 => (us / 1e3, "ms"),
        us => (us, "µs"),
    };
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// The same for a mark of an axis: a round number without zeros behind the point.
pub fn mark(us: f64) -> String {
    time(us).replace(".00 ", " ").replace(".0 ", " ")
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{report, row};
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        for (us, text) in [
            (0.123, "0.12 µs"),
            (9.99, "9.99 µs"),
            (12.34, "12.3 µs"),
            (999.4, "999 µs"),
            (999.6, "1.00 ms"),
            (20_000.0, "20.0 ms"),
            (1.5e6, "1.50 s"),
        ] {
            assert_eq!(time(us), text);
        }
    }

    #[test]
    fn every_row_has_every_figure() {
        let report = report();
        let table = render(&report.rows, 50.0);
        for heading in NARROW {
            assert!(table.contains(heading), "{heading} is missing");
        }
        // A heading, a line below it, and one line for each row.
        assert_eq!(table.lines().count(), 2 + report.rows.len(), "{table}");
        for mode in [Mode::RunToCompletion, Mode::Preemptive] {
            assert_eq!(table.matches(mode.name()).count(), 1, "{table}");
        }
    }

    #[test]
    fn the_table_is_as_narrow_as_it_can_be() {
        let widest = render(&report().rows, 50.0).lines().map(|l| l.chars().count()).max();
        assert!(widest.unwrap() <= 152, "{}", render(&report().rows, 50.0));
    }

    #[test]
    fn bounds_are_marked_and_never_meet_the_objective() {
        let mut row = row(Mode::Preemptive, 10.0, 1.0);
        assert!(meets(&row, 50.0));
        let get = row.get.as_mut().unwrap();
        get.at_least_from = Some("p99");
        assert!(!meets(&row, 50.0));
        let cells = cells(&row);
        assert!(!cells[4].contains('≥') && cells[5].contains('≥') && cells[6].contains('≥'));
    }

    #[test]
    fn without_preemption_there_are_no_counts_of_it() {
        let cells = cells(&row(Mode::RunToCompletion, 10.0, 1.0));
        assert!(cells[10..15].iter().all(|cell| cell == "-"));
    }

    #[test]
    fn a_class_that_was_not_sent_is_left_open() {
        let mut row = row(Mode::Preemptive, 10.0, 1.0);
        row.scan = None;
        assert!(cells(&row)[7..10].iter().all(|cell| cell == "-"));
    }
}
