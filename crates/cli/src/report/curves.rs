//! The curves of a figure, simulated, and what each of them says.

use anyhow::{Context, Result, anyhow, bail};
use quaver_sim::{Options, Outcome, Scenario};
use toml::{Table, Value};

use super::figure::{self, Curve, Figure, Points, Shown};

/// So many requests are enough for a quick look.
const QUICK: i64 = 20_000;

/// Requests of a scenario that does not say how many.
const DEFAULT: i64 = 100_000;

/// One curve, simulated or measured.
pub struct Simulated {
    pub name: String,
    pub points: Points,
    /// The share of best-effort work, over the load.
    pub shares: Points,
    /// What the curve says; `None`: nothing, where the workers cannot follow.
    pub best: Option<f64>,
}

/// Simulates one curve of a figure.
pub fn simulate(figure: &Figure, curve: &Curve, quick: bool) -> Result<Simulated> {
    let mut shares = Points::new();
    let run = Run { tables: &figure.scenario, curve, quick };
    let (points, best) = if let Some(quanta) = &figure.timer_quanta_us {
        let headline = needed(figure.headline_quantum_us, "headline-quantum-us")?;
        let most = needed(figure.most_workers, "most-workers")?;
        let quanta = if quick { &vec![headline] } else { quanta };
        let mut points = Points::new();
        for &quantum in quanta {
            points.push((quantum.into(), Some(most_workers(&run, most, quantum)?.into())));
        }
        let best = at(&points, headline.into());
        (points, best)
    } else if let Some(threads) = &figure.threads {
        let mut points = Points::new();
        for &threads in threads {
            let keys = keys("workers", threads);
            let outcomes = run.outcomes(None, &[("schbench", keys)])?;
            points.push((threads.into(), figure.shown.value(first(&outcomes)?)?));
        }
        let best = at(&points, needed(figure.headline_threads, "headline-threads")?.into());
        (points, best)
    } else if let Some(quanta) = &figure.quanta_us {
        let limit = needed(figure.limit_us, "limit-us")?;
        let mut points = Points::new();
        for &quantum in quanta {
            let outcomes = run.outcomes(Some(quantum), &[])?;
            points.push((
                quantum.into(),
                Some(highest(&over_load(&figure.shown, &outcomes)?, limit)),
            ));
        }
        // The first of several that are equally high.
        let best =
            points.iter().rev().max_by(|a, b| a.1.unwrap_or(0.0).total_cmp(&b.1.unwrap_or(0.0)));
        let best = best.map(|point| point.0);
        (points, best)
    } else {
        let outcomes = run.best_of(&figure.shown)?;
        shares = outcomes.iter().map(|o| (o.rate, Some(o.best_effort_share))).collect();
        let points = over_load(&figure.shown, &outcomes)?;
        let best = highest(&points, needed(figure.limit_us, "limit-us")?);
        (points, Some(best))
    };
    Ok(Simulated { name: curve.name.clone(), points, shares, best })
}

/// A curve's scenario, which changes from run to run.
pub struct Run<'a> {
    pub tables: &'a Table,
    pub curve: &'a Curve,
    pub quick: bool,
}

