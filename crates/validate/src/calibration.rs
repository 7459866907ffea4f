//! What rounds show of prices: how late preemptions came, what they, wake-ups and requests took,
//! and how fast the worker is.
//!
//! [`prices`](super::prices) measures the same beforehand, while nothing else happens. Among
//! requests it differs: the clock's thread has competition for its CPU, a worker sleeps less deeply
//! than between the pauses there; and a virtual machine has fast and slow minutes. What rounds have
//! shown counts, as far as they have shown it.

use quaver_sim::Delay;

use super::lateness::Lateness;
use super::median;
use super::prices::Prices;
use super::spans::is_usual;
use super::stops::{PIECE, Seen};

/// What one round has shown, or several.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Calibration {
    /// How late preemptions came.
    pub late: Lateness,
    /// What they and wake-ups took.
    pub seen: Seen,
}

impl Calibration {
    /// Of all these rounds.
    pub fn of<'a>(rounds: impl Iterator<Item = &'a Calibration>) -> Calibration {
        rounds.fold(Calibration::default(), |mut all, round| {
            let Calibration { late, seen } = round;
            all.late.clock.extend(&late.clock);
            all.late.bringer.extend(&late.bringer);
            all.seen.gaps.extend(&seen.gaps);
            all.seen.looks.extend(&seen.looks);
            all.seen.starts.extend(&seen.starts);
            all.seen.waits.extend(&seen.waits);
            all.seen.resumptions.extend(&seen.resumptions);
            all.seen.entries.extend(&seen.entries);
            all.seen.took_ns += seen.took_ns;
            all.seen.should_ns += seen.should_ns;
            all
        })
    }

    /// By how much work takes longer than the speed that was measured before says.
    pub fn pace(&self) -> f64 {
        let Seen { took_ns, should_ns, .. } = self.seen;
        if should_ns == 0 { 1.0 } else { took_ns as f64 / should_ns as f64 }
    }

    /// The prices, with what is known better from here.
    pub fn in_place_of(self, prices: &Prices) -> Prices {
        let mut prices = prices.clone();
        // Of a first turn, and of one after a preemption.
        let first = median(self.seen.waits.iter().copied()).unwrap_or(prices.request_ns);
        let again = median(self.seen.resumptions.iter().copied()).unwrap_or(first).min(first);
        if !self.seen.waits.is_empty() {
            let cold = median(self.seen.entries.iter().copied()).unwrap_or(0);
            (prices.turn_ns, prices.entry_ns) = (again, first - again + cold);
        }
        let Lateness { mut clock, mut bringer } = self.late;
        bringer.iter_mut().for_each(|ns| *ns = ns.saturating_sub(prices.send_ns));
        let delivered = median(bringer.iter().copied());
        let delivered = delivered.unwrap_or(prices.deliver.mean_ns() as u64);
        if !clock.is_empty() {
            let mut wake: Vec<_> = clock.iter().map(|ns| ns.saturating_sub(delivered)).collect();
            prices.wake = Delay::measured(&mut wake);
            prices.late = Delay::measured(&mut clock);
        }
        if !bringer.is_empty() {
            prices.deliver = Delay::measured(&mut bringer);
        }
        // A gap begins with the last reading of the clock, on average half a piece before its turn
        // ended. It ends, as a start does, with what is paid before a first turn.
        let unseen = PIECE.as_nanos() as u64 / 2;
        if let Some(gaps) = usual(&self.seen.gaps, unseen + first) {
            prices.preemption = gaps;
        }
        if let Some(looks) = usual(&self.seen.looks, 0) {
            prices.look = looks;
        }
        if let Some(starts) = usual(&self.seen.starts, prices.send_ns + first) {
            prices.start = starts;
        }
        prices
    }
}

/// The distribution of what is no stop, each less by so much; `None` if there is nothing.
fn usual(values: &[u64], less: u64) -> Option<Delay> {
    let middle = median(values.iter().copied())?;
    let usual = values.iter().filter(|&&ns| is_usual(ns, middle));
    Some(Delay::measured(&mut usual.map(|ns| ns.saturating_sub(less)).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(delay: &Delay) -> u64 {
        delay.mean_ns().round() as u64
    }

    #[test]
    fn what_was_not_seen_stays_as_it_was() {
        let mut prices = Prices::none();
        prices.deliver = Delay::Fixed(7_000);
        let late = |clock: &[u64], bringer: &[u64]| {
            let late = Lateness { clock: clock.to_vec(), bringer: bringer.to_vec() };
            let all = Calibration { late, seen: Seen::default() };
            let Prices { late, wake, deliver, .. } = all.in_place_of(&prices);
            [late, wake, deliver].each_ref().map(mean)
        };
        assert_eq!(late(&[], &[]), [0, 0, 7_000]);
        assert_eq!(late(&[20_000; 3], &[]), [20_000, 13_000, 7_000]);
        assert_eq!(late(&[20_000; 3], &[5_000; 3]), [20_000, 15_000, 5_000]);
    }

    #[test]
    fn what_is_a_stop_is_no_price() {
        let mut prices = Prices::none();
        prices.send_ns = 1_000;
        let (gaps, looks) = (vec![12_000, 12_000, 900_000], vec![7_000, 700_000, 7_000]);
        let starts = vec![31_000; 2];
        let waits = vec![2_000, 2_000, 90_000];
        let (resumptions, entries) = (vec![1_500; 3], vec![700; 3]);
        let (took_ns, should_ns) = (3_000, 2_000);
        let seen = Seen { gaps, looks, starts, waits, resumptions, entries, took_ns, should_ns };
        let one = Calibration { late: Lateness::default(), seen };
        let both = Calibration::of([&one, &one].into_iter());
        assert_eq!([both.seen.gaps.len(), both.seen.starts.len()], [6, 4]);
        assert_eq!([both.pace(), Calibration::default().pace()], [1.5, 1.0]);
        let Prices { preemption, look, start, turn_ns, entry_ns, .. } = both.in_place_of(&prices);
        assert_eq!([&preemption, &look, &start].map(mean), [8_000, 7_000, 28_000]);
        assert_eq!([turn_ns, entry_ns], [1_500, 1_200]);
    }
}
