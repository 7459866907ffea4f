//! Sweeps over the offered load, and the load that a service level allows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::distribution::Percentile;
use crate::error::{Spec, SpecError};
use crate::summary::Summary;
use crate::units;

/// More points than anyone measures.
const MAX_POINTS: usize = 1000;

/// Percent are parsed as integers of this many parts, so that the points of a range are exact.
const PER_PERCENT: u64 = 1_000_000;

/// The loads of a sweep, as fractions of a capacity.
///
/// Parsed from percentages: a list such as `10,50,80,90`, ranges `FROM..TO:STEP` such as `10..95:5`
/// (both ends included if the step meets them), or both: `10..80:10,85..95:1`. Each is above 0 and
/// at most 1000 percent; the order stays.
///
/// ```
/// let loads: quaver_load::LoadFractions = "10..30:10,95".parse().unwrap();
/// assert_eq!(loads.0, [0.1, 0.2, 0.3, 0.95]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LoadFractions(pub Vec<f64>);

impl FromStr for LoadFractions {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let spec = Spec::new("load list", text);
        let mut loads = Vec::new();
        for piece in text.split(',').map(str::trim) {
            let (from, to, step) = match piece.split_once("..") {
                None => {
                    let load = percent(&spec, piece)?;
                    (load, load, 1)
                }
                Some((from, rest)) => {
                    let (to, step) = rest.split_once(':').ok_or_else(|| {
                        spec.error(piece, "a range with a step, FROM..TO:STEP such as 10..95:5")
                    })?;
                    let (low, high) = (percent(&spec, from)?, percent(&spec, to)?);
                    if low > high {
                        return Err(spec.error(to, "an end that is not below the start"));
                    }
                    (low, high, percent(&spec, step)?)
                }
            };
            for load in (from..=to).step_by(step as usize) {
                if loads.len() == MAX_POINTS {
                    return Err(spec.error(piece, format!("at most {MAX_POINTS} loads in total")));
                }
                loads.push(load as f64 / (100 * PER_PERCENT) as f64);
            }
        }
        Ok(Self(loads))
    }
}

/// A percentage, with or without the sign, in parts of [`PER_PERCENT`].
fn percent(spec: &Spec<'_>, piece: &str) -> Result<u64, SpecError> {
    let number = piece.strip_suffix('%').unwrap_or(piece);
    units::scaled_decimal(number, PER_PERCENT)
        .filter(|parts| (1..=1000 * PER_PERCENT).contains(parts))
        .ok_or_else(|| spec.error(piece, "a percentage above 0 and up to 1000, such as 80 or 92.5"))
}

/// A service-level objective: a percentile of latency or slowdown that must not exceed a limit.
///
/// Parsed from `[CLASS:]PERCENTILE<=LIMIT`: `p99<=200us`, `short:p99.9<=10x`. Percentiles are
/// `p50`, `p90`, `p99`, `p99.9` and `max`; a limit with `x` is one of slowdown. Without a class it
/// applies to all requests together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// The class; `None` for all together.
    pub class: Option<String>,
    /// The percentile.
    pub percentile: Percentile,
    /// What it must not exceed.
    pub limit: SloLimit,
}

/// The limit of an [`Slo`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum SloLimit {
    /// Latency in nanoseconds.
    LatencyNs(u64),
    /// Latency divided by service time.
    Slowdown(f64),
}

const PERCENTILES: [(&str, Percentile); 5] = [
    ("p50", Percentile::P50),
    ("p90", Percentile::P90),
    ("p99", Percentile::P99),
    ("p99.9", Percentile::P999),
    ("max", Percentile::Max),
];

impl FromStr for Slo {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let spec = Spec::new("service level", text);
        let (left, limit) = text.trim().split_once("<=").ok_or_else(|| {
            spec.error(text.trim(), "[CLASS:]PERCENTILE<=LIMIT such as p99<=200us")
        })?;
        let (class, percentile) = match left.split_once(':') {
            Some((class, percentile)) => (Some(class.trim()), percentile.trim()),
            None => (None, left.trim()),
        };
        if let Some(class) = class.filter(|class| !crate::mix::is_name(class)) {
            return Err(spec.error(class, crate::mix::NAME_RULE));
        }
        let percentile = PERCENTILES
            .into_iter()
            .find_map(|(name, value)| (name == percentile).then_some(value))
            .ok_or_else(|| spec.error(percentile, "p50, p90, p99, p99.9 or max"))?;
        let limit = limit.trim();
        let limit = match limit.strip_suffix('x') {
            Some(slowdown) => SloLimit::Slowdown(units::number(
                &spec,
                slowdown,
                "a slowdown such as 10x, or a latency such as 200us",
            )?),
            None => SloLimit::LatencyNs(units::duration(&spec, limit)?),
        };
        Ok(Self { class: class.map(str::to_owned), percentile, limit })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(class) = &self.class {
            write!(f, "{class}:")?;
        }
        for (name, percentile) in PERCENTILES {
            if percentile == self.percentile {
                write!(f, "{name}<=")?;
            }
        }
        match self.limit {
            SloLimit::LatencyNs(ns) => write!(f, "{}", units::format_ns(ns)),
            SloLimit::Slowdown(slowdown) => write!(f, "{slowdown}x"),
        }
    }
}

