//! Starting, joining and ending user threads, on every kind of runtime.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod ends;
mod handles;
mod kernel;
mod many;
mod panics;
mod results;
mod scopes;
mod select;
mod shutdown;
mod stacks;
#[path = "../support/mod.rs"]
mod support;

use quaver::Builder;
use support::{child, full};

/// One worker, nothing ever preempted: what happens next is known.
fn cooperative() -> Builder {
    Builder::new().workers(1).quantum(None)
}

/// Waits, without stopping others, until `done` says so.
fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..200_000_000u64 {
        if done() {
            return;
        }
        quaver::yield_now();
    }
    panic!("never done");
}

/// In the long form: the tests `preempt` and `tls` do this in the quick one.
#[test]
fn without_fsgsbase() {
    if full() && child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}
