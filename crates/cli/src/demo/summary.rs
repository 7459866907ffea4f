//! The bottom line: the loads that met the objective, and what preemption bought, in words that
//! claim no more than was measured.

use super::args::Mode;
use super::results::{LoadRatio, Row, SloLoads, Summary};

/// Sums up the rows, given for each mode the highest load that met the objective.
pub fn summarise(rows: &[Row], loads: SloLoads, slo: &str) -> Summary {
    let ratio = match (loads.run_to_completion, loads.preemptive) {
        (Some(without), Some(with)) if without > 0.0 && with > 0.0 => Some(with / without),
        _ => None,
    };
    let verdict = match (loads.run_to_completion, loads.preemptive) {
        (Some(without), Some(with)) => both(rows, without, with, slo),
        (Some(load), None) => single("run to completion", load, slo),
        (None, Some(load)) => single("preemption", load, slo),
        (None, None) => "Nothing to compare: no GETs were measured.".to_owned(),
    };
    let get_p99_ratio = ratios(rows, |row| Some(row.get.as_ref()?.p99_us));
    let scan_p99_ratio = ratios(rows, |row| Some(row.scan.as_ref()?.p99_us));
    let (slo_load_percent, chosen) = (loads, None);
    Summary { slo_load_percent, ratio, verdict, get_p99_ratio, scan_p99_ratio, chosen }
}

/// With preemption by without, at each load that both were measured at.
fn ratios(rows: &[Row], p99: impl Fn(&Row) -> Option<f64>) -> Vec<LoadRatio> {
    let of =
        |mode, load| p99(rows.iter().find(|row| row.mode == mode && row.load_percent == load)?);
    let preemptive = rows.iter().filter(|row| row.mode == Mode::Preemptive);
    let ratio = |load_percent| {
        let without = of(Mode::RunToCompletion, load_percent).filter(|&us| us > 0.0)?;
        Some(LoadRatio { load_percent, ratio: of(Mode::Preemptive, load_percent)? / without })
    };
    preemptive.filter_map(|row| ratio(row.load_percent)).collect()
}

fn both(rows: &[Row], without: f64, with: f64, slo: &str) -> String {
    let lowest = rows.iter().map(|row| row.load_percent).fold(f64::INFINITY, f64::min);
    let target = format!("GET p99 below {slo}");
    if with == 0.0 && without == 0.0 {
        return format!(
            "Neither mode kept {target} at any load, from {lowest} % up. {}",
            side_by_side(rows)
        );
    }
    if with <= without {
        return format!(
            "Preemption bought nothing here: {target} was kept up to {with} % of capacity with it \
             and {without} % without."
        );
    }
    let price = price(rows, with);
    if without == 0.0 {
        return format!(
            "Preemption kept {target} up to {with} % of capacity; without it not even {lowest} % \
             did{price}."
        );
    }
    let ratio = with / without;
    format!(
        "Preemption kept {target} up to {with} % of capacity instead of {without} %: {ratio:.1} \
         times the load{price}."
    )
}

/// Where the objective was out of reach: at which loads GET p99 was lower with preemption, and the
/// most that it gained.
fn side_by_side(rows: &[Row]) -> String {
    let get_p99 = |mode, load| {
        let row = rows.iter().find(|row| row.mode == mode && row.load_percent == load)?;
        Some(row.get.as_ref()?.p99_us)
    };
    let pairs: Vec<(f64, f64, f64)> = rows
        .iter()
        .filter(|row| row.mode == Mode::Preemptive)
        .filter_map(|row| {
            let load = row.load_percent;
            Some((load, get_p99(Mode::RunToCompletion, load)?, get_p99(Mode::Preemptive, load)?))
        })
        .collect();
    let lower = pairs.iter().filter(|(_, without, with)| with < without).count();
    let gain = |&(_, without, with): &(f64, f64, f64)| without / with;
    match pairs.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))) {
        Some(&(load, without, with)) if with < without => format!(
            "Preemption lowered GET p99 at {lower} of {} loads, most at {load} %: {} instead of \
             {}.",
            pairs.len(),
            super::table::time(with),
            super::table::time(without)
        ),
        _ => "Preemption bought nothing: GET p99 was lower with it at no load.".to_owned(),
    }
}

