//! Until when a call waits.

use std::time::{Duration, Instant};

/// A moment at which a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The moment `span` from now.
    pub fn after(span: Duration) -> Deadline {
        let now = Instant::now();
        // Nobody waits for a century.
        Deadline(now.checked_add(span).unwrap_or(now + Duration::from_secs(100 * 365 * 86_400)))
    }

    /// How far away it is; zero if it is over.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn at(self) -> Instant {
        self.0
    }
}
