//! How late preemptions came among the requests of a round.
//!
//! A turn must end when its quantum is used up and something new waits. Whichever comes last says
//! who ends it: the clock, or who brings the work. What the turn lasted beyond that moment is how
//! late it was ended, but for stops of the worker in that time, which are told to the simulator
//! themselves. Turns beside which only threads wait that were preempted before say nothing: theirs
//! is a longer quantum.
//!
//! [`prices`](super::prices) measures the same beforehand, between two threads and under a client
//! that has nothing else to do. The clock's thread has other competition for its CPU while requests
//! are sent.

use quaver_sim::Delay;

use super::prices::Prices;
use super::real::Answer;
use super::stops::Stops;

/// In nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Of the clock.
    pub clock: Vec<u64>,
    /// Of who brings work.
    pub bringer: Vec<u64>,
}

impl Lateness {
    /// Of turns that were preempted, under this quantum.
    pub fn of(
        turns: &[(u64, u64)],
        quantum_ns: u64,
        answers: &[Answer],
        stops: &Stops,
    ) -> Lateness {
        let mut sent: Vec<_> = answers.iter().map(|a| a.request.intended_ns).collect();
        let mut ended: Vec<_> =
            answers.iter().map(|a| a.request.intended_ns + a.latency_ns).collect();
        sent.sort_unstable();
        ended.sort_unstable();
        let until = |times: &[u64], at: u64| times.partition_point(|&time| time <= at);
        let mut late = Lateness::default();
        for &(from, to) in turns {
            let used_up = from + quantum_ns;
            let came = until(&sent, used_up);
            // The one whose turn it is has not ended.
            let waits = came > until(&ended, used_up) + 1;
            let new = came > until(&sent, from);
            let (due, values) = match (waits, sent.get(came)) {
                (true, _) if new => (used_up, &mut late.clock),
                (false, Some(&next)) => (next, &mut late.bringer),
                _ => continue,
            };
            // It ended before it was due as seen from here, where the clocks of two CPUs are
            // compared.
            let Some(time) = to.checked_sub(due) else { continue };
            values.push(time.saturating_sub(stops.between(due, to)));
        }
        late
    }

    /// The prices with this lateness, as far as it is known.
    pub fn in_place_of(self, prices: &Prices) -> Prices {
        let mut prices = prices.clone();
        let Lateness { mut clock, mut bringer } = self;
        bringer.sort_unstable();
        let delivered = bringer.get(bringer.len() / 2).copied();
        let delivered = delivered.unwrap_or(prices.deliver.mean_ns() as u64);
        if !clock.is_empty() {
            let mut wake: Vec<_> = clock.iter().map(|ns| ns.saturating_sub(delivered)).collect();
            prices.wake = Delay::measured(&mut wake);
            prices.late = Delay::measured(&mut clock);
        }
        if !bringer.is_empty() {
            prices.deliver = Delay::measured(&mut bringer);
        }
        prices
    }
}

#[cfg(test)]
mod tests {
    use super::super::stops::Stop;
    use super::*;
    use quaver_load::Request;

    fn answers(times: &[(u64, u64)]) -> Vec<Answer> {
        let answer = |&(sent, ended): &(u64, u64)| Answer {
            request: Request {
                id: 0,
                intended_ns: sent,
                class: 0,
                service_ns: 1,
                key_random: 0,
                warm_up: false,
            },
            latency_ns: ended - sent,
        };
        times.iter().map(answer).collect()
    }

    #[test]
    fn what_was_not_seen_stays_as_it_was() {
        let mut prices = Prices::none();
        prices.deliver = Delay::Fixed(7_000);
        let late = |clock: &[u64], bringer: &[u64]| {
            let late = Lateness { clock: clock.to_vec(), bringer: bringer.to_vec() };
            let Prices { late, wake, deliver, .. } = late.in_place_of(&prices);
            [late, wake, deliver].map(|delay| delay.mean_ns().round() as u64)
        };
        assert_eq!(late(&[], &[]), [0, 0, 7_000]);
        assert_eq!(late(&[20_000; 3], &[]), [20_000, 13_000, 7_000]);
        assert_eq!(late(&[20_000; 3], &[5_000; 3]), [20_000, 15_000, 5_000]);
    }

    #[test]
    fn a_turn_is_late_from_when_it_was_due() {
        let all = answers(&[(0, 900), (50, 200), (500, 600), (1_000, 1_200)]);
        let of = |turns: &[(u64, u64)], stops: &[Stop]| {
            let stops = Stops { watched_ns: 0, all: stops.to_vec() };
            Lateness::of(turns, 100, &all, &stops)
        };
        let lateness = |clock: &[u64], bringer: &[u64]| Lateness {
            clock: clock.to_vec(),
            bringer: bringer.to_vec(),
        };
        // The second request waits already when the quantum of the first ends at 110.
        assert_eq!(of(&[(10, 150)], &[]), lateness(&[40], &[]));
        // Nothing waits at 310: the third brings it at 500.
        assert_eq!(of(&[(210, 505)], &[]), lateness(&[], &[5]));
        // The worker was stopped meanwhile, and at another time.
        let stops = [Stop { at_ns: 20, ns: 30 }, Stop { at_ns: 115, ns: 25 }];
        assert_eq!(of(&[(10, 150)], &stops), lateness(&[15], &[]));
        // Only one waits that was there before: it has been preempted, or this turn's quantum is a
        // long one.
        assert_eq!(of(&[(60, 180)], &[]), lateness(&[], &[]));
        // A turn that was given up early, and one beside which nothing ever waits.
        assert_eq!(of(&[(10, 50), (1_100, 1_300)], &[]), lateness(&[], &[]));
    }
}
