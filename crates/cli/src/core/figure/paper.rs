//! The paper's numbers: `bench/reference/xui.json`, carried along.

use std::collections::BTreeMap;

use serde::Deserialize;

/// By program, mechanism and interval in microseconds.
pub type Slowdowns = BTreeMap<String, BTreeMap<String, BTreeMap<u32, f64>>>;

/// What is known of the paper's figures.
#[derive(Deserialize)]
pub struct Paper {
    /// Fig. 4: how much longer a program takes, in percent.
    pub fig4_slowdown_percent: Slowdowns,
    /// Fig. 4: the text's mean cost of an interrupt, in cycles, by mechanism.
    pub fig4_mean_cycles: BTreeMap<String, f64>,
    /// Table 2, in cycles.
    pub table2_cycles: BTreeMap<String, f64>,
    /// Fig. 2, in cycles.
    pub fig2_cycles: BTreeMap<String, f64>,
    /// 6.1: how long a tracked interrupt may take.
    pub worst_case_cycles: f64,
    /// Fig. 5: how long base64 takes, by mechanism and quantum in microseconds, or `none`.
    pub fig5_base64_time: BTreeMap<String, BTreeMap<String, f64>>,
    /// Fig. 5: the text's range of slowdowns at 5 us, in percent.
    pub fig5_text_slowdown_percent_5us: BTreeMap<String, [f64; 2]>,
    /// Fig. 6: what the text says.
    pub fig6_text: BTreeMap<String, f64>,
    /// Fig. 8: shares of a core, by number of cards, load and how packets are noticed.
    pub fig8: Vec<Fig8>,
    /// Fig. 8: how many cycles a point's packets came in.
    pub fig8_window_cycles: f64,
    /// Fig. 9: what the text says.
    pub fig9_text: BTreeMap<String, f64>,
    /// Fig. 7: what the text says.
    pub fig7_text: Fig7,
}

/// A point of Fig. 8.
#[derive(Deserialize)]
pub struct Fig8 {
    /// Network cards.
    pub nics: u32,
    /// Percent of what one core can forward.
    pub load: u32,
    /// `poll` or `xui`.
    pub mode: String,
    /// How many came.
    pub packets: u64,
    /// Percent of the cycles that packets take.
    pub networking: f64,
    /// Percent that is free for other work.
    pub free: f64,
}

/// Fig. 7.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fig7 {
    /// The classes of requests, as `quaver-load` writes them.
    pub mix: String,
    /// How long a request may run while others wait.
    pub quantum_us: u32,
    /// The objective: the 99th percentile of GETs.
    pub slo_us: f64,
    /// Throughput within the objective, by xUI over by UIPI.
    pub gain: f64,
}

impl Paper {
    /// Reads what the program carries.
    pub fn carried() -> Paper {
        let text = include_str!("../../../../../bench/reference/xui.json");
        serde_json::from_str(text).expect("the reference is well-formed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_4_has_its_63_points() {
        let paper = Paper::carried();
        let points = paper.fig4_slowdown_percent.values().flat_map(BTreeMap::values);
        assert_eq!(points.map(BTreeMap::len).sum::<usize>(), 63);
        assert_eq!(paper.fig4_slowdown_percent["fib"]["uipi"][&5], 6.758);
        assert_eq!(paper.fig4_mean_cycles["kb-timer"], 105.0);
    }
}
