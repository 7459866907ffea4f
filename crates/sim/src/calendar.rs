//! Which of a fixed number of sources has the next event: a tournament tree over their times.
//!
//! Every worker has exactly one next event, and so has every other source, so the queue never holds
//! events that have become void: moving a source's event is one walk to the root, `log2(n)` steps
//! over a few cache lines, and looking for the earliest costs nothing. Among equal times the source
//! with the lower number is first.

/// No event.
pub(crate) const NEVER: u64 = u64::MAX;

/// The next event of each source.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    times: Vec<u64>,
    /// Inner nodes: the winning source below. The root is at 1; leaves begin at the number of
    /// sources, a power of two.
    winners: Vec<u32>,
}

impl Calendar {
    /// For the sources `0..sources`, without events.
    pub(crate) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let mut calendar = Calendar { times: vec![NEVER; leaves], winners: vec![0; leaves] };
        for node in (1..leaves).rev() {
            calendar.winners[node] = calendar.play(node);
        }
        calendar
    }

    fn winner(&self, node: usize) -> u32 {
        let leaves = self.times.len();
        if node >= leaves { (node - leaves) as u32 } else { self.winners[node] }
    }

    fn play(&self, node: usize) -> u32 {
        let (left, right) = (self.winner(2 * node), self.winner(2 * node + 1));
        if self.times[right as usize] < self.times[left as usize] { right } else { left }
    }

    /// Set when the source has its next event.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, time: u64) {
        if self.times[source] == time {
            return;
        }
        self.times[source] = time;
        let mut node = (self.times.len() + source) / 2;
        while node > 0 {
            self.winners[node] = self.play(node);
            node /= 2;
        }
    }

    /// The earliest event: source and time, which may be [`NEVER`].
    #[inline]
    pub(crate) fn first(&self) -> (usize, u64) {
        let source = self.winners[1] as usize;
        (source, self.times[source])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn the_first_is_the_earliest_and_among_equals_the_lowest(
            sources in 1..40usize,
            changes in prop::collection::vec((0..40usize, 0..20u64), 1..200),
        ) {
            let mut calendar = Calendar::new(sources);
            let mut times = vec![NEVER; sources];
            for (source, time) in changes {
                let time = if time == 0 { NEVER } else { time };
                calendar.set(source % sources, time);
                times[source % sources] = time;
                let all = times.iter().copied().enumerate();
                let expected = all.min_by_key(|&(_, time)| time).unwrap();
                let first = calendar.first();
                prop_assert_eq!(first.1, expected.1);
                prop_assert!(first.1 == NEVER || first.0 == expected.0);
            }
        }
    }
}