/// What it cost: how SCANs fared at a load that both modes were measured at.
fn price(rows: &[Row], load: f64) -> String {
    let scan_p99 = |mode| {
        let row = rows.iter().find(|row| row.mode == mode && row.load_percent == load)?;
        Some(row.scan.as_ref()?.p99_us)
    };
    match (scan_p99(Mode::RunToCompletion), scan_p99(Mode::Preemptive)) {
        (Some(without), Some(with)) => format!(
            "; SCAN p99 at {load} % is {} instead of {}",
            super::table::time(with),
            super::table::time(without)
        ),
        _ => String::new(),
    }
}

fn single(mode: &str, load: f64, slo: &str) -> String {
    if load == 0.0 {
        format!("With {mode} alone, GET p99 was below {slo} at no measured load.")
    } else {
        format!("With {mode} alone, GET p99 stayed below {slo} up to {load} % of capacity.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::report;
    use super::*;

    fn verdict(without: Option<f64>, with: Option<f64>) -> Summary {
        let loads = SloLoads { run_to_completion: without, preemptive: with };
        summarise(&report().rows, loads, "50us")
    }

    #[test]
    fn a_gain_is_a_ratio_with_its_price() {
        let summary = verdict(Some(10.0), Some(50.0));
        assert_eq!(summary.ratio, Some(5.0));
        assert!(summary.verdict.contains("5.0 times the load"), "{}", summary.verdict);
        assert!(summary.verdict.contains("SCAN p99 at 50 %"), "{}", summary.verdict);
    }

    #[test]
    fn no_gain_is_called_so() {
        for (without, with) in [(50.0, 10.0), (10.0, 10.0), (10.0, 0.0)] {
            let summary = verdict(Some(without), Some(with));
            assert!(summary.verdict.contains("bought nothing"), "{}", summary.verdict);
        }
    }

    #[test]
    fn where_nobody_reached_the_objective_both_are_compared() {
        let loads = SloLoads { run_to_completion: Some(0.0), preemptive: Some(0.0) };
        let set = |rows: &mut Vec<Row>, mode, p99_us| {
            for row in rows.iter_mut().filter(|row| row.mode == mode) {
                row.get.as_mut().unwrap().p99_us = p99_us;
            }
        };
        let mut rows = report().rows;
        set(&mut rows, Mode::RunToCompletion, 1400.0);
        set(&mut rows, Mode::Preemptive, 350.0);
        let verdict = summarise(&rows, loads, "50us").verdict;
        assert!(
            verdict.contains("Neither mode") && verdict.contains("lowered GET p99 at"),
            "{verdict}"
        );
        assert!(verdict.contains("350 µs instead of 1.40 ms"), "{verdict}");
        set(&mut rows, Mode::Preemptive, 2000.0);
        let verdict = summarise(&rows, loads, "50us").verdict;
        assert!(verdict.contains("bought nothing"), "{verdict}");
    }

    #[test]
    fn nothing_is_divided_by_a_load_that_was_not_reached() {
        let summary = verdict(Some(0.0), Some(50.0));
        assert_eq!(summary.ratio, None);
        assert!(summary.verdict.contains("not even 10 %"), "{}", summary.verdict);
    }

    #[test]
    fn one_mode_alone_is_compared_with_nothing() {
        let summary = verdict(None, Some(50.0));
        assert!(summary.verdict.contains("alone"), "{}", summary.verdict);
        assert!(!summary.verdict.contains("bought"));
        assert!(verdict(None, None).verdict.contains("no GETs"));
    }
}
