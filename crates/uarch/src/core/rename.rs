//! Renaming: physical registers with counts of their names, and the resources that a uop needs
//! before it may leave the front end.

use super::Core;
use super::class::{FLAGS, How, NONE, REGISTERS, VECTORS};
use super::parameters::{Class, Window as Sizes};
use super::window::{Entry, Forward, NEVER, Name};

/// A physical register.
struct Register {
    /// Names: places in the map, and entries that may bring it back.
    names: u16,
    /// When its value is there.
    ready: u64,
    /// Uops that wait until that is known.
    waiting: Vec<Name>,
    pool: Pool,
}

/// Where a register comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pool {
    Integer = 0,
    Vector = 1,
    /// Flags, microcode, and stores that loads wait for: never scarce.
    Other = 2,
}

/// The physical registers, and which of them have the program's names.
pub(super) struct Registers {
    all: Vec<Register>,
    free: [Vec<u16>; 3],
    map: [u16; REGISTERS],
}

/// The register that is always there and is never given back: its own name keeps it.
const CONSTANT: u16 = 0;

fn pool(register: u8) -> Pool {
    match register {
        FLAGS.. => Pool::Other,
        VECTORS.. => Pool::Vector,
        _ => Pool::Integer,
    }
}

impl Registers {
    pub(super) fn new(sizes: &Sizes) -> Registers {
        let mut registers = Registers {
            all: Vec::new(),
            free: [Vec::new(), Vec::new(), Vec::new()],
            map: [CONSTANT; REGISTERS],
        };
        let constant = Register { names: 1, ready: 0, waiting: Vec::new(), pool: Pool::Other };
        registers.all.push(constant);
        let other = 2 * (sizes.reorder_buffer + sizes.stores) + 64;
        for (pool, count) in
            [(Pool::Integer, sizes.registers), (Pool::Vector, sizes.vectors), (Pool::Other, other)]
        {
            for _ in 0..count {
                let number = registers.all.len() as u16;
                let free = Register { names: 0, ready: 0, waiting: Vec::new(), pool };
                registers.all.push(free);
                registers.free[pool as usize].push(number);
            }
        }
        // The program's own values occupy one each.
        for register in 0..REGISTERS as u8 {
            let number = registers.take(pool(register)).expect("there are more");
            registers.all[usize::from(number)].ready = 0;
            registers.map[usize::from(register)] = number;
        }
        registers
    }

    fn take(&mut self, pool: Pool) -> Option<u16> {
        let number = self.free[pool as usize].pop()?;
        let register = &mut self.all[usize::from(number)];
        (register.names, register.ready) = (1, NEVER);
        register.waiting.clear();
        Some(number)
    }

    /// One name less.
    pub(super) fn release(&mut self, number: u16) {
        let register = &mut self.all[usize::from(number)];
        register.names -= 1;
        if register.names == 0 {
            self.free[register.pool as usize].push(number);
        }
    }

    /// A register for a store that loads may wait for.
    pub(super) fn token(&mut self) -> u16 {
        self.take(Pool::Other).expect("there is one for each store")
    }

    /// The value will be there at `time`. Returns who waits for it.
    pub(super) fn set(&mut self, number: u16, time: u64) -> Vec<Name> {
        let register = &mut self.all[usize::from(number)];
        register.ready = time;
        std::mem::take(&mut register.waiting)
    }

    /// Gives back the memory of a list.
    pub(super) fn recycle(&mut self, number: u16, mut list: Vec<Name>) {
        list.clear();
        self.all[usize::from(number)].waiting = list;
    }

    /// `entry` needs the register.
    fn read(&mut self, number: u16, name: Name, entry: &mut Entry) {
        let register = &mut self.all[usize::from(number)];
        if register.ready == NEVER {
            register.waiting.push(name);
            entry.pending += 1;
        } else {
            entry.ready = entry.ready.max(register.ready);
        }
    }

    fn enough(&self, entry: &Entry) -> bool {
        if entry.needs.how != How::Unit {
            return true;
        }
        let mut wanted = [0; 3];
        for &register in entry.needs.writes.iter().filter(|&&r| r != NONE) {
            wanted[pool(register) as usize] += 1;
        }
        (0..2).all(|i| self.free[i].len() >= wanted[i])
    }

