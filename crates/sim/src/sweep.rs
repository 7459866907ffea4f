//! Many runs at once, on all cores.

use rayon::prelude::*;

use crate::{Options, Outcome, Scenario, ScenarioError, simulate};

/// Simulate the scenario at each of its rates, in parallel; `progress` is told of each run that is
/// done. The order of the outcomes is that of the rates, and does not depend on the number of
/// cores.
///
/// # Errors
///
/// As [`simulate`].
pub fn sweep(
    scenario: &Scenario,
    rates: &[f64],
    options: &Options,
    progress: impl Fn(&Outcome) + Sync,
) -> Result<Vec<Outcome>, ScenarioError> {
    rates
        .par_iter()
        .map(|&rate| {
            let (outcome, _) = simulate(scenario, rate, options)?;
            progress(&outcome);
            Ok(outcome)
        })
        .collect()
}
