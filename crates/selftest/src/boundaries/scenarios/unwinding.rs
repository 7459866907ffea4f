//! Panics.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use std::panic::{catch_unwind, resume_unwind};

pub(super) const ALL: &[Scenario] = &[
    Scenario::plain("unwind", unwind),
    Scenario::plain("panic", panic),
    Scenario::new("panic-thread", panic_thread),
];

struct Order<'a>(&'a mut u64, u64);

impl Drop for Order<'_> {
    fn drop(&mut self) {
        *self.0 = mix(*self.0, self.1 + u64::from(std::thread::panicking()));
    }
}

#[inline(never)]
fn descend(depth: u64, sum: &mut u64) {
    let order = Order(sum, depth);
    if depth == 0 {
        resume_unwind(Box::new(17u64));
    }
    descend(depth - 1, order.0);
}

fn unwind() -> u64 {
    let mut sum = 1;
    let caught = step(|| {
        let sum = std::panic::AssertUnwindSafe(&mut sum);
        catch_unwind(move || {
            let sum = sum;
            descend(2, sum.0);
        })
    });
    let payload = caught.err().and_then(|p| p.downcast_ref::<u64>().copied());
    mix(sum, payload.unwrap_or(0))
}

/// With its message and the hook.
fn panic() -> u64 {
    let caught = step(|| catch_unwind(|| panic!("(expected) {}", 5)));
    caught.err().and_then(|p| p.downcast_ref::<String>().map(|s| s.len() as u64)).unwrap_or(0)
}

/// Caught by the runtime.
fn panic_thread() -> u64 {
    let result = step(|| quaver::spawn(|| resume_unwind(Box::new(9u64))).join());
    result.map_or_else(|p| p.downcast_ref::<u64>().copied().unwrap_or(0), |()| 0)
}
