//! Preemption: threads do not notice it, waiting work always profits from it, regions are
//! respected.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod extension;
mod handlers;
mod regions;
mod requests;
mod results;
mod state;
#[path = "../support/mod.rs"]
mod support;
mod three;
mod turns;

use support::child;

#[test]
fn without_fsgsbase() {
    if child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}
