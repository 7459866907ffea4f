//! Each body of `conform` becomes a test. The program that includes this says `everywhere`: where
//! a body runs, with the types of `std` (`with_std`) and of `quaver` (`with_quaver`).

use crate::on::On;
use crate::support::{on_runtime, setup::alone};
use quaver::Builder;
use std::time::Duration;

/// Runs a body with the types of both, on kernel threads and on one and two workers, each time
/// after `prepare`.
pub fn run(theirs: fn(On), ours: fn(On), prepare: fn()) {
    for (types, body) in [("std", theirs), ("quaver", ours)] {
        println!("-- {types}, kernel threads");
        alone(|| {
            prepare();
            body(On::Kernel);
        });
        for workers in [1, 2] {
            println!("-- {types}, {workers} workers");
            let quantum = Some(Duration::from_micros(100));
            on_runtime(Builder::new().workers(workers).quantum(quantum), || {
                prepare();
                body(On::User);
            });
        }
    }
}

/// Runs a body on kernel threads and on one and two workers, each time after `prepare`.
pub fn run_in_c(body: fn(On), prepare: fn()) {
    println!("-- kernel threads");
    alone(|| {
        prepare();
        body(On::Kernel);
    });
    for workers in [1, 2] {
        println!("-- {workers} workers");
        let quantum = Some(Duration::from_micros(100));
        on_runtime(Builder::new().workers(workers).quantum(quantum), || {
            prepare();
            body(On::User);
        });
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

/// Those of TCP and UDP.
macro_rules! conform_internet {
    () => {
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
    };
}
