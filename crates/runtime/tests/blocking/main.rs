//! Threads that wait in the kernel, or for locks that wait there: others go on meanwhile, even on
//! one worker, and even if what is waited for is held by a thread that was preempted.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod c_locks;
mod calls;
mod contend;
mod in_place;
mod limit;
mod page_faults;
mod printing;
mod shutdown;
mod slow_file;
mod std_locks;
#[path = "../support/mod.rs"]
mod support;
mod time;

use printing::print;
use support::{child, full};

#[test]
fn the_child() {
    if let Some("print") = child::role().as_deref() {
        print();
    }
}

/// In the long form: the tests `preempt` and `tls` do this in the quick one.
#[test]
fn without_fsgsbase() {
    if full() && child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}
