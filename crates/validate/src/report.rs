//! What a validation says: as JSON, and as a table for people.

use comfy_table::{CellAlignment, Table, presets};
use quaver_bench_common::noise::Noise;
use serde::Serialize;

use super::Case;
use super::prices::Prices;
use super::stops;
use super::verdict::{Row, TOLERANCE_PERCENT, Verdict};

/// From here on the calibration says something about the machine, in percent.
const UNSTEADY: f64 = 5.0;

/// What disturbed the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The client's CPU.
    pub client_cpu: usize,
    /// The worker's CPU.
    pub worker_cpu: usize,
    /// What stops a thread on the client's CPU.
    pub client_noise: Noise,
    /// What stops a thread on the worker's CPU.
    pub worker_noise: Noise,
    /// How much the worker's speed varied during the calibration.
    pub calibration_spread_percent: f64,
    /// What stopped the worker while it served.
    pub stops: stops::Summary,
    /// Rounds that were offered.
    pub offered: usize,
    /// Those of them of which the machine took too much.
    pub disturbed: usize,
    /// The shortest and the longest round, in milliseconds.
    pub round_ms: [f64; 2],
}

impl Machine {
    /// What makes the machine unfit to measure on, as sentences without full stops; `busy` is one
    /// more.
    pub fn unfit(&self, busy: Option<String>) -> Vec<String> {
        let mut unfit: Vec<String> = busy.into_iter().collect();
        if self.client_cpu == self.worker_cpu {
            let cpu = self.client_cpu;
            unfit.push(format!("client and worker share CPU {cpu}: the client delays requests"));
        }
        if self.calibration_spread_percent > UNSTEADY {
            unfit.push(format!(
                "the speed of CPU {} varied by {:.0} % while it was measured, so real requests are \
                 not of the length that they should be",
                self.worker_cpu, self.calibration_spread_percent
            ));
        }
        unfit
    }

    /// How the machine stops what spins, for readers: whether that disturbed a round is known of
    /// each. Sentences as of [`unfit`](Machine::unfit).
    pub fn noise(&self) -> impl Iterator<Item = String> {
        let client = self.client_noise.warning(self.client_cpu);
        let client = client.filter(|_| self.client_cpu != self.worker_cpu);
        self.worker_noise.warning(self.worker_cpu).into_iter().chain(client)
    }
}

/// What was found: serialised, or as a text.
#[derive(Debug, Serialize)]
pub struct Report {
    version: &'static str,
    tolerance_percent: f64,
    #[serde(flatten)]
    verdict: Verdict,
    cases: Vec<Case>,
    clock: String,
    prices: Prices,
    machine: Machine,
    noisy: bool,
    warnings: Vec<String>,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(
        cases: Vec<Case>,
        clock: String,
        prices: Prices,
        machine: Machine,
        warnings: Vec<String>,
        verdict: Verdict,
        rows: Vec<Row>,
    ) -> Self {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            tolerance_percent: TOLERANCE_PERCENT,
            verdict,
            cases,
            clock,
            prices,
            machine,
            noisy: !warnings.is_empty(),
            warnings,
            rows,
        }
    }

    /// Has every row passed, on a machine that is fit to measure on?
    pub fn passed(&self) -> bool {
        self.verdict.passed
    }

    /// What disturbs the measurement: sentences without full stops.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// For people.
    pub fn text(&self) -> String {
        let cases: String = self
            .cases
            .iter()
            .map(|case| format!("{}: {} under {}\n", case.name, case.mix, case.policy))
            .collect();
        let Machine { offered, disturbed, round_ms: [shortest, longest], .. } = self.machine;
        let lengths = match shortest < longest {
            true => format!("{shortest:.0} to {longest:.0}"),
            false => format!("{longest:.0}"),
        };
        let stops::Summary { per_second, percent, longest_us } = self.machine.stops;
        let Prices { request_ns, send_ns, preemption_ns, late_ns, start_ns, .. } = self.prices;
        let [request, send, preemption, late, start] =
            [request_ns, send_ns, preemption_ns, late_ns, start_ns].map(|ns| ns as f64 / 1e3);
        let missing = &self.verdict.missing;
        let within = self.rows.iter().filter(|row| row.passed).count();
        let gaps = match missing.as_slice() {
            [] => String::new(),
            rows => format!("Missing, for nothing was served in time: {}\n", rows.join("; ")),
        };
        let beware: String =
            self.warnings.iter().map(|warning| format!("Beware: {warning}.\n")).collect();
        format!(
            "{cases}One worker, clock {}.\n\
             Measured first: {start:.1} us from the client to a sleeping worker, {send:.1} to one \
             that works; {request:.1} for each request, {preemption:.1} for each preemption, which \
             comes {late:.1} late (median).\n\
             While it served, the worker was stopped {per_second:.0} times a second, {percent:.2} \
             % of the time, for {longest_us:.0} us at the longest; {disturbed} of {offered} rounds \
             of {lengths} ms were disturbed.\n\n\
             {}\n\n{within} of {} rows undisturbed and within {TOLERANCE_PERCENT} %\n\
             {gaps}{beware}{}\n",
            self.clock,
            table(&self.rows),
            self.rows.len() + missing.len(),
            self.verdict.text(),
        )
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let head =
        ["case", "load", "class", "percentile", "simulated, us", "measured, us", "ratio", ""];
    table.set_header(head);
    for row in rows {
        let remark = match (row.passed, row.disturbed) {
            (_, true) => "disturbed",
            (true, _) => "",
            (false, _) => "outside",
        };
        table.add_row([
            row.case.into(),
            format!("{} %", row.load_percent),
            row.class.into(),
            row.percentile.into(),
            format!("{:.1}", row.simulated_us),
            format!("{:.1}", row.measured_us),
            format!("{:.2}", row.ratio),
            remark.into(),
        ]);
    }
    for column in [4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbs_is_said() {
        let quiet = Noise { watched_s: 0.6, stops: 1, lost_percent: 0.05, longest_us: 300.0 };
        let noisy = Noise { watched_s: 0.6, stops: 90, lost_percent: 40.0, longest_us: 4000.0 };
        let machine = |client_cpu, noise, spread| Machine {
            client_cpu,
            worker_cpu: 1,
            client_noise: quiet,
            worker_noise: noise,
            calibration_spread_percent: spread,
            stops: stops::Summary::default(),
            offered: 9,
            disturbed: 1,
            round_ms: [125.0, 250.0],
        };
        let fit = machine(0, quiet, 0.5);
        assert!(fit.unfit(None).is_empty() && fit.noise().next().is_none());
        let unfit = machine(1, noisy, 12.0);
        let all = unfit.unfit(Some("the machine was busy".into())).join("\n");
        for part in ["was busy", "share CPU 1", "varied by 12 %"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(unfit.noise().next().unwrap().contains("CPU 1 for more than 50"));
    }
}
