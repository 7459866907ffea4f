//! One program on one core without timing: an instruction takes one cycle.

use crate::cpu::{Cpu, flag};
use crate::decode::{self, Blocks};
use crate::elf;
use crate::exec::{execute, for_machine};
use crate::fault::{Error, Fault};
use crate::kernel::{Kernel, Outcome};
use crate::memory::{Memory, Rights};
use crate::uintr;
use crate::uop::{Op, Uop, reg};

/// A program, its memory and its core.
pub struct Machine {
    /// The core.
    pub cpu: Cpu,
    /// The program's memory.
    pub memory: Memory,
    /// What serves system calls.
    pub kernel: Kernel,
    blocks: Blocks,
    clock: u64,
    exit: Option<u8>,
    /// What SENDUIPI has sent, where other cores may be meant.
    pub(crate) sent: Option<uintr::Notification>,
}

impl Machine {
    fn new(cpu: Cpu, memory: Memory, kernel: Kernel) -> Machine {
        Machine { cpu, memory, kernel, blocks: Blocks::default(), clock: 0, exit: None, sent: None }
    }

    /// A machine with a static ELF program and its arguments, of which the first is its name.
    ///
    /// # Errors
    ///
    /// The file is no program for the model.
    pub fn with_program(file: &[u8], arguments: &[&str]) -> Result<Machine, Error> {
        let (mut cpu, mut memory) = (Cpu::default(), Memory::default());
        let loaded = elf::load(file, arguments, &mut memory, &mut cpu)?;
        Ok(Machine::new(cpu, memory, Kernel::new(loaded.end)))
    }

    /// A machine with machine code at an address, and a stack. Pages of code may be written.
    pub fn with_code(address: u64, code: &[u8]) -> Machine {
        let (mut cpu, mut memory) = (Cpu::default(), Memory::default());
        memory.map(address, code.len().max(1) as u64, Rights::ALL);
        memory.poke(address, code);
        memory.map(elf::STACK_TOP - elf::STACK, elf::STACK, Rights::RW);
        cpu.rip = address;
        cpu.r[usize::from(reg::RSP)] = elf::STACK_TOP - 64;
        Machine::new(cpu, memory, Kernel::new(1 << 40))
    }

    /// A machine without a program: what a core has that is given another one when it runs.
    pub(crate) fn empty() -> Machine {
        Machine::new(Cpu::default(), Memory::default(), Kernel::new(0))
    }

    /// The program ends.
    pub(crate) fn end(&mut self, status: u8) {
        self.exit = Some(status);
    }

    /// Instructions executed; a repeated string instruction is one.
    pub fn instructions(&self) -> u64 {
        self.clock
    }

    /// The status with which the program has ended.
    pub fn exit_status(&self) -> Option<u8> {
        self.exit
    }

    /// Runs until the program ends, and says its status.
    ///
    /// # Errors
    ///
    /// An instruction cannot be executed, a call is not served, or the program has not ended after
    /// `limit` instructions in all.
    pub fn run(&mut self, limit: u64) -> Result<u8, Error> {
        loop {
            if let Some(status) = self.exit {
                return Ok(status);
            }
            if self.clock >= limit {
                let address = self.cpu.rip;
                let text = decode::disassemble(&self.memory, address);
                return Err(Error::Endless { address, text, instructions: limit });
            }
            self.interrupts()?;
            let until =
                self.cpu.uintr.timer.deadline.unwrap_or(u64::MAX).clamp(self.clock + 1, limit);
            self.block(until - self.clock)?;
        }
    }

    /// Executes one instruction, after a delivery if one is due.
    ///
    /// # Errors
    ///
    /// As [`Machine::run`].
    pub fn step(&mut self) -> Result<(), Error> {
        self.interrupts()?;
        self.block(1)
    }

    /// Executes the instruction at the current address, which needs the machine, in cycle `now` of
    /// a timing model.
    pub(crate) fn serve(&mut self, now: u64) -> Result<(), Error> {
        self.clock = now;
        self.block(1)
    }

    /// Takes what the timer has to say, and delivers what is requested.
    fn interrupts(&mut self) -> Result<(), Error> {
        if let Some(vector) = self.cpu.uintr.timer.expired(self.clock) {
            self.cpu.uintr.requests |= 1 << vector;
        }
        if self.cpu.uintr.pending() {
            uintr::deliver(&mut self.cpu, &mut self.memory).map_err(|fault| Error::Fault {
                address: self.cpu.rip,
                text: "delivery of a user interrupt before this instruction".to_owned(),
                fault,
            })?;
        }
        Ok(())
    }

    fn failed(&mut self, address: u64, fault: Fault) -> Error {
        self.cpu.rip = address;
        Error::Fault { address, text: decode::disassemble(&self.memory, address), fault }
    }

