//! Sockets of a stack in user space. The tests of `tests/net` run over it as they are: the stack
//! serves the loopback addresses.

#[macro_use]
#[path = "../net/table.rs"]
mod table;
#[macro_use]
#[path = "../net/c/mod.rs"]
mod c;

mod calls;
mod in_memory;
#[path = "../net/on.rs"]
mod on;
#[path = "../support/mod.rs"]
mod support;
#[allow(clippy::duplicate_mod, dead_code, reason = "with other types; not those of Unix sockets")]
#[path = "../net/with_quaver.rs"]
mod with_quaver;
#[allow(dead_code, reason = "not those of Unix sockets")]
#[path = "../net/with_std.rs"]
mod with_std;

use in_memory::InMemory;
use on::On;
use quaver::net::stack;
use std::sync::{Arc, Once};

/// Installs the stack, for good.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::mem::forget(stack::install(Arc::new(InMemory::new())).unwrap());
    });
}

fn everywhere(theirs: fn(On), ours: fn(On)) {
    table::run(theirs, ours, install);
}

/// Where tests have their servers.
const HOST: &str = "127.0.0.1";

fn everywhere_in_c(body: fn(On)) {
    table::run_in_c(body, install);
}

c_tests_of_internet! {}
conform_internet! {}
