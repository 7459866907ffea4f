//! The smallest server that meets an objective.
//!
//! Cores are counted as they are paid for: workers, and the core of a timer or a dispatcher. From
//! the fewest cores that can carry the load upwards, every candidate (policy, quantum, mechanism)
//! is simulated, all in parallel, until one meets all objectives. Nothing is skipped on the
//! assumption that more cores are better, so the answer is that of brute force. Among several that
//! meet them with the same number, the one with the most room is chosen.
//!
//! An objective that the service times alone miss is met by no server; then nothing is simulated.

use std::time::Duration;

use quaver_load::{Percentile, Slo, SloLimit};
use quaver_sched::Spec;
use rayon::prelude::*;
use serde::Serialize;

use crate::costs::{Mechanism, Timer};
use crate::offer::Offer;
use crate::outcome::Latency;
use crate::scenario::{Named, Scenario, ScenarioError};
use crate::{Options, Outcome, simulate};

/// One way to build the server.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Candidate {
    /// Policy with its quantum, as text.
    pub policy: String,
    /// The mechanism's name.
    pub mechanism: String,
    /// Workers.
    pub workers: usize,
    /// Workers, and the core that keeps time or dispatches.
    pub cores: usize,
}

/// A candidate that was simulated.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Tried {
    /// What was simulated.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// The largest of: measured percentile divided by its limit. At most 1: all objectives are met.
    /// `None`: the workers cannot follow.
    pub ratio: Option<f64>,
}

impl Tried {
    /// Are all objectives met?
    pub fn meets(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio <= 1.0)
    }
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Found {
    /// The objectives.
    pub slo: Vec<String>,
    /// Requests a second.
    pub rate: f64,
    /// The cheapest; `None`: nothing up to the limit of cores is enough.
    pub best: Option<Tried>,
    /// The cheapest with each mechanism, in the scenario's order; those that have none up to the
    /// limit of cores are missing. Empty unless the plan asks for it (`each-mechanism`).
    pub each: Vec<Tried>,
    /// Objectives that no server meets, each with the reason; then nothing was tried.
    pub impossible: Vec<String>,
    /// Everything that was simulated: the curve that shows why.
    pub tried: Vec<Tried>,
}

/// Plan for the scenario at its rate; `progress` is told how many cores were just tried.
///
/// # Errors
///
/// The scenario has no `[plan]`, more than one rate, a rate that depends on the workers, or an
/// objective for a class that there is none of, or of which no request is counted; or as
/// [`simulate`].
pub fn plan(scenario: &Scenario, progress: impl Fn(usize) + Sync) -> Result<Found, ScenarioError> {
    let plan = scenario.plan.as_ref().ok_or_else(|| {
        ScenarioError::new("there is no [plan] with an objective, such as slo = \"p99<=200us\"")
    })?;
    let rate = scenario.load.rate.ok_or_else(|| {
        ScenarioError::new(
            "key `load.rate`: a plan needs requests a second; a share of the capacity would grow \
             with the cores",
        )
    })?;
    check_classes(scenario, &plan.slo)?;
    let slo: Vec<String> = plan.slo.iter().map(ToString::to_string).collect();
    let impossible = impossible(scenario, rate, &plan.slo)?;
    if !impossible.is_empty() {
        let (each, tried) = (Vec::new(), Vec::new());
        return Ok(Found { slo, rate, best: None, each, impossible, tried });
    }
    let candidates = candidates(scenario);
    let busy = rate * scenario.mean_service_ns()? / 1e9;
    let mut tried = Vec::new();
    let mut best = None;
    let mut each: Vec<Option<Tried>> = vec![None; plan.mechanisms.len()];
    for cores in (busy.floor() as usize + 1)..=plan.max_cores {
        let round: Result<Vec<Tried>, ScenarioError> = candidates
            .par_iter()
            .filter_map(|(policy, mechanism)| {
                let extra = extra_cores(scenario, policy, mechanism);
                let workers = cores.checked_sub(extra).filter(|&w| w as f64 > busy)?;
                Some(try_one(scenario, rate, policy, mechanism, workers, extra, &plan.slo))
            })
            .collect();
        tried.extend(round?);
        progress(cores);
        let here = || tried.iter().filter(|t| t.candidate.cores == cores && t.meets());
        best = best.or_else(|| roomiest(here()));
        for (mechanism, found) in plan.mechanisms.iter().zip(&mut each) {
            let own = here().filter(|t| t.candidate.mechanism == mechanism.name);
            *found = found.take().or_else(|| roomiest(own));
        }
        let all = !plan.each_mechanism || !each.contains(&None);
        if best.is_some() && all {
            break;
        }
    }
    let each = if plan.each_mechanism { each.into_iter().flatten().collect() } else { Vec::new() };
    Ok(Found { slo, rate, best, each, impossible, tried })
}

/// The one with the most room below the limits.
fn roomiest<'a>(of: impl Iterator<Item = &'a Tried>) -> Option<Tried> {
    let room = |t: &&Tried| t.ratio.unwrap_or(f64::INFINITY);
    of.min_by(|a, b| room(a).total_cmp(&room(b))).cloned()
}

