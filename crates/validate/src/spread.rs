//! Stops for a prediction, from those that another round has seen.
//!
//! Only requests see a stop, so a round knows nothing of the stops while its worker had nothing to
//! do. Short ones come all the time, and as often then: as many as came in a second of watching are
//! drawn from those that were seen, at random times of the whole round. Each round has its own,
//! for a machine has calm and busy times. Long ones are few, and whoever waits for a sleeping
//! worker sees them, too: they stay where they were.

use std::time::Duration;

use quaver_sched::random::splitmix64;

use super::ORDINARY;
use super::stops::{Stop, Stops};

/// The stops of a round that lasts `span`, beside one that has seen these. The same `seed` draws
/// the same.
pub fn spread(seen: &Stops, span: Duration, seed: u64) -> Stops {
    let ordinary = ORDINARY.as_nanos() as u64;
    let (short, mut all): (Vec<Stop>, Vec<Stop>) =
        seen.all.iter().partition(|stop| stop.ns <= ordinary);
    let mut state = seed;
    let mut below =
        |bound: u64| ((u128::from(splitmix64(&mut state)) * u128::from(bound)) >> 64) as u64;
    let span_ns = span.as_nanos() as u64;
    let count = short.len() as u64 * span_ns / seen.watched_ns.max(1);
    all.extend((0..count).map(|_| {
        let ns = short[below(short.len() as u64) as usize].ns;
        Stop { at_ns: below(span_ns), ns }
    }));
    all.sort_unstable();
    Stops { watched_ns: seen.watched_ns, all }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(100);

    #[test]
    fn short_ones_come_as_often_while_nobody_looks() {
        // A quarter of the time was watched.
        let all = (0..1_000).map(|i| Stop { at_ns: i * 25_000, ns: 5_000 + i }).collect();
        let long = Stop { at_ns: 60_000_000, ns: 300_000 };
        let mut stops = Stops { watched_ns: 25_000_000, all };
        let again = spread(&stops, SPAN, 1).all;
        assert_eq!(again.len(), 4_000);
        assert!(again.is_sorted() && again.iter().all(|s| (5_000..6_000).contains(&s.ns)));
        let late = again.iter().filter(|s| s.at_ns >= 50_000_000).count();
        assert!((1_800..2_200).contains(&late), "{late}");
        assert_eq!(spread(&stops, SPAN, 1).all, again);
        assert_ne!(spread(&stops, SPAN, 2).all, again);
        // A long one stays what it was.
        stops.all.push(long);
        let again = spread(&stops, SPAN, 1).all;
        assert_eq!(again.iter().filter(|s| s.ns == 300_000).collect::<Vec<_>>(), [&long]);
        assert_eq!(again.len(), 4_001);
    }

    #[test]
    fn where_nothing_was_seen_nothing_comes() {
        assert_eq!(spread(&Stops::default(), SPAN, 1), Stops::default());
    }
}
