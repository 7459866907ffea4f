//! Branch prediction: TAGE and a table of loops for directions, tables for targets, a return stack.
//!
//! Protocol: [`Predictor::guess`] at fetch changes history, loops and return stack at once, and
//! returns what it has changed. A squash hands these back, youngest first, to [`Predictor::undo`];
//! then they are exactly what they were. [`Predictor::train`] is called when a branch retires, with
//! the history that it was predicted with. So a wrong path, or an interrupt that squashes, leaves
//! no trace.

use super::loops::{Counted, Loops};
use super::parameters;

/// What kind of branch an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Taken or not.
    Conditional,
    /// Always to the same target.
    Jump,
    /// The same, and a return address is pushed.
    Call,
    /// To an address in a register or memory.
    Indirect,
    /// The same, and a return address is pushed.
    IndirectCall,
    /// To the address that the call has pushed.
    Return,
    /// To the handler of an interrupt, whose address a register of the core has.
    Delivery,
    /// UIRET: back from there.
    Uiret,
}

impl Kind {
    /// Whether an interrupt's microcode goes there, and no instruction of a program.
    pub(super) fn of_interrupt(self) -> bool {
        matches!(self, Kind::Delivery | Kind::Uiret)
    }
}

/// A branch as fetch sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub(super) kind: Kind,
    pub(super) address: u64,
    /// The instruction behind it.
    pub(super) behind: u64,
    /// Where a direct branch goes.
    pub(super) target: u64,
}

/// What a prediction has changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    history: u128,
    /// Of the return stack: the entry that was overwritten.
    overwritten: u64,
    counted: Option<Counted>,
}

/// A prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    /// Where fetch goes on; nothing if nobody knows.
    pub(super) next: Option<u64>,
    /// Only the decoder knew: the branch is direct, and new to the predictor.
    pub(super) late: bool,
    pub(super) before: Before,
}

#[derive(Clone, Copy, Default)]
struct Tagged {
    tag: u16,
    /// -4 to 3; taken from 0 on.
    counter: i8,
    useful: u8,
}

/// The state of prediction.
pub(super) struct Predictor {
    history: u128,
    base: Vec<i8>,
    tables: Vec<(u32, Vec<Tagged>)>,
    loops: Loops,
    targets: Vec<u64>,
    indirect: Vec<(u64, u64)>,
    returns: Vec<u64>,
    top: usize,
    /// The return stack also has where interrupts return to.
    stacks: bool,
    /// Interrupts enter the history.
    records: bool,
    trained: u64,
}

/// Retired branches between two ageings of the tables. It belongs to the algorithm, TAGE, and not
/// to the machine.
const AGEING: u64 = 1 << 18;

impl Predictor {
    pub(super) fn new(p: &parameters::Predictor, interrupt: &parameters::Interrupt) -> Predictor {
        Predictor {
            stacks: interrupt.targets_predicted,
            records: interrupt.in_history,
            history: 0,
            base: vec![0; p.base],
            tables: p
                .histories
                .iter()
                .map(|&bits| (bits, vec![Tagged::default(); p.tagged]))
                .collect(),
            loops: Loops::new(p.loops),
            targets: vec![0; p.targets],
            indirect: vec![(0, 0); p.indirect],
            returns: vec![0; p.returns],
            top: 0,
            trained: 0,
        }
    }

    /// Where the branch goes. History and return stack become what they are behind it.
    pub(super) fn guess(&mut self, branch: &Branch) -> Guess {
        let mut before = Before {
            history: self.history,
            overwritten: self.returns[(self.top + 1) % self.returns.len()],
            counted: None,
        };
        let known = self.targets[slot(branch.address, self.targets.len())] == branch.address;
        let (next, late) = match branch.kind {
            Kind::Conditional => {
                let by_history = || self.taken(branch.address, self.history);
                let taken = self.loops.taken(branch.address).unwrap_or_else(by_history);
                (Some(if taken { branch.target } else { branch.behind }), taken && !known)
            }
            Kind::Jump | Kind::Call => (Some(branch.target), !known),
            Kind::Indirect | Kind::IndirectCall => {
                let (address, target) = self.indirect[self.indirect_slot(branch.address)];
                ((address == branch.address).then_some(target), false)
            }
            Kind::Return => (Some(self.returns[self.top]), false),
            Kind::Delivery => (self.stacks.then_some(branch.target), false),
            Kind::Uiret => (self.stacks.then_some(self.returns[self.top]), false),
        };
        before.counted = self.advance(branch, next);
        Guess { next, late, before }
    }