/// Which objectives the service times of the very requests that would be simulated miss, and why.
///
/// Percentiles are known to a thousandth, so a limit is missed only beyond that.
fn impossible(scenario: &Scenario, rate: f64, slo: &[Slo]) -> Result<Vec<String>, ScenarioError> {
    let offer = Offer::of(scenario, rate)?;
    let network_us = scenario.load.network.unwrap_or(0) as f64 / 1e3;
    let mut reasons = Vec::new();
    for slo in slo {
        let of = slo.class.as_deref().map_or("all requests".into(), |name| format!("`{name}`"));
        let Some(service) = offer.service_us(slo.class.as_deref()) else {
            return Err(ScenarioError::new(format!(
                "key `plan.slo`: {slo}: none of the {} requests that are counted is of {of}; raise \
                 `load.requests`",
                offer.requests - offer.warm_up
            )));
        };
        let percentile = slo.percentile;
        let least_us = at(&service, percentile) + network_us;
        match slo.limit {
            SloLimit::Slowdown(limit) if limit < 1.0 => {
                reasons.push(format!("{slo}: a slowdown is never below 1"));
            }
            SloLimit::LatencyNs(ns) if least_us > ns as f64 * 1.001 / 1e3 => {
                let with = if network_us > 0.0 { " with the network" } else { "" };
                reasons.push(format!(
                    "{slo}: the service time of {of} alone{with} takes {least_us:.1} us at this \
                     percentile"
                ));
            }
            _ => {}
        }
    }
    Ok(reasons)
}

fn at(values: &Latency, percentile: Percentile) -> f64 {
    match percentile {
        Percentile::P50 => values.p50,
        Percentile::P90 => values.p90,
        Percentile::P99 => values.p99,
        Percentile::P999 => values.p99_9,
        Percentile::Max => values.max,
    }
}

fn check_classes(scenario: &Scenario, slo: &[Slo]) -> Result<(), ScenarioError> {
    let names: Vec<String> = match (&scenario.load.mix, scenario.trace()?) {
        (Some(mix), _) => mix.classes().iter().map(|class| class.name.clone()).collect(),
        (None, Some(trace)) => trace.classes().to_vec(),
        (None, None) => Vec::new(),
    };
    for class in slo.iter().filter_map(|slo| slo.class.as_ref()) {
        if !names.contains(class) {
            return Err(ScenarioError::new(format!(
                "key `plan.slo`: there is no class `{class}`; there are {}",
                names.join(", ")
            )));
        }
    }
    Ok(())
}

/// Every policy with every quantum and mechanism; run to completion once, without a mechanism.
pub fn candidates(scenario: &Scenario) -> Vec<(Spec, Named<Mechanism>)> {
    let Some(plan) = &scenario.plan else { return Vec::new() };
    let own_policy = [scenario.server.policy.clone()];
    let own_mechanism = [scenario.server.mechanism.clone()];
    let policies = if plan.policies.is_empty() { &own_policy[..] } else { &plan.policies };
    let mechanisms = if plan.mechanisms.is_empty() { &own_mechanism[..] } else { &plan.mechanisms };
    let mut all = Vec::new();
    for policy in policies {
        let quanta: Vec<Option<u64>> = match plan.quanta.as_slice() {
            _ if policy.quantum().is_none() => vec![None],
            [] => vec![None],
            quanta => quanta.iter().copied().map(Some).collect(),
        };
        for quantum in quanta {
            let spec = match quantum {
                Some(ns) => policy.clone().rescaled(Some(Duration::from_nanos(ns))),
                None => policy.clone(),
            };
            for mechanism in mechanisms {
                let candidate = (spec.clone(), mechanism.clone());
                if !all.contains(&candidate) {
                    all.push(candidate);
                }
            }
        }
    }
    all
}

/// A core beside the workers.
fn extra_cores(scenario: &Scenario, policy: &Spec, mechanism: &Named<Mechanism>) -> usize {
    let preempts = policy.quantum().is_some_and(|quantum| quantum > Duration::ZERO);
    let timer = preempts && mechanism.value.timer == Timer::Core;
    usize::from(timer || scenario.server.dispatcher)
}

fn try_one(
    scenario: &Scenario,
    rate: f64,
    policy: &Spec,
    mechanism: &Named<Mechanism>,
    workers: usize,
    extra: usize,
    slo: &[Slo],
) -> Result<Tried, ScenarioError> {
    let mut scenario = scenario.clone();
    scenario.server.workers = workers;
    scenario.server.policy = policy.clone();
    scenario.server.mechanism = mechanism.clone();
    let (outcome, _) = simulate(&scenario, rate, &Options::default())?;
    let candidate = Candidate {
        policy: policy.to_string(),
        mechanism: mechanism.name.clone(),
        workers,
        cores: workers + extra,
    };
    Ok(Tried { candidate, ratio: ratio(&outcome, slo) })
}

/// How the outcome compares with the objectives; see [`Tried::ratio`].
pub fn ratio(outcome: &Outcome, slo: &[Slo]) -> Option<f64> {
    if outcome.unstable {
        return None;
    }
    let one = |slo: &Slo| {
        let class = match &slo.class {
            Some(name) => outcome.class(name)?,
            None => &outcome.total,
        };
        let (values, limit) = match slo.limit {
            SloLimit::LatencyNs(ns) => (class.latency_us?, ns as f64 / 1e3),
            SloLimit::Slowdown(limit) => (class.slowdown?, limit),
        };
        Some(at(&values, slo.percentile) / limit)
    };
    slo.iter().map(one).try_fold(0.0, |worst: f64, ratio| Some(worst.max(ratio?)))
}
