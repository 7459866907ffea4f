//! What belongs to a thread stays with it: `thread_local!`, `errno`, malloc's caches, locales,
//! keys, panics. Under preemption, on stacks that are used again, and when a thread moves between
//! kernel threads.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod c_state;
mod destructors;
mod kernel;
mod keys;
mod malloc;
mod std_state;
#[path = "../support/mod.rs"]
mod support;
mod variables;

use std::cell::{Cell, RefCell};
use support::child;

thread_local! {
    static CONST: Cell<u32> = const { Cell::new(7) };
    static LAZY: RefCell<Vec<u64>> = RefCell::new(vec![1, 2, 3]);
    static BIG: RefCell<[u8; 1000]> = const { RefCell::new([9; 1000]) };
}

#[test]
fn without_fsgsbase() {
    if child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}
