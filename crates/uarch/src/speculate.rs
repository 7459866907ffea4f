//! Instructions along predicted paths, with a journal: the seam to the timing model.
//!
//! [`Speculation::fetch`] executes the instruction at the current address at once, right or wrong.
//! [`Speculation::undo`] takes back the youngest ones, [`Speculation::retire`] makes the oldest
//! ones final. Between the two, instructions are numbered in the order of their fetch.
//!
//! Invariant: undoing all instructions that are not retired gives registers and memory as the
//! retired ones have left them, whatever was fetched in between.

use std::collections::VecDeque;
use std::ops::Range;

use crate::cpu::{Cpu, Vector};
use crate::decode::Blocks;
use crate::exec::{execute, for_machine};
use crate::fault::Fault;
use crate::memory::{Bus, Memory};
use crate::uintr::{self, Uintr};
use crate::uop::{Op, Uop, reg};
use crate::vop::Vop;

/// A load or store of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The first byte.
    pub address: u64,
    /// How many.
    pub bytes: u8,
    /// It is a store.
    pub store: bool,
    /// Which uop of the instruction.
    pub uop: u8,
}

/// An instruction that was fetched.
#[derive(Debug)]
pub struct Fetched<'a> {
    /// Its number.
    pub number: u64,
    /// Where it is.
    pub address: u64,
    /// Where the program goes next, if the instruction is on its path.
    pub next: u64,
    /// What it is made of.
    pub uops: &'a [Uop],
    /// What it did to memory, in order.
    pub accesses: &'a [Access],
}

/// Why an instruction was not fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It faults. On a wrong path this means nothing; fetch waits for the squash.
    Fault(Fault),
    /// It needs the machine (a system call, SENDUIPI, ...), or other cores may see it: not before
    /// all others have retired.
    Machine,
}

/// What a store has overwritten.
struct Overwritten {
    address: u64,
    bytes: u8,
    content: [u8; 32],
}

impl Overwritten {
    /// Exchanges what is in memory with what is kept here.
    fn exchange(&mut self, memory: &mut Memory) {
        let length = usize::from(self.bytes);
        let mut now = [0; 32];
        memory.peek(self.address, &mut now[..length]);
        memory.poke(self.address, &self.content[..length]);
        self.content = now;
    }
}

/// What an instruction may have changed, and its share of the other journals.
struct Before {
    r: [u64; 32],
    flags: u64,
    rip: u64,
    mxcsr: u32,
    uintr: Uintr,
    stores: u32,
    vectors: u32,
}

/// Memory that remembers what was there.
struct Journal<'a> {
    memory: &'a mut Memory,
    stores: &'a mut VecDeque<Overwritten>,
    accesses: &'a mut Vec<Access>,
    uop: u8,
}

impl Bus for Journal<'_> {
    fn load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Fault> {
        let bytes = self.memory.load(address)?;
        self.accesses.push(Access { address, bytes: N as u8, store: false, uop: self.uop });
        Ok(bytes)
    }

    fn store<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Fault> {
        let mut content = [0; 32];
        let mapped = self.memory.peek(address, &mut content[..N]);
        self.memory.store(address, bytes)?;
        debug_assert!(mapped, "what can be stored to can be read");
        self.stores.push_back(Overwritten { address, bytes: N as u8, content });
        self.accesses.push(Access { address, bytes: N as u8, store: true, uop: self.uop });
        Ok(())
    }
}

/// A core that runs ahead.
pub struct Speculation {
    /// The registers after the youngest instruction. A predictor that goes elsewhere sets `rip`.
    pub cpu: Cpu,
    blocks: Blocks,
    log: VecDeque<Before>,
    stores: VecDeque<Overwritten>,
    vectors: VecDeque<(u8, Vector)>,
    accesses: Vec<Access>,
    /// The number of the oldest instruction that has not retired.
    oldest: u64,
    /// Other cores have the memory too: ordered instructions wait until all before them have
    /// retired.
    pub(crate) shared: bool,
}

impl Speculation {
    /// Begins with these registers.
    pub fn new(cpu: Cpu) -> Speculation {
        Speculation {
            cpu,
            blocks: Blocks::default(),
            log: VecDeque::new(),
            stores: VecDeque::new(),
            vectors: VecDeque::new(),
            accesses: Vec::new(),
            oldest: 0,
            shared: false,
        }
    }

