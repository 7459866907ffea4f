//! What time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A clock: the system's, or one that a test moves. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Real(Instant),
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// The monotonic clock of the system.
    pub fn real() -> Clock {
        Clock(Kind::Real(Instant::now()))
    }

    /// A clock that stands still until somebody [moves](Clock::advance) it.
    pub fn simulated() -> Clock {
        Clock(Kind::Simulated(Arc::default()))
    }

    /// Is it moved by hand?
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, Kind::Simulated(_))
    }

    /// Microseconds since it was made.
    pub fn now(&self) -> u64 {
        match &self.0 {
            Kind::Real(start) => start.elapsed().as_micros() as u64,
            Kind::Simulated(now) => now.load(Relaxed),
        }
    }

    /// The moment that is so many microseconds after the clock was made; `None` of a simulated one.
    pub fn instant(&self, micros: u64) -> Option<Instant> {
        match &self.0 {
            Kind::Real(start) => start.checked_add(Duration::from_micros(micros)),
            Kind::Simulated(_) => None,
        }
    }

    /// Moves a simulated clock.
    ///
    /// # Panics
    ///
    /// If the clock is the system's.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Kind::Real(_) => panic!("the system's clock cannot be moved"),
            Kind::Simulated(now) => now.fetch_add(by.as_micros() as u64, Relaxed),
        };
    }

    /// Moves a simulated clock to a later time in microseconds; an earlier one changes nothing.
    ///
    /// # Panics
    ///
    /// If the clock is the system's.
    pub fn advance_to(&self, micros: u64) {
        match &self.0 {
            Kind::Real(_) => panic!("the system's clock cannot be moved"),
            Kind::Simulated(now) => now.fetch_max(micros, Relaxed),
        };
    }
}
