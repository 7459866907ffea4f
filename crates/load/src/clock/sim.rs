//! A clock for tests and simulations: time passes only when somebody waits, and then at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::Clock;

type Action<'a> = Box<dyn FnOnce(&SimClock<'a>) + 'a>;

/// A simulated clock with a list of future events.
///
/// A wait moves the time forward, through every event that is due until then, in the order of their
/// times and, for equal times, of their registration. So a simulated server completes its requests
/// while the generator waits for the next send, and every run is the same.
///
/// ```
/// use quaver_load::{Clock, SimClock};
///
/// let seen = std::cell::Cell::new(0);
/// let clock = SimClock::new();
/// clock.at(5, |clock| seen.set(clock.now_ns()));
/// clock.wait_until(10);
/// assert_eq!((seen.get(), clock.now_ns()), (5, 10));
/// ```
#[derive(Default)]
pub struct SimClock<'a> {
    now_ns: Cell<u64>,
    registered: Cell<u64>,
    events: RefCell<BTreeMap<(u64, u64), Action<'a>>>,
}

impl<'a> SimClock<'a> {
    /// A clock at 0 without events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `action` run when the clock reaches `time_ns`: during the wait that gets there, or for a
    /// time that has passed during the next wait.
    pub fn at(&self, time_ns: u64, action: impl FnOnce(&SimClock<'a>) + 'a) {
        let number = self.registered.get();
        self.registered.set(number + 1);
        self.events.borrow_mut().insert((time_ns, number), Box::new(action));
    }

    /// Lets a span pass, as if the caller had been busy or blocked for so long.
    pub fn advance(&self, span_ns: u64) {
        self.wait_until(self.now_ns.get().saturating_add(span_ns));
    }

    /// Runs all events, also those that events register.
    pub fn run_to_end(&self) {
        while let Some(time_ns) = self.next_event_ns() {
            self.wait_until(time_ns.max(self.now_ns.get()));
        }
    }

    /// When the next event is due, if there is one.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.events.borrow().first_key_value().map(|(&(time_ns, _), _)| time_ns)
    }
}

impl Clock for SimClock<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn wait_until(&self, time_ns: u64) {
        while self.next_event_ns().is_some_and(|next| next <= time_ns) {
            let event = self.events.borrow_mut().pop_first();
            if let Some(((due, _), action)) = event {
                self.now_ns.set(self.now_ns.get().max(due));
                action(self);
            }
        }
        self.now_ns.set(self.now_ns.get().max(time_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_and_may_make_more() {
        let log = RefCell::new(Vec::new());
        let log = &log;
        let clock = SimClock::new();
        for (time, name) in [(30, "c"), (10, "a"), (30, "d"), (20, "b")] {
            clock.at(time, move |clock| log.borrow_mut().push((clock.now_ns(), name)));
        }
        clock.at(10, move |clock| {
            clock.at(15, move |clock| log.borrow_mut().push((clock.now_ns(), "nested")));
        });
        clock.wait_until(25);
        assert_eq!(*log.borrow(), [(10, "a"), (15, "nested"), (20, "b")]);
        clock.run_to_end();
        assert_eq!(log.borrow()[3..], [(30, "c"), (30, "d")]);
        assert_eq!(clock.now_ns(), 30);
    }

    #[test]
    fn time_does_not_go_back() {
        let clock = SimClock::new();
        clock.advance(100);
        clock.wait_until(50);
        assert_eq!(clock.now_ns(), 100);
        let seen = Cell::new(0);
        let clock = SimClock::new();
        clock.advance(100);
        clock.at(50, |clock| seen.set(clock.now_ns()));
        clock.wait_until(100);
        assert_eq!(seen.get(), 100);
    }
}
