//! The bottom line: the loads that met the objective, and what preemption bought, in words that
//! claim no more than was measured.

use super::args::Mode;
use super::results::{LoadRatio, Row, SloLoads, Summary};
use super::table::time;

/// Sums up the rows, given for each mode the highest load that met the objective.
pub fn summarise(rows: &[Row], loads: SloLoads, slo: &str) -> Summary {
    let compared = |mode| Compared { rows, loads, mode };
    let (signals, probes) = (compared(Mode::Preemptive), compared(Mode::Probe));
    let sentences: Vec<String> =
        [&signals, &probes].into_iter().filter_map(|mode| mode.verdict(slo)).collect();
    let verdict = match (sentences.is_empty(), loads.run_to_completion) {
        (false, _) => sentences.join(" "),
        (true, Some(load)) => alone(Mode::RunToCompletion, load, slo),
        (true, None) => "Nothing to compare: no GETs were measured.".to_owned(),
    };
    let get: fn(&Row) -> Option<f64> = |row| Some(row.get.as_ref()?.p99_us);
    let scan: fn(&Row) -> Option<f64> = |row| Some(row.scan.as_ref()?.p99_us);
    let throughput: fn(&Row) -> Option<f64> = |row| Some(row.achieved_rps);
    Summary {
        slo_load_percent: loads,
        ratio: signals.ratio(),
        probe_ratio: probes.ratio(),
        verdict,
        get_p99_ratio: signals.ratios(get),
        scan_p99_ratio: signals.ratios(scan),
        throughput_ratio: signals.ratios(throughput),
        probe_get_p99_ratio: probes.ratios(get),
        probe_scan_p99_ratio: probes.ratios(scan),
        probe_throughput_ratio: probes.ratios(throughput),
        chosen: None,
        probe_chosen: None,
    }
}

/// A mode that preempts, beside run to completion.
struct Compared<'a> {
    rows: &'a [Row],
    loads: SloLoads,
    mode: Mode,
}

impl Compared<'_> {
    /// How many times the load that met the objective without preemption.
    fn ratio(&self) -> Option<f64> {
        let (without, with) = (self.loads.run_to_completion?, self.loads.of(self.mode)?);
        (without > 0.0 && with > 0.0).then(|| with / without)
    }

    /// A figure of the row of `mode` at `load`.
    fn at(&self, mode: Mode, load: f64, figure: fn(&Row) -> Option<f64>) -> Option<f64> {
        let found = self.rows.iter().find(|row| row.mode == mode && row.load_percent == load);
        figure(found?).filter(|&figure| figure > 0.0)
    }

    /// The loads that both were measured at, with the figure without preemption and with it.
    fn pairs(&self, figure: fn(&Row) -> Option<f64>) -> Vec<(f64, f64, f64)> {
        let rows = self.rows.iter().filter(|row| row.mode == self.mode);
        let pair = |load| {
            let without = self.at(Mode::RunToCompletion, load, figure)?;
            Some((load, without, self.at(self.mode, load, figure)?))
        };
        rows.filter_map(|row| pair(row.load_percent)).collect()
    }

    fn ratios(&self, figure: fn(&Row) -> Option<f64>) -> Vec<LoadRatio> {
        let pairs = self.pairs(figure).into_iter();
        pairs.map(|(load_percent, a, b)| LoadRatio { load_percent, ratio: b / a }).collect()
    }

    /// What it bought, in a sentence; `None`: it was not measured.
    fn verdict(&self, slo: &str) -> Option<String> {
        let with = self.loads.of(self.mode)?;
        let Some(without) = self.loads.run_to_completion else {
            return Some(alone(self.mode, with, slo));
        };
        let what = self.mode.what();
        let lowest = self.rows.iter().map(|row| row.load_percent).fold(f64::INFINITY, f64::min);
        let target = format!("GET p99 below {slo}");
        Some(if with == 0.0 && without == 0.0 {
            let gain = self.side_by_side();
            format!("{what} kept {target} at no load, from {lowest} % up, nor did without: {gain}.")
        } else if with <= without {
            format!(
                "{what} bought nothing here: {target} was kept up to {with} % of capacity with it \
                 and {without} % without."
            )
        } else {
            let price = self.price(with);
            match self.ratio() {
                None => format!(
                    "{what} kept {target} up to {with} % of capacity; without it not even \
                     {lowest} % did{price}."
                ),
                Some(ratio) => format!(
                    "{what} kept {target} up to {with} % of capacity instead of {without} %: \
                     {ratio:.1} times the load{price}."
                ),
            }
        })
    }

    /// Where the objective was out of reach: at which loads GET p99 was lower with preemption, and
    /// the most that it gained.
    fn side_by_side(&self) -> String {
        let pairs = self.pairs(|row| Some(row.get.as_ref()?.p99_us));
        let lower = pairs.iter().filter(|(_, without, with)| with < without).count();
        let gain = |&(_, without, with): &(f64, f64, f64)| without / with;
        match pairs.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))) {
            Some(&(load, without, with)) if with < without => format!(
                "it lowered GET p99 at {lower} of {} loads, most at {load} %, {} instead of {}",
                pairs.len(),
                time(with),
                time(without)
            ),
            _ => "it bought nothing, GET p99 was lower with it at no load".to_owned(),
        }
    }

    /// What it cost: how SCANs fared at a load that both modes were measured at.
    fn price(&self, load: f64) -> String {
        let scan_p99: fn(&Row) -> Option<f64> = |row| Some(row.scan.as_ref()?.p99_us);
        let of = |mode| self.at(mode, load, scan_p99);
        match (of(Mode::RunToCompletion), of(self.mode)) {
            (Some(without), Some(with)) => {
                format!("; SCAN p99 at {load} % is {} instead of {}", time(with), time(without))
            }
            _ => String::new(),
        }
    }
}