/// How a measurement compares with an [`Slo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It meets it.
    Met,
    /// More requests than tolerated were dropped, unsent or unfinished.
    Lost,
    /// The percentile is above the limit, or unknown because it falls on a request that did not
    /// complete.
    TooSlow,
}

/// Why measurements cannot be compared with an [`Slo`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SweepError {
    /// The class is not in the results.
    #[error("service level {slo}: the results at load {load} have no class of this name")]
    NoClass {
        /// The objective.
        slo: String,
        /// The load of the results.
        load: f64,
    },
    /// The class has no requests, or for a slowdown none with a known service time.
    #[error("service level {slo}: the results at load {load} have no such figure for this class")]
    NoFigure {
        /// The objective.
        slo: String,
        /// The load of the results.
        load: f64,
    },
    /// A load is no number.
    #[error("load {0}: expected a number")]
    Load(f64),
}

/// A measurement of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// The offered load, in whatever unit the sweep uses.
    pub load: f64,
    /// The results.
    pub summary: Summary,
}

impl LoadPoint {
    /// Does this measurement meet `slo`, when a share of `tolerance` (0 to 1) of all requests may
    /// be lost?
    ///
    /// Lost are requests of any class that were dropped, unsent or unfinished.
    ///
    /// # Errors
    ///
    /// When the results have no such figure.
    pub fn verdict(&self, slo: &Slo, tolerance: f64) -> Result<Verdict, SweepError> {
        let load = self.load;
        let class = match &slo.class {
            Some(name) => self
                .summary
                .class(name)
                .ok_or_else(|| SweepError::NoClass { slo: slo.to_string(), load })?,
            None => &self.summary.total,
        };
        let no_figure = || SweepError::NoFigure { slo: slo.to_string(), load };
        let fast = match slo.limit {
            SloLimit::LatencyNs(limit) => {
                let latency = class.latency_ns.ok_or_else(no_figure)?;
                latency.percentile(slo.percentile).is_within(limit)
            }
            SloLimit::Slowdown(limit) => {
                let slowdown = class.slowdown.ok_or_else(no_figure)?;
                slowdown.percentile(slo.percentile).is_within(limit)
            }
        };
        Ok(if self.summary.total.lost_share() > tolerance {
            Verdict::Lost
        } else if fast {
            Verdict::Met
        } else {
            Verdict::TooSlow
        })
    }
}

