//! How late preemptions came among the requests of a round.
//!
//! A turn must end when its quantum is used up and something new waits. Whichever comes last says
//! who ends it: the clock, or who brings the work. What the turn lasted beyond that moment is how
//! late it was ended, but for stops of the worker in that time, which are told to the simulator
//! themselves. Turns beside which only threads wait that were preempted before say nothing: theirs
//! is a longer quantum. Nor do those whose new work came in the second half of the quantum: the
//! clock's thread may have been woken for it, and be less late than one that sleeps until then. Nor
//! does the clock look on time ([`Pace`]) unless a request was preempted twice in a row a short
//! while before.

use quaver_sched::clock::Pace;

use super::real::Answer;
use super::stops::{PIECE, Stops};

/// In nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Of the clock.
    pub clock: Vec<u64>,
    /// Of who brings work.
    pub bringer: Vec<u64>,
}

impl Lateness {
    /// Of turns that were preempted, under this quantum. `again`: those that ended with a second
    /// preemption in a row.
    pub fn of(
        turns: &[(u64, u64)],
        again: &[(u64, u64)],
        quantum_ns: u64,
        answers: &[Answer],
        stops: &Stops,
    ) -> Lateness {
        let mut sent: Vec<_> = answers.iter().map(|a| a.request.intended_ns).collect();
        let mut ended: Vec<_> =
            answers.iter().map(|a| a.request.intended_ns + a.latency_ns).collect();
        let mut long: Vec<_> = again.iter().map(|turn| turn.1).collect();
        sent.sort_unstable();
        ended.sort_unstable();
        long.sort_unstable();
        let [calm, most] = [Pace::CALM, Pace::MOST].map(|span| span.as_nanos() as u64);
        let until = |times: &[u64], at: u64| times.partition_point(|&time| time <= at);
        // It ended after its last reading of the clock, on average by half a piece.
        let unseen = PIECE.as_nanos() as u64 / 2;
        let mut late = Lateness::default();
        for &(from, to) in turns {
            let used_up = from + quantum_ns;
            let came = until(&sent, used_up);
            // The one whose turn it is has not ended.
            let waits = came > until(&ended, used_up) + 1;
            let early = until(&sent, used_up - quantum_ns / 2);
            let new = early > until(&sent, from);
            // What a clock has planned while it was not on time is over after the longest delay.
            let on_time = until(&long, from.saturating_sub(most))
                > until(&long, (used_up + most).saturating_sub(calm));
            let (due, values) = match (waits, sent.get(came)) {
                (true, _) if new && on_time => (used_up, &mut late.clock),
                (false, Some(&next)) => (next, &mut late.bringer),
                _ => continue,
            };
            // It ended before it was due as seen from here, where the clocks of two CPUs are
            // compared.
            let to = to + unseen;
            let Some(time) = to.checked_sub(due) else { continue };
            values.push(time.saturating_sub(stops.between(due, to)));
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use super::super::stops::Stop;
    use super::*;
    use quaver_load::Request;

    const BEGIN: u64 = 50_000;

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
    fn a_turn_is_late_from_when_it_was_due() {
        // Long after the beginning.
        let us = |(from, to): (u64, u64)| (1_000 * (BEGIN + from), 1_000 * (BEGIN + to));
        let all = answers(&[(0, 900), (50, 200), (500, 600), (1_000, 1_200)].map(us));
        let of = |turns: &[(u64, u64)], stops: &[Stop]| {
            let stops = Stops { watched_ns: 0, all: stops.to_vec() };
            let turns: Vec<_> = turns.iter().copied().map(us).collect();
            let long = |ms: u64| vec![(0, 1_000 * (BEGIN - 1_000 * ms))];
            let of = |again: &[_]| Lateness::of(&turns, again, 100_000, &all, &stops);
            let late = of(&long(2));
            // The clock was not on time, or it is not known.
            for again in [vec![], long(0), long(10)] {
                assert_eq!(of(&again), Lateness { clock: Vec::new(), ..late.clone() });
            }
            late
        };
        // Half a piece of 4 us remains unseen of each.
        let unseen = |us: &[u64]| us.iter().map(|us| 1_000 * (us + 2)).collect();
        let lateness = |clock: &[u64], bringer: &[u64]| Lateness {
            clock: unseen(clock),
            bringer: unseen(bringer),
        };
        // The second request waits already when the quantum of the first ends at 110.
        assert_eq!(of(&[(10, 150)], &[]), lateness(&[40], &[]));
        // Nothing waits at 310: the third brings it at 500.
        assert_eq!(of(&[(210, 505)], &[]), lateness(&[], &[5]));
        // It comes when the quantum is nearly over.
        assert_eq!(of(&[(430, 560)], &[]), lateness(&[], &[]));
        // The worker was stopped meanwhile, and at another time.
        let stops = [(20, 30), (115, 25)].map(|(at, lasts)| (us((at, 0)).0, 1_000 * lasts));
        let stops = stops.map(|(at_ns, ns)| Stop { at_ns, ns });
        assert_eq!(of(&[(10, 150)], &stops), lateness(&[15], &[]));
        // Only one waits that was there before: it has been preempted, or this turn's quantum is a
        // long one.
        assert_eq!(of(&[(60, 180)], &[]), lateness(&[], &[]));
        // A turn that was given up early, and one beside which nothing ever waits.
        assert_eq!(of(&[(10, 50), (1_100, 1_300)], &[]), lateness(&[], &[]));
    }
}
