//! Retirement in program order, and squashes.

use super::Core;
use super::window::{Name, Origin, UNNUMBERED};
use crate::decode;
use crate::fault::Error;

impl Core {
    /// Retires uops whose results are there.
    ///
    /// # Errors
    ///
    /// The bound on instructions was reached, or notification processing found no UPID.
    pub(super) fn retire(&mut self) -> Result<(), Error> {
        let mut room = self.p.window.retire;
        while let Some(entry) = self.window.front() {
            if !entry.renamed || entry.done > self.cycle || usize::from(entry.weight) > room {
                break;
            }
            // Retirement must not go past a safepoint where the mechanism interrupts there.
            let (weight, safe) = (usize::from(entry.weight), entry.first && entry.safepoint);
            if safe && self.squashes_here() {
                break;
            }
            room -= weight;
            self.moved = true;
            let id = self.window.end() - self.window.len() as u64;
            let entry = self.window.pop_front().expect("it was looked at");
            self.rob -= usize::from(entry.weight);
            self.registers.retire(&entry);
            self.report.uops += 1;
            match entry.place {
                Some(place) if place.store => {
                    self.stores.retire(Name { id, stamp: entry.stamp });
                    self.ring(place);
                    self.stored(place);
                }
                Some(_) => {
                    self.loads -= 1;
                    self.report.loads += 1;
                }
                None => {}
            }
            if let Some((branch, before)) = &entry.branch {
                let next = self.ahead.next_of(entry.number);
                if !branch.kind.of_interrupt() {
                    self.report.branches += 1;
                    self.report.mispredicts += u64::from(entry.resolves.is_some());
                }
                self.predictor.train(branch, before, next);
            }
            if let Some(view) = &mut self.view {
                view.leave(&entry, self.cycle, true);
            }
            if entry.origin == Origin::Interrupt {
                let upid = self.ahead.cpu.uintr.upid;
                self.timeline.microcode(entry.place, upid, self.cycle);
            }
            if !entry.last {
                continue;
            }
            if entry.number != UNNUMBERED {
                self.ahead.retire(entry.number + 1);
            }
            match entry.origin {
                Origin::Interrupt => self.interrupt_retires()?,
                Origin::Program | Origin::Served => self.count(entry.address)?,
            }
        }
        Ok(())
    }

    /// An instruction of the program, or of a handler, has retired.
    pub(super) fn count(&mut self, address: u64) -> Result<(), Error> {
        if let Some(arrival) = self.interrupts.entered.take() {
            self.interrupts.handler_times.push(self.cycle - arrival);
            self.timeline.enters(self.cycle);
        }
        let of_handler = super::handler::contains(address);
        self.timeline.instruction(of_handler, self.cycle);
        if of_handler {
            self.report.handler_instructions += 1;
            return Ok(());
        }
        (self.interrupts.fruitless, self.interrupts.last_done) = (0, address);
        if let Some(retired) = &mut self.retired {
            retired.push(address);
        }
        self.report.instructions += 1;
        if self.report.instructions >= self.limit && !self.ended() {
            let text = decode::disassemble(&self.machine.memory, address);
            return Err(Error::Endless { address, text, instructions: self.limit });
        }
        Ok(())
    }

    /// Squashes all uops from `from` on. Says how many there were.
    pub(super) fn squash(&mut self, from: u64, by_interrupt: bool) -> u64 {
        let mut number = None;
        let mut squashed = 0;
        while self.window.end() > from {
            let entry = self.window.pop_back().expect("it is in flight");
            squashed += 1;
            if let Some((branch, before)) = &entry.branch {
                self.predictor.undo(branch.kind, before);
            }
            if entry.renamed {
                self.rob -= usize::from(entry.weight);
                self.waiting -= usize::from(!entry.issued);
                match entry.place {
                    Some(place) if place.store => {
                        let token = self.stores.undo();
                        self.registers.release(token);
                    }
                    Some(_) => self.loads -= 1,
                    None => {}
                }
                self.registers.undo(&entry);
            } else {
                self.queued -= usize::from(entry.weight);
            }
            if entry.number != UNNUMBERED {
                number = Some(entry.number);
            }
            if entry.origin == Origin::Interrupt && entry.first {
                self.interrupts.squashed();
                self.report.reinjected += 1;
            }
            if let Some(view) = &mut self.view {
                view.leave(&entry, self.cycle, false);
            }
        }
        if let Some(number) = number {
            self.ahead.undo(&mut self.machine.memory, number);
        }
        self.report.squashed += squashed;
        if by_interrupt {
            self.report.squashed_by_interrupts += squashed;
        }
        self.moved |= squashed > 0;
        squashed
    }

    /// Branches that were predicted wrongly have executed: fetch goes on where they went.
    pub(super) fn resolve(&mut self) {
        while let Some(&std::cmp::Reverse((time, name))) = self.resolving.peek() {
            if time > self.cycle {
                break;
            }
            self.resolving.pop();
            let Some(entry) = self.window.get(name) else { continue };
            let next = entry.resolves.expect("it is in the list for that");
            let branch = entry.branch;
            let squashed = self.squash(name.id + 1, false);
            if let Some((branch, before)) = branch {
                self.predictor.correct(&branch, &before, next);
            }
            self.ahead.cpu.rip = next;
            self.moved = true;
            self.front.stopped = None;
            self.front.line = None;
            self.front.fuses = false;
            self.front.resume = self.cycle + self.p.front.redirect;
            self.rename_from = self.cycle + squashed / self.p.window.squash as u64;
            self.front.blame = match branch {
                Some((branch, _)) if !branch.kind.of_interrupt() => super::fetch::Blame::Mispredict,
                _ => super::fetch::Blame::Interrupt,
            };
        }
    }
}
