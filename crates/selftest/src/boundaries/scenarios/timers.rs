//! Sleeping, and waits that end by time or just before it.

use super::Scenario;
use crate::boundaries::stepper::step;
use quaver::sync::{Condvar, Mutex, mpsc};
use std::time::Duration;

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("sleep", sleep),
    Scenario::new("std-sleep", std_sleep),
    Scenario::new("wait-timeout", wait_timeout),
    Scenario::new("wait-in-time", wait_in_time),
];

fn sleep() -> u64 {
    step(|| quaver::sleep(Duration::from_nanos(1)));
    1
}

fn std_sleep() -> u64 {
    step(|| std::thread::sleep(Duration::from_nanos(1)));
    1
}

fn wait_timeout() -> u64 {
    let (never, changed) = (Mutex::new(false), Condvar::new());
    let timed_out = step(|| {
        let value = never.lock().unwrap();
        changed.wait_timeout_while(value, Duration::from_micros(1), |v| !*v).unwrap().1.timed_out()
    });
    u64::from(timed_out)
}

/// The timer is cancelled.
fn wait_in_time() -> u64 {
    let (tx, rx) = mpsc::channel();
    let sender = quaver::spawn(move || {
        quaver::yield_now();
        tx.send(5u64).is_ok()
    });
    let value = step(|| rx.recv_timeout(Duration::from_secs(3600)).unwrap_or(0));
    value + u64::from(sender.join().unwrap_or(false))
}
