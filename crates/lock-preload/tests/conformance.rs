//! The same program natively and with the library prints the same lines.

mod support;

use std::process::Command;
use support::{preloaded, program, said};

fn compare(name: &str, least: usize) {
    let Some(program) = program(name) else { return };
    let native = said(&mut Command::new(&program));
    let ours = said(&mut preloaded(&program, None));
    for (n, (native, ours)) in native.lines().zip(ours.lines()).enumerate() {
        assert_eq!(native, ours, "{name}, line {}", n + 1);
    }
    assert_eq!(native.lines().count(), ours.lines().count(), "{name}");
    assert!(native.lines().count() >= least, "{name} says {} lines", native.lines().count());
}

#[test]
fn mutexes() {
    compare("mutexes", 1500);
}

#[test]
fn conditions() {
    compare("conditions", 40);
    compare("conditions.unwound", 40);
}

#[test]
fn read_write_locks_spinlocks_barriers_once() {
    compare("others", 400);
}