    /// The numbers of the instructions in flight: fetched and not retired.
    pub fn in_flight(&self) -> Range<u64> {
        self.oldest..self.oldest + self.log.len() as u64
    }

    /// Executes the instruction at `cpu.rip`.
    ///
    /// # Errors
    ///
    /// It faults, or is not for a core alone. Nothing has changed then.
    pub fn fetch(&mut self, memory: &mut Memory) -> Result<Fetched<'_>, Stop> {
        let address = self.cpu.rip;
        let block = self.blocks.find(memory, address).map_err(Stop::Fault)?;
        let uops = &self.blocks.get(block).uops;
        let end = uops.iter().position(|uop| uop.last).expect("an instruction has a last uop");
        if for_machine(uops[end].op) || self.shared && uops[end].ordered && !self.log.is_empty() {
            return Err(Stop::Machine);
        }
        let cpu = &mut self.cpu;
        self.log.push_back(Before {
            r: cpu.r,
            flags: cpu.flags,
            rip: address,
            mxcsr: cpu.mxcsr,
            uintr: cpu.uintr.clone(),
            stores: 0,
            vectors: 0,
        });
        self.accesses.clear();
        let (stores, vectors) = (self.stores.len(), self.vectors.len());
        cpu.rip = address + u64::from(uops[0].length);
        let mut done = Ok(());
        for (i, uop) in uops[..=end].iter().enumerate() {
            keep_vectors(cpu, uop, &mut self.vectors);
            let mut journal = Journal {
                memory,
                stores: &mut self.stores,
                accesses: &mut self.accesses,
                uop: i as u8,
            };
            done = execute(cpu, &mut journal, uop);
            if done.is_err() {
                break;
            }
        }
        let before = self.log.back_mut().expect("it was pushed");
        before.stores = (self.stores.len() - stores) as u32;
        before.vectors = (self.vectors.len() - vectors) as u32;
        if let Err(fault) = done {
            self.undo_one(memory);
            return Err(Stop::Fault(fault));
        }
        Ok(Fetched {
            number: self.oldest + self.log.len() as u64 - 1,
            address,
            next: self.cpu.rip,
            uops: &self.blocks.get(block).uops[..=end],
            accesses: &self.accesses,
        })
    }

    /// Delivers a user interrupt here, as if it were an instruction: its number and what it stored.
    ///
    /// # Errors
    ///
    /// The stack cannot be written. Nothing has changed then.
    pub fn deliver(
        &mut self,
        memory: &mut Memory,
        vector: u8,
    ) -> Result<(u64, Vec<Access>), Fault> {
        let cpu = &mut self.cpu;
        self.log.push_back(Before {
            r: cpu.r,
            flags: cpu.flags,
            rip: cpu.rip,
            mxcsr: cpu.mxcsr,
            uintr: cpu.uintr.clone(),
            stores: 0,
            vectors: 0,
        });
        self.accesses.clear();
        let stores = self.stores.len();
        cpu.uintr.requests = 1 << vector;
        let mut journal =
            Journal { memory, stores: &mut self.stores, accesses: &mut self.accesses, uop: 0 };
        let done = uintr::deliver(cpu, &mut journal);
        let before = self.log.back_mut().expect("it was pushed");
        before.stores = (self.stores.len() - stores) as u32;
        if let Err(fault) = done {
            self.undo_one(memory);
            return Err(fault);
        }
        Ok((self.oldest + self.log.len() as u64 - 1, self.accesses.clone()))
    }

    /// The last uop of the instruction at `cpu.rip`, if there is code.
    pub fn upcoming(&mut self, memory: &mut Memory) -> Option<Uop> {
        let block = self.blocks.find(memory, self.cpu.rip).ok()?;
        self.blocks.get(block).uops.iter().find(|uop| uop.last).copied()
    }

    /// Whether interrupts may be delivered behind the youngest retired instruction.
    pub fn oldest_flag(&self) -> bool {
        self.log.front().map_or(self.cpu.uintr.uif, |before| before.uintr.uif)
    }

    /// Where instruction `number`, which is in flight, goes.
    ///
    /// # Panics
    ///
    /// If it is not in flight.
    pub fn next_of(&self, number: u64) -> u64 {
        assert!(self.in_flight().contains(&number), "instruction {number} is not in flight");
        let next = (number + 1 - self.oldest) as usize;
        self.log.get(next).map_or(self.cpu.rip, |before| before.rip)
    }

    /// Takes back all instructions from `number` on. `cpu.rip` is then the address of that one.
    ///
    /// # Panics
    ///
    /// If that instruction has retired.
    pub fn undo(&mut self, memory: &mut Memory, number: u64) {
        assert!(number >= self.oldest, "instruction {number} has retired");
        while self.in_flight().end > number {
            self.undo_one(memory);
        }
    }

    /// Makes all instructions before `number` final.
    ///
    /// # Panics
    ///
    /// If they have not been fetched.
    pub fn retire(&mut self, number: u64) {
        assert!(number <= self.in_flight().end, "instruction {number} has not been fetched");
        while self.oldest < number {
            let before = self.log.pop_front().expect("it is in flight");
            self.stores.drain(..before.stores as usize);
            self.vectors.drain(..before.vectors as usize);
            self.oldest += 1;
        }
    }

    /// Reads what those beside the core see: memory without the stores in flight. Says whether all
    /// of it is mapped.
    pub fn read_outside(&self, memory: &Memory, address: u64, bytes: &mut [u8]) -> bool {
        let mapped = memory.peek(address, bytes);
        for store in self.stores.iter().rev() {
            for (i, byte) in bytes.iter_mut().enumerate() {
                let place = address.wrapping_add(i as u64).wrapping_sub(store.address);
                if place < u64::from(store.bytes) {
                    *byte = store.content[place as usize];
                }
            }
        }
        mapped
    }

    /// Writes from beside the core. Stores in flight come later: they stay, and what undoing them
    /// restores is what is written here. Says whether all of it is mapped.
    pub fn write_outside(&mut self, memory: &mut Memory, address: u64, bytes: &[u8]) -> bool {
        let mut now = bytes.to_vec();
        for (i, &byte) in bytes.iter().enumerate() {
            let address = address.wrapping_add(i as u64);
            let covers = |store: &&mut Overwritten| {
                address.wrapping_sub(store.address) < u64::from(store.bytes)
            };
            if let Some(store) = self.stores.iter_mut().find(covers) {
                store.content[(address - store.address) as usize] = byte;
                // What the youngest of them has stored.
                memory.peek(address, &mut now[i..=i]);
            }
        }
        memory.poke(address, &now)
    }

    /// Takes the stores in flight out of memory, so that it is as other cores see it. Nothing else
    /// may be called until [`Speculation::show`] has put them back.
    pub(crate) fn hide(&mut self, memory: &mut Memory) {
        self.stores.iter_mut().rev().for_each(|store| store.exchange(memory));
    }

    /// Puts the stores in flight into memory again, over what others have written meanwhile.
    pub(crate) fn show(&mut self, memory: &mut Memory) {
        self.stores.iter_mut().for_each(|store| store.exchange(memory));
    }

    fn undo_one(&mut self, memory: &mut Memory) {
        let before = self.log.pop_back().expect("there is an instruction in flight");
        for _ in 0..before.stores {
            let old = self.stores.pop_back().expect("each instruction has its stores");
            memory.poke(old.address, &old.content[..usize::from(old.bytes)]);
        }
        for _ in 0..before.vectors {
            let (number, value) = self.vectors.pop_back().expect("each has its registers");
            *self.cpu.vector_mut(number) = value;
        }
        let cpu = &mut self.cpu;
        (cpu.r, cpu.flags, cpu.rip) = (before.r, before.flags, before.rip);
        (cpu.mxcsr, cpu.uintr) = (before.mxcsr, before.uintr);
    }
}

/// Remembers the vector registers that a uop will change.
fn keep_vectors(cpu: &Cpu, uop: &Uop, to: &mut VecDeque<(u8, Vector)>) {
    match uop.op {
        Op::Vector if matches!(Vop::ALL[usize::from(uop.aux)], Vop::Zeroupper | Vop::Zeroall) => {
            to.extend((0..16).map(|i| (i, *cpu.vector(i))));
        }
        // Of those with a general register as destination one too many is kept.
        Op::Vector | Op::LoadVector if uop.dst < reg::VT => {
            to.push_back((uop.dst, *cpu.vector(uop.dst)));
        }
        _ => {}
    }
}