fn alone(mode: Mode, load: f64, slo: &str) -> String {
    let what = mode.what();
    if load == 0.0 {
        format!("{what} alone kept GET p99 below {slo} at no measured load.")
    } else {
        format!("{what} alone kept GET p99 below {slo} up to {load} % of capacity.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::report;
    use super::*;

    fn verdict(without: Option<f64>, with: Option<f64>) -> Summary {
        let loads = SloLoads { run_to_completion: without, preemptive: with, probe: None };
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
        let [run_to_completion, preemptive] = [Some(0.0); 2];
        let loads = SloLoads { run_to_completion, preemptive, probe: None };
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
            verdict.contains("nor did without") && verdict.contains("lowered GET p99 at"),
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
    fn probes_have_their_own_sentence_and_ratios() {
        let mut rows = report().rows;
        let mut probes: Vec<Row> = rows.split_off(3);
        rows.extend(probes.clone());
        for row in &mut probes {
            row.mode = Mode::Probe;
            row.get.as_mut().unwrap().p99_us /= 2.0;
            row.achieved_rps *= 0.98;
        }
        rows.extend(probes);
        let [run_to_completion, preemptive, probe] = [10.0, 50.0, 90.0].map(Some);
        let loads = SloLoads { run_to_completion, preemptive, probe };
        let summary = summarise(&rows, loads, "50us");
        assert_eq!((summary.ratio, summary.probe_ratio), (Some(5.0), Some(9.0)));
        for part in ["by signals kept GET p99 below 50us up to 50 %", "at probes kept", "9.0 times"]
        {
            assert!(summary.verdict.contains(part), "{}", summary.verdict);
        }
        let ratios = |of: &[LoadRatio]| of.iter().map(|at| at.ratio).collect::<Vec<_>>();
        assert_eq!(ratios(&summary.get_p99_ratio), [0.05; 3]);
        assert_eq!(ratios(&summary.probe_get_p99_ratio), [0.025; 3]);
        assert_eq!(summary.probe_scan_p99_ratio, summary.scan_p99_ratio);
        let [signals, probes] = [&summary.throughput_ratio, &summary.probe_throughput_ratio];
        assert!(signals.iter().zip(probes).all(|(s, p)| p.ratio == s.ratio * 0.98), "{probes:?}");
    }

    #[test]
    fn one_mode_alone_is_compared_with_nothing() {
        let summary = verdict(None, Some(50.0));
        assert!(summary.verdict.contains("alone"), "{}", summary.verdict);
        assert!(!summary.verdict.contains("bought"));
        assert!(verdict(None, None).verdict.contains("no GETs"));
    }
}
