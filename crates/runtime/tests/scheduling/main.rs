//! Who runs when, and on which CPU: policies, clocks, shares, what preemptions may cost.

mod clock;
mod fairness;
mod hosts;
mod lock_fairness;
mod placement;
#[path = "../support/mod.rs"]
mod support;
mod tax;
