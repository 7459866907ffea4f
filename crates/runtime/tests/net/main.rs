//! Sockets. Those of `quaver::net` do what `std`'s do: the tests in `conform` are compiled with
//! both, and run on kernel threads and on user threads.

#[macro_use]
mod table;
#[macro_use]
mod c;

mod calls;
mod on;
mod own;
mod pollable;
#[path = "../support/mod.rs"]
mod support;
#[allow(clippy::duplicate_mod, reason = "with other types")]
mod with_quaver;
mod with_std;

use on::On;
use support::{Setup, full};

fn everywhere(theirs: fn(On), ours: fn(On)) {
    table::run(theirs, ours, || {});
    if full() {
        Setup::all_clocks().iter().for_each(|setup| setup.run(|| ours(On::User)));
    }
}

/// Where tests have their servers.
const HOST: &str = "127.0.0.1";

fn everywhere_in_c(body: fn(On)) {
    table::run_in_c(body, || {});
}

c_tests_of_internet! {}
conform_internet! {}
conform! {
    unix:
        a_pair
        paths
        abstract_names
        wrong_addresses
        a_full_queue
        times;
    unix_datagrams:
        between_paths
        a_pair
        the_receiver_is_full
        the_peer_is_full
        the_receiver_goes_away
        full_and_no_time;
}
