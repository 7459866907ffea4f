//! The uops in flight, from fetch to retirement: one queue in program order.
//!
//! Its oldest part has been renamed (the reorder buffer), the rest waits in the front end. An entry
//! has an `id`, which is its place in program order, and a `stamp`, which is never given twice:
//! who remembers an entry remembers both, since a squash gives ids back.

use std::collections::VecDeque;

use super::class::Needs;
use super::predict::{Before, Branch};

/// An entry as others remember it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Name {
    pub(super) id: u64,
    pub(super) stamp: u64,
}

/// No instruction of the journal.
pub(super) const UNNUMBERED: u64 = u64::MAX;
/// Not yet.
pub(super) const NEVER: u64 = u64::MAX;

/// What belongs to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// An instruction of the program or of a handler.
    Program,
    /// One that was served by the machine: it has taken effect, and is never squashed.
    Served,
    /// Microcode of an interrupt.
    Interrupt,
}

/// Memory that a uop accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) bytes: u8,
    pub(super) store: bool,
}

/// What becomes of a load that a store before it overlaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forward {
    No,
    /// The store has all bytes.
    Whole,
    /// Only some: the load waits until the store is in the cache.
    Part,
}

/// A uop in flight.
pub(super) struct Entry {
    pub(super) stamp: u64,
    /// Its instruction in the journal, or [`UNNUMBERED`].
    pub(super) number: u64,
    /// Where its instruction is.
    pub(super) address: u64,
    pub(super) origin: Origin,
    pub(super) needs: Needs,
    /// Cycles, if it is not the unit that says; otherwise 0.
    pub(super) latency: u64,
    /// Of the widths: 0 where the processor has one uop and the model two.
    pub(super) weight: u8,
    /// The first and last uop of its instruction.
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) safepoint: bool,
    pub(super) place: Option<Place>,
    pub(super) vector: bool,
    /// A prediction to take back if it is squashed, and to learn from.
    pub(super) branch: Option<(Branch, Before)>,
    /// Fetch has gone elsewhere, or waits; when this has executed, it goes on here.
    pub(super) resolves: Option<u64>,
    /// When renaming may take it.
    pub(super) available: u64,
    pub(super) renamed: bool,
    /// Physical registers of what it writes, and those before it.
    pub(super) new: [u16; 3],
    pub(super) old: [u16; 3],
    pub(super) forward: Forward,
    /// Sources that are not known yet.
    pub(super) pending: u8,
    /// When the known ones are there.
    pub(super) ready: u64,
    pub(super) issued: bool,
    /// When the result is there.
    pub(super) done: u64,
    /// For the pipeline view.
    pub(super) times: [u64; 3],
}

/// The queue.
#[derive(Default)]
pub(super) struct Window {
    entries: VecDeque<Entry>,
    /// The id of the oldest.
    first: u64,
    /// How many of the oldest have been renamed.
    pub(super) renamed: usize,
    stamps: u64,
}

impl Window {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id that the next entry gets.
    pub(super) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn push(&mut self, mut entry: Entry) -> Name {
        self.stamps += 1;
        entry.stamp = self.stamps;
        let name = Name { id: self.end(), stamp: entry.stamp };
        self.entries.push_back(entry);
        name
    }

    pub(super) fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(super) fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.renamed -= 1;
        Some(entry)
    }

    pub(super) fn pop_back(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_back()?;
        self.renamed -= usize::from(entry.renamed);
        Some(entry)
    }

    /// The oldest entry that has not been renamed.
    pub(super) fn next(&mut self) -> Option<(Name, &mut Entry)> {
        let id = self.first + self.renamed as u64;
        let entry = self.entries.get_mut(self.renamed)?;
        Some((Name { id, stamp: entry.stamp }, entry))
    }

    pub(super) fn get(&mut self, name: Name) -> Option<&mut Entry> {
        let place = name.id.checked_sub(self.first)?;
        self.entries.get_mut(place as usize).filter(|entry| entry.stamp == name.stamp)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}
