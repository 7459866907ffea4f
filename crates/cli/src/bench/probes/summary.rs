//! All programs together.

use serde::Serialize;

use super::samples::FAR_PERCENT;
use super::sections::{CLOCK, SWITCH, TAX};
use super::work::PREEMPTIONS;
use crate::bench::harness::Row;
use crate::bench::plan::Labels;
use crate::bench::stats::{Summary as Spread, mean_of_medians_interval, paired_ratios};

/// What is said of the benchmark.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// By how much programs with probes take longer than plain ones while nobody waits: the mean
    /// over programs and compilers, in percent.
    pub tax_mean: Option<f64>,
    /// The highest of them.
    pub tax_worst: Option<f64>,
    /// Whose that is.
    pub tax_worst_program: Option<String>,
    /// The same against the control without probes.
    pub tax_over_control_mean: Option<f64>,
    pub tax_over_control_worst: Option<f64>,
    /// While somebody waits.
    pub armed_mean: Option<f64>,
    pub armed_worst: Option<f64>,
    pub armed_over_control_mean: Option<f64>,
    pub armed_over_control_worst: Option<f64>,
    /// One preemption at a probe, with the switch to a copy of the program, in ns: the median over
    /// programs.
    pub preemption_ns: Option<f64>,
    /// With the switch to a thread that yields at once, and back.
    pub preemption_and_yield_ns: Option<f64>,
    /// By a signal, with the switch to a copy.
    pub signal_ns: Option<f64>,
    /// Time further than 5 µs from a probe, in percent: mean and highest over programs.
    pub far_mean: Option<f64>,
    pub far_worst: Option<f64>,
    /// Each variant over all programs.
    pub variants: Vec<Overall>,
}

/// A variant over all programs of a compiler.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Overall {
    /// Of all programs.
    #[serde(flatten)]
    pub labels: Labels,
    /// With what it is compared.
    pub against: &'static str,
    /// How many programs there are.
    pub programs: usize,
    /// Additional CPU time, in percent: the mean over programs of the medians of all rounds.
    pub mean_percent: f64,
    /// Where that mean lies, with a probability of 95 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<[f64; 2]>,
    /// The highest of the medians.
    pub worst_percent: f64,
    pub worst_program: String,
}

/// A program's additional CPU time, in percent.
struct Cost<'a> {
    labels: &'a Labels,
    percent: f64,
    /// Of each round.
    rounds: Vec<Option<f64>>,
}

impl Summary {
    /// Of the rows of this benchmark, if there are any.
    pub fn of(rows: &[Row]) -> Option<Summary> {
        rows.iter().find(|row| row.labels.is_some())?;
        let variants = overall(rows);
        let tax = costs(rows, TAX, "probes", "plain");
        let control = costs(rows, TAX, "probes", "control");
        let armed = costs(rows, CLOCK, "armed", "plain");
        let armed_control = costs(rows, CLOCK, "armed", "control");
        let far: Vec<f64> = far(rows).collect();
        Some(Summary {
            tax_mean: mean(tax.iter().map(|cost| cost.percent)),
            tax_worst: worst(&tax).map(|cost| cost.percent),
            tax_worst_program: worst(&tax).map(name),
            tax_over_control_mean: mean(control.iter().map(|cost| cost.percent)),
            tax_over_control_worst: worst(&control).map(|cost| cost.percent),
            armed_mean: mean(armed.iter().map(|cost| cost.percent)),
            armed_worst: worst(&armed).map(|cost| cost.percent),
            armed_over_control_mean: mean(armed_control.iter().map(|cost| cost.percent)),
            armed_over_control_worst: worst(&armed_control).map(|cost| cost.percent),
            preemption_ns: price(rows, (SWITCH, "probe"), (SWITCH, "probe")),
            preemption_and_yield_ns: price(rows, (CLOCK, "yielder"), (CLOCK, "armed")),
            signal_ns: price(rows, (SWITCH, "signal"), (SWITCH, "off")),
            far_mean: mean(far.iter().copied()),
            far_worst: far.iter().copied().max_by(f64::total_cmp),
            variants,
        })
    }
}