/// The highest load that meets a service level: the highest measured load such that it *and every
/// lower measured load* meets `slo` with at most a share of `tolerance` lost
/// ([`LoadPoint::verdict`]). Where a load was measured several times, all of them must. `None` when
/// the lowest load does not meet it, or nothing was measured.
///
/// A higher load that happens to meet the objective after a lower one missed it is luck, not
/// capacity. The order of the points does not matter.
///
/// # Errors
///
/// When some results do not have the figure, or a load is not a number.
pub fn highest_load(
    points: &[LoadPoint],
    slo: &Slo,
    tolerance: f64,
) -> Result<Option<f64>, SweepError> {
    // All verdicts first, so that an error does not hide behind a load that is too high.
    let mut verdicts: Vec<(f64, Verdict)> = Vec::with_capacity(points.len());
    for point in points {
        if point.load.is_nan() {
            return Err(SweepError::Load(point.load));
        }
        verdicts.push((point.load, point.verdict(slo, tolerance)?));
    }
    verdicts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let missed = verdicts.iter().find(|(_, verdict)| *verdict != Verdict::Met);
    let below = |load: &f64| missed.is_none_or(|(limit, _)| load < limit);
    Ok(verdicts.iter().map(|&(load, _)| load).rfind(below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{Distribution, Measured};
    use crate::summary::ClassSummary;

    #[test]
    fn load_lists_are_understood() {
        for (text, loads) in [
            ("10,50,80,90", vec![0.1, 0.5, 0.8, 0.9]),
            ("10..30:10", vec![0.1, 0.2, 0.3]),
            ("10..35:10", vec![0.1, 0.2, 0.3]),
            ("90%, 20%..20.2%:0.1%", vec![0.9, 0.2, 0.201, 0.202]),
            ("120", vec![1.2]),
        ] {
            assert_eq!(text.parse::<LoadFractions>().unwrap().0, loads, "{text}");
        }
        assert_eq!("10..95:5".parse::<LoadFractions>().unwrap().0.len(), 18);
    }

    #[test]
    fn load_list_errors_point_at_the_piece() {
        for (text, column, part) in [
            ("", 1, "above 0"),
            ("10,,20", 4, "above 0"),
            ("10,0", 4, "above 0"),
            ("10,-5", 4, "above 0"),
            ("10,1001", 4, "up to 1000"),
            ("10..95", 1, "with a step"),
            ("95..10:5", 5, "not below"),
            ("10..95:0", 8, "above 0"),
            ("10..95:x", 8, "above 0"),
            ("0.000001..1000:0.000001", 1, "at most 1000 loads"),
        ] {
            let error = text.parse::<LoadFractions>().expect_err(text);
            assert_eq!(error.column(), column, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn service_levels_are_understood() {
        for text in ["p99<=200us", "short:p99.9<=10x", "max<=1.5ms", "p50<=2.5x"] {
            assert_eq!(text.parse::<Slo>().unwrap().to_string(), text);
        }
        let slo: Slo = " get : p90 <= 1ms ".parse().unwrap();
        assert_eq!(
            (slo.class.as_deref(), slo.percentile, slo.limit),
            (Some("get"), Percentile::P90, SloLimit::LatencyNs(1_000_000))
        );
        for (text, column, part) in [
            ("p99", 1, "LIMIT"),
            ("p98<=1ms", 1, "p99.9 or max"),
            ("a b:p99<=1ms", 1, "class name"),
            ("p99<=1", 6, "duration"),
            ("p99<=-1x", 6, "slowdown"),
        ] {
            let error = text.parse::<Slo>().expect_err(text);
            assert_eq!(error.column(), column, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    /// A result with one class, of which every request took the same time.
    fn point(load: f64, latency: u64, lost: u64) -> LoadPoint {
        let exact = Measured { value: latency, at_least: false };
        let latency = Distribution {
            count: 1_000,
            min: exact,
            mean: Measured { value: latency as f64, at_least: lost > 0 },
            p50: exact,
            p90: exact,
            p99: exact,
            p999: Measured { at_least: lost > 1, ..exact },
            max: Measured { at_least: lost > 0, ..exact },
        };
        let class = ClassSummary {
            name: "get".to_owned(),
            offered: 1_000,
            sent: 1_000,
            completed: 1_000 - lost,
            unfinished: lost,
            dropped: 0,
            unsent: 0,
            offered_rate: None,
            achieved_rate: None,
            latency_ns: Some(latency),
            slowdown: None,
        };
        let total = ClassSummary { name: "total".to_owned(), ..class.clone() };
        let classes = vec![class];
        let summary =
            Summary { window_ns: 1, warm_up: 0, stray: 0, classes, total, generator: None };
        LoadPoint { load, summary }
    }

    #[test]
    fn the_highest_load_needs_all_lower_ones() {
        let slo: Slo = "get:p99<=100ns".parse().unwrap();
        let highest = |points: &[LoadPoint]| highest_load(points, &slo, 0.001).unwrap();
        let mut points =
            vec![point(0.5, 20, 0), point(0.9, 90, 0), point(0.1, 10, 0), point(0.7, 100, 1)];
        assert_eq!(highest(&points), Some(0.9));
        points.push(point(0.6, 101, 0));
        assert_eq!(highest(&points), Some(0.5));
        points.push(point(0.5, 500, 0));
        assert_eq!(highest(&points), Some(0.1));
        points.push(point(0.05, 500, 0));
        assert_eq!(highest(&points), None);
        assert_eq!(highest(&[]), None);
    }

    #[test]
    fn lost_requests_disqualify() {
        let slo: Slo = "p99<=100ns".parse().unwrap();
        let points = [point(0.1, 10, 0), point(0.2, 10, 2), point(0.3, 10, 0)];
        assert_eq!(points[1].verdict(&slo, 0.001), Ok(Verdict::Lost));
        assert_eq!(highest_load(&points, &slo, 0.001), Ok(Some(0.1)));
        assert_eq!(highest_load(&points, &slo, 0.002), Ok(Some(0.3)));
        // A percentile that falls on a lost request is not met even where the loss is tolerated.
        let slo: Slo = "p99.9<=100ns".parse().unwrap();
        assert_eq!(points[1].verdict(&slo, 1.0), Ok(Verdict::TooSlow));
    }

    #[test]
    fn missing_figures_are_errors() {
        let points = [point(0.1, 10, 0)];
        let error = |slo: &str| highest_load(&points, &slo.parse().unwrap(), 0.0).unwrap_err();
        assert!(matches!(error("put:p99<=1us"), SweepError::NoClass { .. }));
        assert!(matches!(error("get:p99<=10x"), SweepError::NoFigure { .. }));
        let points = [point(f64::NAN, 10, 0)];
        let slo = "p99<=1us".parse().unwrap();
        assert!(matches!(highest_load(&points, &slo, 0.0), Err(SweepError::Load(_))));
    }
}
