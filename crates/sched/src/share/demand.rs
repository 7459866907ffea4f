//! When a latency-critical application takes another core.

use crate::Time;

/// What an application has and wants, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cores {
    /// Cores that it has.
    pub held: usize,
    /// Cores on their way to it: taken, but its worker does not run there yet.
    pub coming: usize,
    /// Pieces of work that wait for a core.
    pub waiting: usize,
    /// Since when the oldest of them has waited.
    pub oldest: Time,
}

/// When the application must take another core; `None`: not before something changes.
///
/// The first core is taken at once: nobody else will come for the work. Another one is taken when
/// the oldest piece has waited for longer than `delay`, because one that waits less is served
/// sooner by a core that the application has than by one that it must get first. (Shenango's
/// congestion, Skyloft 5.2.) Each piece that waits has one core on its way at most. The answer may
/// lie in the past: take it now.
pub fn take_at(cores: &Cores, delay: Time) -> Option<Time> {
    if cores.waiting <= cores.coming {
        return None;
    }
    let first = cores.held + cores.coming == 0;
    Some(if first { cores.oldest } else { cores.oldest.saturating_add(delay) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_core_is_taken_at_once_and_others_after_the_bound() {
        let none = Cores { waiting: 1, oldest: 100, ..Cores::default() };
        assert_eq!(take_at(&none, 5), Some(100));
        assert_eq!(take_at(&Cores { held: 1, ..none }, 5), Some(105));
        // It may be a long time ago, and at the end of time.
        assert_eq!(take_at(&Cores { held: 3, oldest: 0, ..none }, 0), Some(0));
        assert_eq!(take_at(&Cores { held: 1, ..none }, Time::MAX), Some(Time::MAX));
    }

    #[test]
    fn no_more_cores_come_than_pieces_wait() {
        assert_eq!(take_at(&Cores::default(), 5), None);
        let one = Cores { coming: 1, waiting: 1, ..Cores::default() };
        assert_eq!(take_at(&one, 5), None);
        assert_eq!(take_at(&Cores { waiting: 2, ..one }, 5), Some(5));
    }
}