/// All variants, in the order in which they were measured.
fn overall(rows: &[Row]) -> Vec<Overall> {
    let of_all = |labels: &Labels| Labels { program: String::new(), ..labels.clone() };
    let mut keys: Vec<Labels> = Vec::new();
    for labels in rows.iter().filter_map(|row| row.labels.as_ref()) {
        if !["plain", "off"].contains(&labels.variant) && !keys.contains(&of_all(labels)) {
            keys.push(of_all(labels));
        }
    }
    keys.sort_by(|a, b| a.compiler.cmp(&b.compiler));
    let mut variants = Vec::new();
    for labels in keys {
        let against: &[&'static str] = match (labels.section, labels.variant) {
            (SWITCH, _) => &["off"],
            // What copies of loops gain is no merit of probes.
            (TAX, "probes") | (CLOCK, "armed" | "yielder" | "word") => &["plain", "control"],
            (CLOCK, "control") => &[],
            _ => &["plain"],
        };
        for against in against {
            let mut costs = costs(rows, labels.section, labels.variant, against);
            costs.retain(|cost| of_all(cost.labels) == labels);
            let (Some(mean_percent), Some(worst)) =
                (mean(costs.iter().map(|cost| cost.percent)), worst(&costs))
            else {
                continue;
            };
            let rounds: Vec<_> = costs.iter().map(|cost| cost.rounds.clone()).collect();
            variants.push(Overall {
                labels: labels.clone(),
                against,
                programs: costs.len(),
                mean_percent,
                interval_percent: mean_of_medians_interval(&rounds),
                worst_percent: worst.percent,
                worst_program: worst.labels.program.clone(),
            });
        }
    }
    variants
}

/// What a variant costs more than another one of its section, for all programs and compilers.
fn costs<'a>(rows: &'a [Row], section: &str, variant: &str, against: &str) -> Vec<Cost<'a>> {
    let of = |row: &'a Row| {
        let labels = labelled(row, section, variant)?;
        let other = beside(rows, labels, against)?;
        let pairs = row.values.iter().zip(&other.values);
        let rounds = pairs.map(|(this, other)| Some(in_percent((*this)? / (*other)?)));
        Some(Cost { labels, percent: more(row, other)?, rounds: rounds.collect() })
    };
    rows.iter().filter_map(of).collect()
}

/// What a row costs more than the first of its section, in percent.
pub fn percent(rows: &[&Row], row: &Row, against: &str) -> Option<f64> {
    more(row, beside(rows.iter().copied(), row.labels.as_ref()?, against)?)
}

/// The row of another variant, of the same program and section.
fn beside<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    labels: &Labels,
    variant: &str,
) -> Option<&'a Row> {
    rows.into_iter().find(|other| {
        labelled(other, labels.section, variant).is_some_and(|other| same(labels, other))
    })
}

/// What a row costs more than another one, in percent: the median of the rounds.
fn more(row: &Row, other: &Row) -> Option<f64> {
    let ratios = paired_ratios(&row.values, &other.values);
    Some(in_percent(Spread::of(&ratios)?.median))
}

fn in_percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

fn labelled<'a>(row: &'a Row, section: &str, variant: &str) -> Option<&'a Labels> {
    row.labels.as_ref().filter(|labels| (labels.section, labels.variant) == (section, variant))
}

/// Of the same program?
fn same(a: &Labels, b: &Labels) -> bool {
    (&a.program, &a.compiler) == (&b.program, &b.compiler)
}

/// The price of a preemption in ns, the median over programs: what one variant, with its shortest
/// quantum, costs more than another, with its longest, for each additional preemption.
fn price(rows: &[Row], more: (&str, &str), less: (&str, &str)) -> Option<f64> {
    let of = |first: &Row| {
        let labels = first.labels.as_ref()?;
        let all = |(section, variant): (&str, &str)| -> Vec<&Row> {
            let is = |row: &&Row| {
                labelled(row, section, variant).is_some_and(|other| same(labels, other))
            };
            let mut rows: Vec<&Row> = rows.iter().filter(is).collect();
            rows.sort_by_key(|row| row.labels.as_ref().and_then(|labels| labels.quantum_us));
            rows
        };
        let (more, less) = (*all(more).first()?, *all(less).last()?);
        let count = |row: &Row| row.metrics.get(PREEMPTIONS).copied();
        let events = count(more)? - count(less)?;
        (events > 0.0).then(|| 1e6 * (more.median - less.median) / events)
    };
    let firsts = rows.iter().filter(|row| {
        row.labels.as_ref().is_some_and(|labels| {
            labels.section == less.0 && ["plain", "off"].contains(&labels.variant)
        })
    });
    let prices: Vec<f64> = firsts.filter_map(of).collect();
    Some(Spread::of(&prices)?.median)
}

/// Of each program: how much of its time is far from a probe, as the slowest clock saw it.
fn far(rows: &[Row]) -> impl Iterator<Item = f64> {
    let slowest = rows.iter().filter_map(|row| labelled(row, CLOCK, "word")?.quantum_us).max();
    rows.iter().filter_map(move |row| {
        labelled(row, CLOCK, "word").filter(|labels| labels.quantum_us == slowest)?;
        row.metrics.get(FAR_PERCENT).copied()
    })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

fn worst<'a, 'b>(costs: &'b [Cost<'a>]) -> Option<&'b Cost<'a>> {
    costs.iter().max_by(|a, b| a.percent.total_cmp(&b.percent))
}

fn name(cost: &Cost<'_>) -> String {
    format!("{} {}", cost.labels.program, cost.labels.compiler)
}