    /// Executes the block at the current address, but at most `most` instructions, and at least
    /// one.
    fn block(&mut self, most: u64) -> Result<(), Error> {
        let number = match self.blocks.find(&mut self.memory, self.cpu.rip) {
            Ok(number) => number,
            Err(fault) => return Err(self.failed(self.cpu.rip, fault)),
        };
        let block = self.blocks.get(number);
        let (start, count) = (block.start, u64::from(block.instructions));
        if most < count {
            return self.part(number, most);
        }
        let (last, before) = block.uops.split_last().expect("a block has an instruction");
        self.cpu.rip = block.end;
        for uop in before {
            if let Err(fault) = execute(&mut self.cpu, &mut self.memory, uop) {
                let address = start + u64::from(uop.offset);
                self.clock +=
                    before.iter().filter(|u| u.last && u.offset < uop.offset).count() as u64;
                return Err(self.failed(address, fault));
            }
        }
        self.clock += count;
        let last = *last;
        let done = if for_machine(last.op) {
            self.system(&last)
        } else {
            execute(&mut self.cpu, &mut self.memory, &last).map_err(Stop::Fault)
        };
        done.map_err(|stop| {
            self.clock -= 1;
            let address = start + u64::from(last.offset);
            match stop {
                Stop::Fault(fault) => self.failed(address, fault),
                Stop::Call(number) => Error::Call { address, number },
            }
        })
    }

    /// Executes the first `most` instructions of a block, which has more.
    fn part(&mut self, number: usize, most: u64) -> Result<(), Error> {
        let block = self.blocks.get(number);
        let mut left = most;
        for uop in &block.uops {
            let address = block.start + u64::from(uop.offset);
            self.cpu.rip = address + u64::from(uop.length);
            if let Err(fault) = execute(&mut self.cpu, &mut self.memory, uop) {
                return Err(self.failed(address, fault));
            }
            if uop.last {
                self.clock += 1;
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Executes a uop that needs more than registers and memory. The clock counts it already.
    fn system(&mut self, uop: &Uop) -> Result<(), Stop> {
        let now = self.clock - 1;
        match uop.op {
            Op::Syscall => {
                let (next, flags) = (self.cpu.rip, self.cpu.flags);
                self.cpu.set(reg::RCX, 3, next);
                self.cpu.set(reg::R11, 3, flags);
                match self.kernel.call(&mut self.cpu, &mut self.memory, now) {
                    Outcome::Done(value) => self.cpu.set(reg::RAX, 3, value as u64),
                    Outcome::Exit(status) => self.exit = Some(status),
                    Outcome::Unknown(number) => return Err(Stop::Call(number)),
                }
            }
            Op::Cpuid => {
                let leaf = (self.cpu.r[0] as u32, self.cpu.r[1] as u32);
                for (register, value) in
                    [reg::RAX, reg::RBX, reg::RCX, reg::RDX].into_iter().zip(cpuid(leaf.0, leaf.1))
                {
                    self.cpu.set(register, 2, value.into());
                }
            }
            Op::Rdtsc | Op::Rdtscp => {
                self.cpu.set(reg::RAX, 2, now);
                self.cpu.set(reg::RDX, 2, now >> 32);
                if uop.op == Op::Rdtscp {
                    self.cpu.set(reg::RCX, 2, 0);
                }
            }
            // CPUID says that there is no XSAVE.
            Op::Xgetbv => return Err(Stop::Fault(Fault::Invalid)),
            Op::Senduipi => {
                let index = self.cpu.reg(uop.a);
                let sent = uintr::send(&self.cpu, &mut self.memory, index).map_err(Stop::Fault)?;
                if self.kernel.threads.is_some() {
                    self.sent = sent;
                    return Ok(());
                }
                let here =
                    |n: &uintr::Notification| n.destination == 0 && n.vector == self.cpu.uintr.uinv;
                if sent.as_ref().is_some_and(here) {
                    uintr::acknowledge(&mut self.cpu, &mut self.memory).map_err(Stop::Fault)?;
                }
            }
            Op::SetTimer => {
                let (cycles, mode) = (self.cpu.reg(reg::RAX), self.cpu.reg(reg::RDX));
                self.cpu.uintr.timer.set(now, cycles, mode).map_err(Stop::Fault)?;
            }
            _ => self.cpu.uintr.timer.clear().map_err(Stop::Fault)?,
        }
        self.cpu.flags |= flag::FIXED;
        Ok(())
    }
}

enum Stop {
    Fault(Fault),
    Call(u64),
}

/// What the model's processor says of itself: SSE up to 4.1, POPCNT, CMPXCHG16B, UINTR. No XSAVE,
/// so libraries use no AVX unless a program was compiled for it.
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let text = |s: &[u8; 4]| u32::from_le_bytes(*s);
    match (leaf, subleaf) {
        (0, _) => [7, text(b"Quav"), text(b"odel"), text(b"erM ")],
        // FPU TSC MSR CX8 SEP CMOV CLFSH MMX FXSR SSE SSE2; SSE3 SSSE3 CX16 SSE4.1 MOVBE POPCNT
        (1, _) => [0x0008_06f0, 0x0001_0800, 0x00c8_2201, 0x0788_8931],
        // FSGSBASE BMI1 BMI2 ERMS; UINTR
        (7, 0) => [0, 1 | 1 << 3 | 1 << 8 | 1 << 9, 0, 1 << 5],
        (0x8000_0000, _) => [0x8000_0001, 0, 0, 0],
        // LAHF LZCNT; SYSCALL NX RDTSCP LM
        (0x8000_0001, _) => [0, 0, 1 | 1 << 5, 1 << 11 | 1 << 20 | 1 << 27 | 1 << 29],
        _ => [0; 4],
    }
}