impl Run<'_> {
    /// The outcomes at each of the scenario's rates.
    pub fn outcomes(
        &self,
        quantum: Option<u32>,
        changes: &[(&str, Table)],
    ) -> Result<Vec<Outcome>> {
        let run = || -> Result<Vec<Outcome>> {
            let scenario = self.scenario(quantum, changes)?;
            let rates = scenario.rates()?;
            Ok(quaver_sim::sweep::sweep(&scenario, &rates, &Options::default(), |_| ())?)
        };
        run().with_context(|| format!("curve {}", self.curve.name))
    }

    fn scenario(&self, quantum: Option<u32>, changes: &[(&str, Table)]) -> Result<Scenario> {
        let mut tables = self.tables.clone();
        // A table of a table is written flat in a figure, beside the others.
        let costs = tables.remove("server.costs");
        figure::change(&mut tables, "server", &self.curve.server)?;
        for (table, keys) in changes {
            figure::change(&mut tables, table, keys)?;
        }
        if self.quick {
            let given = tables.get("load").and_then(|load| load.get("requests"));
            let given = given.and_then(Value::as_integer).unwrap_or(DEFAULT);
            figure::change(&mut tables, "load", &keys("requests", given.min(QUICK)))?;
        }
        let mut options: Table = costs.into_iter().map(|costs| ("costs".into(), costs)).collect();
        for pair in self.curve.args.chunks(2) {
            let [option, value] = pair else { bail!("{} has no value", pair[0]) };
            let key = option
                .strip_prefix("--")
                .filter(|key| ["policy", "mechanism", "system"].contains(key));
            let key =
                key.ok_or_else(|| anyhow!("{option} is not --policy, --mechanism or --system"))?;
            let quantum = quantum.map_or_else(String::new, |us| us.to_string());
            options.insert(key.into(), Value::String(value.replace("{quantum}", &quantum)));
        }
        figure::change(&mut tables, "server", &options)?;
        Ok(toml::to_string(&tables).context("cannot write the scenario")?.parse()?)
    }

    /// The outcomes, at each load the best of the curve's quanta if it has several.
    fn best_of(&self, shown: &Shown) -> Result<Vec<Outcome>> {
        let Some(quanta) = &self.curve.best_of_us else { return self.outcomes(None, &[]) };
        let mut best = Vec::new();
        for &quantum in quanta {
            best = better(shown, best, self.outcomes(Some(quantum), &[])?)?;
        }
        Ok(best)
    }
}

/// At each load the better of two outcomes, the first if they are alike.
fn better(shown: &Shown, old: Vec<Outcome>, new: Vec<Outcome>) -> Result<Vec<Outcome>> {
    if old.is_empty() {
        return Ok(new);
    }
    let value = |outcome: &Outcome| anyhow::Ok(shown.value(outcome)?.unwrap_or(f64::INFINITY));
    let pick = |(old, new)| Ok(if value(&new)? < value(&old)? { new } else { old });
    old.into_iter().zip(new).map(pick).collect()
}

/// The highest rate up to which all points meet the limit, interpolated to where it is crossed:
/// between two points the logarithm is taken to be straight.
pub fn highest(points: &[(f64, Option<f64>)], limit: f64) -> f64 {
    let mut before = (0.0, None);
    for &(x, y) in points {
        let Some(value) = y else { return before.0 };
        if value > limit {
            let (x0, y0) = before;
            return match y0 {
                Some(y0) if y0 > 0.0 && value > y0 => {
                    x0 + (x - x0) * ((limit / y0).ln() / (value / y0).ln()).clamp(0.0, 1.0)
                }
                _ => x0,
            };
        }
        before = (x, y);
    }
    before.0
}

/// How many workers one timer core can serve, of those that there are.
fn most_workers(run: &Run, most: u32, quantum: u32) -> Result<u32> {
    let run = Run { quick: false, ..*run };
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = (low + high).div_ceil(2);
        let outcomes = run.outcomes(Some(quantum), &[("server", keys("workers", middle))])?;
        let outcome = first(&outcomes)?;
        // It sends 99 % of the notifications that are due.
        let due = outcome.seconds * 1e6 / f64::from(quantum) * f64::from(middle);
        let followed = outcome.counts.sent as f64 >= 0.99 * due;
        (low, high) = if followed { (middle, high) } else { (low, middle - 1) };
    }
    Ok(low)
}

fn over_load(shown: &Shown, outcomes: &[Outcome]) -> Result<Points> {
    outcomes.iter().map(|outcome| Ok((outcome.rate, shown.value(outcome)?))).collect()
}