    /// Changes history, loops and return stack: the branch goes to `next`.
    fn advance(&mut self, branch: &Branch, next: Option<u64>) -> Option<Counted> {
        let size = self.returns.len();
        match self.stacked(branch.kind) {
            Some(true) => {
                self.top = (self.top + 1) % size;
                self.returns[self.top] = branch.behind;
            }
            Some(false) => self.top = (self.top + size - 1) % size,
            None => {}
        }
        self.remember(branch, next)
    }

    /// Whether a branch puts an address on the return stack, or takes one off.
    fn stacked(&self, kind: Kind) -> Option<bool> {
        match kind {
            Kind::Call | Kind::IndirectCall => Some(true),
            Kind::Return => Some(false),
            Kind::Delivery if self.stacks => Some(true),
            Kind::Uiret if self.stacks => Some(false),
            _ => None,
        }
    }

    fn remember(&mut self, branch: &Branch, next: Option<u64>) -> Option<Counted> {
        match branch.kind {
            Kind::Delivery | Kind::Uiret if !self.records => {}
            Kind::Conditional => {
                let taken = next == Some(branch.target);
                self.history = self.history << 1 | u128::from(taken);
                return self.loops.advance(branch.address, taken);
            }
            Kind::Indirect | Kind::IndirectCall | Kind::Delivery | Kind::Uiret => {
                let target = next.unwrap_or(0);
                self.history = self.history << 2 | u128::from((target >> 2 ^ target >> 5) & 3);
            }
            _ => {}
        }
        None
    }

    /// Takes back the youngest prediction.
    pub(super) fn undo(&mut self, kind: Kind, before: &Before) {
        let size = self.returns.len();
        match self.stacked(kind) {
            Some(true) => {
                self.returns[self.top] = before.overwritten;
                self.top = (self.top + size - 1) % size;
            }
            Some(false) => self.top = (self.top + 1) % size,
            None => {}
        }
        self.forget(before);
    }

    fn forget(&mut self, before: &Before) {
        self.history = before.history;
        if let Some(counted) = &before.counted {
            self.loops.undo(counted);
        }
    }

    /// The youngest prediction was wrong: the branch goes to `next`.
    pub(super) fn correct(&mut self, branch: &Branch, before: &Before, next: u64) {
        self.forget(before);
        self.remember(branch, Some(next));
    }

    fn indirect_slot(&self, address: u64) -> usize {
        slot(address ^ fold(self.history, 20, 10) << 3, self.indirect.len())
    }

    fn place(&self, table: usize, address: u64, history: u128) -> (usize, u16) {
        let (bits, entries) = &self.tables[table];
        let size = entries.len().trailing_zeros().max(1);
        let index =
            (address ^ address >> size ^ fold(history, *bits, size)) as usize & (entries.len() - 1);
        let tag = (address >> 1 ^ fold(history, *bits, 11) ^ fold(history, *bits, 10) << 1) as u16
            & 0xfff;
        // Tag 0 is that of an empty entry.
        (index, tag | 0x1000)
    }

    /// The longest table that knows the branch, and the next longest.
    fn providers(&self, address: u64, history: u128) -> [Option<(usize, usize)>; 2] {
        let mut found = [None, None];
        for table in (0..self.tables.len()).rev() {
            let (index, tag) = self.place(table, address, history);
            if self.tables[table].1[index].tag == tag {
                if found[0].is_none() {
                    found[0] = Some((table, index));
                } else {
                    found[1] = Some((table, index));
                    break;
                }
            }
        }
        found
    }

    fn base_taken(&self, address: u64) -> bool {
        self.base[slot(address, self.base.len())] >= 0
    }

    fn taken_by(&self, address: u64, provider: Option<(usize, usize)>) -> bool {
        provider.map_or_else(
            || self.base_taken(address),
            |(table, index)| self.tables[table].1[index].counter >= 0,
        )
    }

    fn taken(&self, address: u64, history: u128) -> bool {
        self.taken_by(address, self.providers(address, history)[0])
    }

    /// Learns from a branch that has retired and gone to `next`.
    pub(super) fn train(&mut self, branch: &Branch, before: &Before, next: u64) {
        match branch.kind {
            Kind::Conditional => {
                let taken = next == branch.target;
                let by_history = self.train_direction(branch.address, before.history, taken);
                self.loops.train(branch.address, before.counted.as_ref(), by_history, taken);
                if !taken {
                    return;
                }
            }
            Kind::Indirect | Kind::IndirectCall => {
                let history = std::mem::replace(&mut self.history, before.history);
                let place = self.indirect_slot(branch.address);
                self.history = history;
                self.indirect[place] = (branch.address, next);
            }
            Kind::Delivery | Kind::Uiret => return,
            _ => {}
        }
        let place = slot(branch.address, self.targets.len());
        self.targets[place] = branch.address;
    }

