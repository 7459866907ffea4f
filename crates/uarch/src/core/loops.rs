//! Branches that go one way equally often before they go the other way once: loops with a fixed
//! number of rounds, longer than any history (Seznec's L-TAGE, 2007, has such a table beside TAGE).
//!
//! An entry counts its branch twice: at retirement, to learn how often it goes one way, and at
//! fetch, to foretell the other. What fetch has counted is taken back at a squash.

use super::predict::slot;

/// A loop with fewer rounds is left to history.
const FEWEST: u32 = 3;
const MOST: u32 = (1 << 14) - 1;
/// So many equal loops in a row are believed.
const SURE: u8 = 3;
/// So many other branches must ask for an entry before one of them has it.
const YOUNG: u8 = 7;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// The branch; 0 is none.
    address: u64,
    /// The way that it goes in all rounds but the last.
    way: bool,
    /// How many rounds the last loop had; 0 is unknown.
    rounds: u32,
    /// The rounds of this loop that have retired, and that were fetched.
    retired: u32,
    fetched: u32,
    sure: u8,
    age: u8,
}

/// What a prediction has changed: of which entry, for which branch, and the count before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    place: u32,
    address: u64,
    fetched: u32,
}

/// The table.
pub(super) struct Loops {
    entries: Vec<Entry>,
    /// Above -1: where both differ, loops have been right more often than histories.
    trust: i8,
}

impl Loops {
    /// So many entries, a power of two; or none.
    pub(super) fn new(size: usize) -> Loops {
        Loops { entries: vec![Entry::default(); size], trust: -1 }
    }

    fn place(&self, address: u64) -> Option<usize> {
        let place = (!self.entries.is_empty()).then(|| slot(address, self.entries.len()))?;
        (self.entries[place].address == address).then_some(place)
    }

    /// Whether the branch, fetched now, is taken, if an entry is sure of it.
    fn known(entry: &Entry, count: u32) -> Option<bool> {
        let last = count + 1 == entry.rounds;
        (entry.sure >= SURE).then_some(entry.way != last)
    }

    /// The same, where loops are trusted.
    pub(super) fn taken(&self, address: u64) -> Option<bool> {
        let entry = &self.entries[self.place(address)?];
        Loops::known(entry, entry.fetched).filter(|_| self.trust >= 0)
    }

    /// The branch is fetched, and goes there.
    pub(super) fn advance(&mut self, address: u64, taken: bool) -> Option<Counted> {
        let place = self.place(address)?;
        let entry = &mut self.entries[place];
        let counted = Counted { place: place as u32, address, fetched: entry.fetched };
        entry.fetched = if taken == entry.way { (entry.fetched + 1).min(MOST) } else { 0 };
        Some(counted)
    }

    /// It was not fetched after all.
    pub(super) fn undo(&mut self, counted: &Counted) {
        let entry = &mut self.entries[counted.place as usize];
        if entry.address == counted.address {
            entry.fetched = counted.fetched;
        }
    }

    /// The branch has retired. `by_history`: what the histories say; `counted`: of its prediction.
    pub(super) fn train(
        &mut self,
        address: u64,
        counted: Option<&Counted>,
        by_history: bool,
        taken: bool,
    ) {
        if self.entries.is_empty() {
            return;
        }
        let place = slot(address, self.entries.len());
        let entry = &mut self.entries[place];
        if entry.address != address {
            if by_history == taken {
                return;
            }
            // It has left its loop, where history did not expect it.
            match entry.age {
                0 => *entry = Entry { address, way: !taken, age: YOUNG, ..Entry::default() },
                _ => entry.age -= 1,
            }
            return;
        }
        if let Some(known) = counted.and_then(|c| Loops::known(entry, c.fetched)) {
            if known != by_history {
                let right = known == taken;
                self.trust = (self.trust + if right { 1 } else { -1 }).clamp(-64, 63);
                if right {
                    entry.age = (entry.age + 1).min(YOUNG);
                }
            }
            if known != taken {
                entry.age = 0;
                (entry.rounds, entry.sure) = (0, 0);
            }
        }
        entry.retired = (entry.retired + 1).min(MOST);
        if taken == entry.way {
            if entry.rounds != 0 && entry.retired >= entry.rounds {
                (entry.rounds, entry.sure) = (0, 0);
            }
            return;
        }
        let rounds = std::mem::take(&mut entry.retired);
        if rounds < FEWEST {
            // The way of a loop is the other one, or it is none.
            *entry = Entry { address, way: taken, age: entry.age, ..Entry::default() };
        } else if rounds == entry.rounds {
            entry.sure = (entry.sure + 1).min(SURE);
        } else {
            (entry.rounds, entry.sure) = (rounds, 0);
        }
    }

    /// What fetch has counted, for tests.
    #[cfg(test)]
    pub(super) fn state(&self) -> Vec<u32> {
        self.entries.iter().map(|entry| entry.fetched).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a loop of so many rounds again and again, with branches on the way between fetch and
    /// retirement; how many of the last `last` were foretold, and how many of these wrongly.
    fn foretold(rounds: impl Fn(usize) -> u32, loops: usize) -> (u32, u32) {
        let mut table = Loops::new(16);
        let mut flight = std::collections::VecDeque::new();
        let (mut all, mut wrong) = (0, 0);
        for n in 0..loops {
            for round in 1..=rounds(n) {
                let taken = round < rounds(n);
                let guess = table.taken(0x40);
                if n >= loops / 2 {
                    all += u32::from(guess.is_some());
                    wrong += u32::from(guess.is_some_and(|guess| guess != taken));
                }
                // Squashed and fetched again.
                if let Some(counted) = table.advance(0x40, !taken) {
                    table.undo(&counted);
                }
                flight.push_back((table.advance(0x40, taken), taken));
                if flight.len() > 20 {
                    let (counted, taken) = flight.pop_front().unwrap();
                    // History expects no end.
                    table.train(0x40, counted.as_ref(), true, taken);
                }
            }
        }
        (all, wrong)
    }

    #[test]
    fn a_loop_of_any_length_is_foretold() {
        assert_eq!(foretold(|_| 150, 40), (20 * 150, 0));
        assert_eq!(foretold(|_| 3, 400), (200 * 3, 0));
    }

    #[test]
    fn what_is_no_loop_is_left_to_history() {
        assert_eq!(foretold(|n| 10 + n as u32 % 2, 400).0, 0);
        assert_eq!(foretold(|_| 2, 400).0, 0);
    }

    #[test]
    fn a_new_number_of_rounds_is_learnt() {
        let (all, wrong) = foretold(|n| if n < 50 { 9 } else { 30 }, 100);
        assert!(all > 1_000 && wrong <= 22, "{wrong} of {all}");
    }

    #[test]
    fn without_entries_nothing_is_foretold() {
        let mut table = Loops::new(0);
        table.train(0x40, None, true, false);
        assert!(table.advance(0x40, true).is_none() && table.taken(0x40).is_none());
    }
}
