//! How long rounds are, and how many are offered: shorter ones where the machine stops the worker
//! so often that few long ones are undisturbed, and no more than there is time for.

use std::time::Duration;

/// Rounds are offered for at most so many times as long as is wanted.
const TRIES: u32 = 3;
/// So many rounds of a length say how many of it are undisturbed.
const ENOUGH: usize = 8;
/// Shorter rounds see too little of a queue.
const SHORTEST: Duration = Duration::from_millis(50);

/// The rounds of one load.
#[derive(Clone, Debug)]
pub struct Rounds {
    span: Duration,
    /// How long all undisturbed ones together should be.
    all: Duration,
    /// How long rounds may still be offered.
    left: Duration,
    offered: usize,
    undisturbed: usize,
}

impl Rounds {
    /// So many of `first`, or as many shorter ones as take the same time; of `span` to begin with.
    pub fn new(first: Duration, wanted: usize, span: Duration) -> Rounds {
        let all = first * wanted as u32;
        Rounds { span, all, left: TRIES * all, offered: 0, undisturbed: 0 }
    }

    /// How long they are now.
    pub fn span(&self) -> Duration {
        self.span
    }

    /// How many undisturbed ones of this length are wanted: an even number.
    pub fn wanted(&self) -> usize {
        (self.all.as_nanos() / self.span.as_nanos()) as usize / 2 * 2
    }

    /// Is there another one to offer?
    pub fn go_on(&self) -> bool {
        self.undisturbed < self.wanted() && self.left >= self.span
    }

    /// One was offered. `true`: those that follow are shorter, and those before do not count.
    pub fn offered(&mut self, disturbed: bool) -> bool {
        self.left = self.left.saturating_sub(self.span);
        self.offered += 1;
        self.undisturbed += usize::from(!disturbed);
        let too_few = self.undisturbed * (TRIES as usize) < self.offered;
        let shorter = self.offered >= ENOUGH && too_few && self.span / 2 >= SHORTEST;
        if shorter {
            self.span /= 2;
            (self.offered, self.undisturbed) = (0, 0);
        }
        shorter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(250);

    /// Offers 48 rounds of 250 ms on a host that stops the worker for 30 ms every so many
    /// milliseconds. How many undisturbed ones there were, of which length, and for how long rounds
    /// were offered, in ms.
    fn on_host(every_ms: u128) -> (usize, Rounds, u128) {
        let mut rounds = Rounds::new(LONG, 48, LONG);
        let (mut now, mut good) = (0, 0);
        while rounds.go_on() {
            let end = now + rounds.span().as_millis();
            // A stop begins at every multiple; the first one is late.
            let stopped = (now..end).any(|ms| ms % every_ms < 30 && ms >= every_ms);
            now = end;
            good += usize::from(!stopped);
            if rounds.offered(stopped) {
                good = 0;
            }
        }
        (good, rounds, now)
    }

    #[test]
    fn a_quiet_host_gets_as_many_as_are_wanted() {
        let (good, rounds, took) = on_host(u128::MAX);
        assert_eq!((good, rounds.span(), took), (48, LONG, 48 * 250));
    }

    #[test]
    fn rounds_fit_between_the_stops_of_a_host() {
        let (good, rounds, took) = on_host(200);
        assert!(rounds.span() < LONG && rounds.span() >= SHORTEST, "{rounds:?}");
        assert_eq!(good, rounds.wanted());
        assert_eq!(rounds.wanted() as u128 * rounds.span().as_micros(), 48 * 250_000);
        assert!(took <= 3 * 48 * 250, "{took}");
    }

    #[test]
    fn there_is_an_end_where_everything_is_disturbed() {
        let (good, rounds, took) = on_host(40);
        assert!(good < rounds.wanted(), "{rounds:?}");
        assert!(took <= 3 * 48 * 250 && took > 2 * 48 * 250, "{took}");
    }

    /// What one load has learnt serves the next one.
    #[test]
    fn a_load_may_begin_with_shorter_ones() {
        let rounds = Rounds::new(LONG, 48, LONG / 4);
        assert_eq!((rounds.wanted(), rounds.span()), (192, LONG / 4));
        assert_eq!(Rounds::new(Duration::from_millis(100), 2, LONG / 4).wanted(), 2);
    }
}