    /// Returns what the histories have said until now.
    fn train_direction(&mut self, address: u64, history: u128, taken: bool) -> bool {
        self.trained += 1;
        if self.trained.is_multiple_of(AGEING) {
            for entry in self.tables.iter_mut().flat_map(|(_, entries)| entries) {
                entry.useful >>= 1;
            }
        }
        let [provider, other] = self.providers(address, history);
        let (guess, alternative) =
            (self.taken_by(address, provider), self.taken_by(address, other));
        if let Some((table, index)) = provider {
            let entry = &mut self.tables[table].1[index];
            count(&mut entry.counter, taken);
            if guess != alternative {
                entry.useful = if guess == taken {
                    (entry.useful + 1).min(3)
                } else {
                    entry.useful.saturating_sub(1)
                };
            }
        } else {
            let place = slot(address, self.base.len());
            let counter = &mut self.base[place];
            *counter = (*counter + if taken { 1 } else { -1 }).clamp(-2, 1);
        }
        if guess == taken {
            return guess;
        }
        // A longer history may tell the cases apart.
        let first = provider.map_or(0, |(table, _)| table + 1);
        for table in first..self.tables.len() {
            let (index, tag) = self.place(table, address, history);
            let entry = &mut self.tables[table].1[index];
            if entry.useful == 0 {
                *entry = Tagged { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                return guess;
            }
        }
        for table in first..self.tables.len() {
            let (index, _) = self.place(table, address, history);
            self.tables[table].1[index].useful -= 1;
        }
        guess
    }

    /// History, return stack and loops, for tests.
    #[cfg(test)]
    fn state(&self) -> (u128, usize, Vec<u64>, Vec<u32>) {
        (self.history, self.top, self.returns.clone(), self.loops.state())
    }
}

fn count(counter: &mut i8, up: bool) {
    *counter = (*counter + if up { 1 } else { -1 }).clamp(-4, 3);
}

/// Instructions are rarely aligned: all bits of an address count.
pub(super) fn slot(address: u64, size: usize) -> usize {
    (address ^ address >> 13) as usize & (size - 1)
}

/// The youngest `length` outcomes, folded into `bits` bits.
fn fold(history: u128, length: u32, bits: u32) -> u64 {
    let mut rest = if length < 128 { history & ((1 << length) - 1) } else { history };
    let mut folded = 0;
    while rest != 0 {
        folded ^= rest as u64 & ((1 << bits) - 1);
        rest >>= bits;
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Parameters;

    fn branch(kind: Kind, address: u64) -> Branch {
        Branch { kind, address, behind: address + 2, target: address + 64 }
    }

    #[test]
    fn a_pattern_is_learnt() {
        let all = Parameters::default();
        let mut p = Predictor::new(&all.predictor, &all.interrupt);
        let b = branch(Kind::Conditional, 0x4010);
        let mut wrong = 0;
        for i in 0..4000u64 {
            let next = if i % 7 < 3 { b.target } else { b.behind };
            let guess = p.guess(&b);
            if guess.next != Some(next) {
                p.correct(&b, &guess.before, next);
                wrong += u64::from(i >= 2000);
            }
            p.train(&b, &guess.before, next);
        }
        assert!(wrong < 10, "{wrong} of 2000 wrong after 2000");
    }

    #[test]
    fn undoing_leaves_no_trace() {
        let mut all = Parameters::default();
        all.interrupt.targets_predicted = true;
        let mut p = Predictor::new(&all.predictor, &all.interrupt);
        let kinds = [
            Kind::Conditional,
            Kind::Call,
            Kind::Return,
            Kind::Indirect,
            Kind::IndirectCall,
            Kind::Return,
            Kind::Delivery,
            Kind::Return,
            Kind::Uiret,
            Kind::Jump,
        ];
        let at = |i: u64| branch(kinds[(i * 5 + i / 3) as usize % kinds.len()], 0x1000 + 37 * i);
        for i in 0..100 {
            p.guess(&at(i));
        }
        let before = p.state();
        // More calls and returns than the stack has entries.
        let guesses: Vec<_> = (100..600).map(|i| (at(i).kind, p.guess(&at(i)).before)).collect();
        assert_ne!(p.state(), before);
        for (kind, guess) in guesses.iter().rev() {
            p.undo(*kind, guess);
        }
        assert_eq!(p.state(), before);
    }
}