/// The value at this x, if there is one.
pub fn at(points: &[(f64, Option<f64>)], x: f64) -> Option<f64> {
    points.iter().find(|point| point.0 == x)?.1
}

/// The value at this x; between two points the logarithm is taken to be straight.
pub fn between(points: &[(f64, Option<f64>)], x: f64) -> Option<f64> {
    let after = points.iter().position(|point| point.0 >= x)?;
    let (x1, y1) = points[after];
    if x1 == x {
        return y1;
    }
    let (x0, y0) = points[after.checked_sub(1)?];
    let (y0, y1) = (y0?, y1?);
    let share = (x - x0) / (x1 - x0);
    (y0 > 0.0 && y1 > 0.0).then(|| y0 * (y1 / y0).powf(share))
}

pub fn first(outcomes: &[Outcome]) -> Result<&Outcome> {
    outcomes.first().ok_or_else(|| anyhow!("the scenario has no rates"))
}

/// A table of one key.
pub fn keys(key: &str, value: impl Into<Value>) -> Table {
    Table::from_iter([(key.to_owned(), value.into())])
}

fn needed<T>(value: Option<T>, key: &str) -> Result<T> {
    value.ok_or_else(|| anyhow!("`{key}` is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_load_is_where_the_curve_crosses_the_limit() {
        let highest = |points: &[(f64, f64)], limit| {
            let points: Vec<_> = points.iter().map(|&(x, y)| (x, Some(y))).collect();
            highest(&points, limit)
        };
        assert_eq!(highest(&[(1.0, 10.0), (2.0, 20.0)], 50.0), 2.0);
        let crossed = highest(&[(1.0, 10.0), (2.0, 1000.0), (3.0, 1.0)], 100.0);
        assert!((crossed - 1.5).abs() < 1e-9, "{crossed}");
        assert_eq!(highest(&[(1.0, 200.0)], 100.0), 0.0);
        assert_eq!(super::highest(&[(1.0, Some(10.0)), (2.0, None), (3.0, Some(1.0))], 100.0), 1.0);
        assert_eq!(super::highest(&[], 100.0), 0.0);
    }

    #[test]
    fn between_two_points_a_curve_is_straight_in_logarithms() {
        let points = [(1.0, Some(10.0)), (2.0, Some(1000.0)), (3.0, None), (4.0, Some(7.0))];
        assert_eq!(between(&points, 1.0), Some(10.0));
        assert!((between(&points, 1.5).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(between(&points, 4.0), Some(7.0));
        // Neither beside what is missing nor outside is anything known.
        for x in [0.5, 2.5, 3.0, 3.5, 5.0] {
            assert_eq!(between(&points, x), None, "{x}");
        }
    }

    /// An outcome of the simulator at one load, with another percentile.
    fn outcome(p99: f64, unstable: bool) -> Outcome {
        let text = "[load]\nmix = \"all:1:fixed=1us\"\nload = 0.1\nrequests = 100\n\
                    [server]\nworkers = 1\n";
        let scenario: Scenario = text.parse().unwrap();
        let rate = scenario.rates().unwrap()[0];
        let mut outcome = quaver_sim::simulate(&scenario, rate, &Options::default()).unwrap().0;
        outcome.classes[0].latency_us.as_mut().unwrap().p99 = p99;
        outcome.unstable = unstable;
        outcome
    }

    #[test]
    fn the_best_of_several_quanta_counts_at_each_load() {
        let shown =
            Shown { class: Some("all".into()), percentile: Some("p99".into()), slowdown: false };
        let short = vec![outcome(10.0, false), outcome(90.0, true)];
        let long = vec![outcome(30.0, false), outcome(40.0, false)];
        let first = better(&shown, Vec::new(), short).unwrap();
        let best = better(&shown, first, long).unwrap();
        let values: Vec<_> = best.iter().map(|o| shown.value(o).unwrap()).collect();
        assert_eq!(values, [Some(10.0), Some(40.0)]);
    }
}
