//! Sockets of a stack in user space. The tests of `tests/net` run over it as they are: the stack
//! serves the loopback addresses.

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
use quaver::Builder;
use quaver::net::stack;
use std::sync::{Arc, Once};
use std::time::Duration;
use support::{on_runtime, setup::alone};

/// Installs the stack, for good.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::mem::forget(stack::install(Arc::new(InMemory::new())).unwrap());
    });
}

/// Runs a body with the types of both, on kernel threads and on one and two workers.
fn everywhere(theirs: fn(On), ours: fn(On)) {
    for (types, body) in [("std", theirs), ("quaver", ours)] {
        println!("-- {types}, kernel threads");
        alone(|| {
            install();
            body(On::Kernel);
        });
        for workers in [1, 2] {
            println!("-- {types}, {workers} workers");
            let quantum = Some(Duration::from_micros(100));
            on_runtime(Builder::new().workers(workers).quantum(quantum), || {
                install();
                body(On::User);
            });
        }
    }
}

macro_rules! conform {
    ($($module:ident: $($name:ident)+;)+) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $name() {
                        use crate::{everywhere, with_quaver as ours, with_std as theirs};
                        let theirs = theirs::conform::$module::$name;
                        everywhere(theirs, ours::conform::$module::$name);
                    }
                )+
            }
        )+
    };
}

conform! {
    tcp:
        echo
        much_data_in_both_directions
        vectors
        peeking
        the_end_right_behind_the_data
        halves_are_shut_down
        shutting_down_ends_waits
        a_reset
        options;
    connecting:
        refused
        the_first_address_that_answers
        by_name
        within_a_time
        no_time_is_an_error
        not_within_the_time
        version_6;
    servers:
        two_hundred_connections
        many_acceptors
        a_listener_that_does_not_wait
        a_clone_is_dropped_while_the_other_waits
        several_threads_use_one_stream;
    waiting:
        reads_time_out
        writes_time_out
        a_timeout_is_for_each_call
        timeouts_as_options
        clones_share_how_they_wait
        streams_that_do_not_wait
        a_shutdown_ends_waits;
    udp:
        datagrams
        connected
        cut_off_and_peeked
        nobody_listens
        times
        each_is_received_once
        options;
}
