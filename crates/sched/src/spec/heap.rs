//! In place of `seat`, without the standard library: policies lie on the heap.

use alloc::boxed::Box;

use crate::Policy;

/// Where to put a policy.
#[derive(Clone, Copy)]
pub(super) enum Site {
    Heap,
}

/// A policy that was made.
pub(super) struct Seat(Box<dyn Policy>);

impl Site {
    pub(super) fn seat<P: Policy + 'static>(self, make: impl FnOnce() -> P) -> Seat {
        Seat(Box::new(make()))
    }
}

impl Seat {
    pub(super) fn boxed(self) -> Box<dyn Policy> {
        self.0
    }
}