    /// Gives new registers to what the entry writes.
    fn rename(&mut self, name: Name, entry: &mut Entry) {
        let needs = entry.needs;
        if needs.how == How::Unit {
            for &register in needs.reads.iter().filter(|&&r| r != NONE) {
                self.read(self.map[usize::from(register)], name, entry);
            }
        }
        for (i, &register) in needs.writes.iter().enumerate().filter(|(_, r)| **r != NONE) {
            let number = match needs.how {
                How::Unit => self.take(pool(register)).expect("there are enough"),
                How::Nothing => CONSTANT,
                How::Rename => self.map[usize::from(needs.reads[0])],
            };
            if needs.how != How::Unit {
                self.all[usize::from(number)].names += 1;
            }
            entry.new[i] = number;
            entry.old[i] = std::mem::replace(&mut self.map[usize::from(register)], number);
        }
    }

    /// Takes back what [`Registers::rename`] has done for the youngest entry.
    pub(super) fn undo(&mut self, entry: &Entry) {
        for (i, &register) in entry.needs.writes.iter().enumerate().rev() {
            if register != NONE {
                self.map[usize::from(register)] = entry.old[i];
                self.release(entry.new[i]);
            }
        }
    }

    /// The entry retires: what its registers were before is gone.
    pub(super) fn retire(&mut self, entry: &Entry) {
        for (i, &register) in entry.needs.writes.iter().enumerate() {
            if register != NONE {
                self.release(entry.old[i]);
            }
        }
    }

    /// Registers that are free, by pool: for the check that none is lost.
    #[cfg(test)]
    pub(super) fn free(&self) -> [usize; 3] {
        [0, 1, 2].map(|i| self.free[i].len())
    }
}

/// Why renaming has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Full {
    FrontEnd,
    Serialize,
    ReorderBuffer,
    Scheduler,
    LoadQueue,
    StoreQueue,
    Registers,
}

impl Core {
    /// Renames as many uops as the width allows. Says why not one, if so.
    pub(super) fn rename(&mut self) -> Option<Full> {
        let mut room = self.p.window.rename;
        let mut done = 0;
        let full = loop {
            match self.may_rename(room) {
                Some(full) => break full,
                None => {
                    let weight = self.rename_one();
                    room -= usize::from(weight).min(room);
                    done += 1;
                }
            }
        };
        self.moved |= done > 0;
        (done == 0).then_some(full)
    }

    fn may_rename(&mut self, room: usize) -> Option<Full> {
        if self.cycle < self.rename_from {
            return Some(Full::FrontEnd);
        }
        if self.serial.is_some_and(|until| self.cycle < until) {
            return Some(Full::Serialize);
        }
        self.serial = None;
        let others = self.window.renamed;
        let sizes = &self.p.window;
        let Some((_, entry)) = self.window.next() else { return Some(Full::FrontEnd) };
        if entry.available > self.cycle || usize::from(entry.weight) > room {
            return Some(Full::FrontEnd);
        }
        let unit = entry.needs.how == How::Unit;
        if unit && entry.needs.class == Class::Serialize && others > 0 {
            return Some(Full::Serialize);
        }
        if self.rob + usize::from(entry.weight) > sizes.reorder_buffer {
            return Some(Full::ReorderBuffer);
        }
        if unit && self.waiting >= sizes.scheduler {
            return Some(Full::Scheduler);
        }
        match entry.place {
            Some(place) if place.store && self.stores.len() >= sizes.stores => {
                return Some(Full::StoreQueue);
            }
            Some(place) if !place.store && self.loads >= sizes.loads => {
                return Some(Full::LoadQueue);
            }
            _ => {}
        }
        (!self.registers.enough(entry)).then_some(Full::Registers)
    }

    fn rename_one(&mut self) -> u8 {
        let (name, entry) = self.window.next().expect("it was looked at");
        self.registers.rename(name, entry);
        entry.renamed = true;
        entry.times[1] = self.cycle;
        let weight = entry.weight;
        match entry.place {
            Some(place) if place.store => {
                let token = self.registers.token();
                self.stores.push(name, place, token);
            }
            Some(place) => {
                self.loads += 1;
                if let Some((token, whole)) = self.stores.overlap(place) {
                    entry.forward = if whole { Forward::Whole } else { Forward::Part };
                    self.registers.read(token, name, entry);
                }
            }
            None => {}
        }
        if entry.needs.how == How::Unit {
            self.waiting += 1;
            if entry.needs.class == Class::Serialize {
                self.serial = Some(NEVER);
            }
            if entry.pending == 0 {
                self.awake.push(std::cmp::Reverse((entry.ready.max(self.cycle + 1), name)));
            }
        } else {
            entry.issued = true;
            entry.done = self.cycle + 1;
            entry.times[2] = self.cycle;
        }
        self.window.renamed += 1;
        self.rob += usize::from(weight);
        self.queued -= usize::from(weight);
        weight
    }
}
