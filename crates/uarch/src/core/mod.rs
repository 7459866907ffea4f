//! The timing model: an out-of-order core, one cycle at a time.
//!
//! The functional core executes each instruction when fetch predicts it ([`crate::speculate`]);
//! the files here say when that would have happened. In a cycle the stages run from the last to the
//! first, so that each sees what the one before it did a cycle ago. A cycle in which nothing can
//! happen is not looked at: time goes on to the next event.
//!
//! ```
//! use quaver_uarch::core::{Config, Core};
//! # fn main() -> Result<(), quaver_uarch::Error> {
//! // mov edi, 42; mov eax, 60; syscall
//! let code = [0xbf, 42, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
//! let machine = quaver_uarch::Machine::with_code(0x40_0000, &code);
//! let report = Core::new(machine, &Config::default()).run()?;
//! assert_eq!((report.status, report.instructions), (42, 3));
//! assert!(report.cycles > 3);
//! # Ok(()) }
//! ```

mod cache;
mod class;
mod config;
mod device;
mod fetch;
mod handler;
mod interrupt;
mod loops;
mod microcode;
mod parameters;
mod predict;
mod rename;
mod report;
mod retire;
mod schedule;
mod seat;
mod serve;
mod timeline;
mod view;
mod window;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use config::{Config, Mechanism, Source, When};
pub use device::{Device, Port};
pub use handler::VECTOR;
pub use microcode::{Step, StepOp};
pub use parameters::{Parameters, SHIPPED};
pub use report::{Latency, Measured, Report, Stalls};
pub(crate) use seat::Context;
pub use timeline::Steps;
pub use view::{Kind, Traced};

use crate::fault::Error;
use crate::kernel::Clock;
use crate::machine::Machine;
use crate::speculate::Speculation;
use fetch::{Blame, Front};
use parameters::{PORTS, Unit};
use rename::Full;
use window::{NEVER, Name};

/// A program on a core with timing.
pub struct Core {
    /// The program, its memory, and its kernel. Its registers are those of the model once
    /// [`Core::run`] has returned.
    pub machine: Box<Machine>,
    /// If set, the addresses of the program's instructions as they retire, without those of the
    /// model's handler.
    pub retired: Option<Vec<u64>>,
    p: Parameters,
    units: Vec<Unit>,
    limit: u64,
    cycle: u64,
    /// Something has happened in this cycle.
    moved: bool,
    ahead: Speculation,
    front: Front,
    predictor: predict::Predictor,
    uop_cache: cache::Cache,
    memory: cache::Hierarchy,
    window: window::Window,
    registers: rename::Registers,
    stores: schedule::Stores,
    /// Weights of what waits for renaming, and of the reorder buffer.
    queued: usize,
    rob: usize,
    /// Uops in the scheduler, and loads in their queue.
    waiting: usize,
    loads: usize,
    /// Steps of the sequence of microcode that is being fetched.
    sequenced: usize,
    /// Renaming waits: for the map to be restored, and for a uop that serialises.
    rename_from: u64,
    serial: Option<u64>,
    /// When uops will be ready, those that are, and branches that will turn out wrong.
    awake: BinaryHeap<Reverse<(u64, Name)>>,
    ready: Vec<Name>,
    resolving: BinaryHeap<Reverse<(u64, Name)>>,
    /// When ports take the next uop.
    busy: [u64; PORTS],
    interrupts: interrupt::Interrupts,
    report: Report,
    view: Option<view::View>,
    device: Option<Box<dyn Device>>,
    timeline: timeline::Timeline,
    /// It fetches nothing: a kernel wants its thread to leave.
    held: bool,
    /// What happens beyond the core, if it is one of several.
    outside: Option<seat::Outside>,
    /// Why it cannot run.
    failed: Option<Error>,
}

impl Core {
    /// A core that has not begun.
    pub fn new(mut machine: Machine, config: &Config) -> Core {
        let outside =
            config.when != When::ByProgram && crate::mechanism::rule(config.mechanism).is_some();
        let failed = if outside { handler::install(&mut machine).err() } else { None };
        let p = config.parameters.clone();
        machine.kernel.clock = Clock { frequency: p.frequency };
        Core {
            failed,
            ahead: Speculation::new(machine.cpu.clone()),
            machine: Box::new(machine),
            retired: None,
            units: p.units.all(),
            limit: config.limit,
            cycle: 0,
            moved: false,
            front: Front {
                resume: 0,
                stopped: None,
                blame: Blame::Nothing,
                line: None,
                fuses: false,
            },
            predictor: predict::Predictor::new(&p.predictor, &p.interrupt),
            uop_cache: cache::Cache::new(p.front.uop_cache_lines, p.front.uop_cache_ways),
            memory: cache::Hierarchy::new(&p.memory),
            window: window::Window::default(),
            registers: rename::Registers::new(&p.window),
            stores: schedule::Stores::default(),
            queued: 0,
            rob: 0,
            waiting: 0,
            loads: 0,
            sequenced: 0,
            rename_from: 0,
            serial: None,
            awake: BinaryHeap::new(),
            ready: Vec::new(),
            resolving: BinaryHeap::new(),
            busy: [0; PORTS],
            interrupts: interrupt::Interrupts::new(config),
            report: Report::default(),
            view: None,
            device: None,
            timeline: timeline::Timeline::default(),
            held: false,
            outside: None,
            p,
        }
    }

    /// Keeps what uops did that were fetched in these cycles, for [`Core::pipeline`].
    pub fn watch(&mut self, cycles: std::ops::Range<u64>) {
        self.view = Some(view::View::new(cycles));
    }

    /// What [`Core::watch`] has kept, in the format of the viewer Konata (`Kanata 0004`).
    pub fn pipeline(&self) -> String {
        self.view.as_ref().map_or_else(String::new, |view| view.text(&self.machine.memory))
    }

    /// What [`Core::watch`] has kept, in the order of fetch.
    pub fn traced(&self) -> Vec<Traced> {
        self.view.as_ref().map_or_else(Vec::new, |view| view.traced(&self.machine.memory))
    }

    fn ended(&self) -> bool {
        self.machine.exit_status().is_some()
    }

    /// Runs until the program ends.
    ///
    /// # Errors
    ///
    /// As [`Machine::run`]; instructions are counted without those of the model's own handler;
    /// and if interrupts from outside are asked for and the program has a handler of its own.
    pub fn run(&mut self) -> Result<Report, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        while !self.ended() {
            self.step()?;
        }
        self.machine.cpu = self.ahead.cpu.clone();
        Ok(self.finish())
    }

    /// Closes the report.
    pub(crate) fn finish(&mut self) -> Report {
        let report = &mut self.report;
        report.status = self.machine.exit_status().unwrap_or_default();
        report.cycles = self.cycle;
        (report.l1_misses, report.l2_misses) = (self.memory.l1_misses, self.memory.l2_misses);
        report.steps = self.timeline.steps();
        let times = &self.interrupts.handler_times;
        report.latency = Latency {
            fetched: self.interrupts.mean_fetched(),
            handler: times.iter().sum::<u64>() as f64 / times.len().max(1) as f64,
            handler_max: times.iter().copied().max().unwrap_or(0),
        };
        report.clone()
    }

    /// How often the model's own handler has run, as the handler itself counted.
    pub fn handled(&self) -> u64 {
        handler::count(&self.machine)
    }

    /// One cycle, or several in which nothing can happen.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        self.moved = false;
        self.arrive();
        self.resolve();
        self.retire()?;
        self.after_retirement();
        self.drain_stores();
        self.issue();
        let full = self.rename();
        self.fetch()?;
        if self.ended() {
            return Ok(());
        }
        let next = if self.moved || !self.ready.is_empty() {
            self.cycle + 1
        } else {
            self.next_event().ok_or_else(|| self.still())?
        };
        if let Some(full) = full {
            self.blame(full, next - self.cycle);
        } else {
            self.front.blame = Blame::Nothing;
        }
        self.cycle = next;
        Ok(())
    }

    /// The first cycle after this one in which something can happen.
    fn next_event(&mut self) -> Option<u64> {
        let after = |time: u64| if time > self.cycle { time } else { NEVER };
        let times = [
            self.awake.peek().map_or(NEVER, |Reverse((time, _))| *time),
            self.resolving.peek().map_or(NEVER, |Reverse((time, _))| *time),
            after(self.front.resume),
            after(self.rename_from),
            self.serial.map_or(NEVER, after),
            self.window.front().map_or(NEVER, |entry| after(entry.done)),
            self.stores.next().map_or(NEVER, after),
            self.interrupts.next_event(),
            self.device_event(),
        ];
        let available = self.window.next().map_or(NEVER, |(_, entry)| entry.available);
        let available = if available > self.cycle { available } else { NEVER };
        let first = times.into_iter().fold(available, u64::min);
        (first != NEVER).then(|| first.max(self.cycle + 1))
    }

    /// A mistake of the model's.
    fn still(&self) -> Error {
        Error::Parameters(format!(
            "the model stands still in cycle {} at {:#x}: with these values no uop can go on",
            self.cycle, self.ahead.cpu.rip
        ))
    }

    fn blame(&mut self, full: Full, cycles: u64) {
        let stalls = &mut self.report.stalls;
        let count = match (full, self.front.blame) {
            (Full::FrontEnd, Blame::Nothing) => &mut stalls.front_end,
            (Full::FrontEnd, Blame::Code) => &mut stalls.instruction_cache,
            (Full::FrontEnd, Blame::Mispredict) => &mut stalls.mispredict,
            (Full::FrontEnd, Blame::Interrupt) => &mut stalls.interrupt,
            (Full::Serialize, _) => &mut stalls.serialize,
            (Full::ReorderBuffer, _) => &mut stalls.reorder_buffer,
            (Full::Scheduler, _) => &mut stalls.scheduler,
            (Full::LoadQueue, _) => &mut stalls.load_queue,
            (Full::StoreQueue, _) => &mut stalls.store_queue,
            (Full::Registers, _) => &mut stalls.registers,
        };
        *count += cycles;
    }
}

/// Runs a program twice: as `config` says, and without interrupts. `machine` makes one that is
/// ready to run; it is called for each.
///
/// # Errors
///
/// As [`Machine::run`].
pub fn measure(
    machine: impl Fn() -> Result<Machine, Error>,
    config: &Config,
) -> Result<Measured, Error> {
    let without = Config { mechanism: Mechanism::None, when: When::ByProgram, ..config.clone() };
    let baseline = Core::new(machine()?, &without).run()?;
    let run = Core::new(machine()?, config).run()?;
    Ok(Measured { baseline, run })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squashes_lose_no_register() {
        // xorshift in rax, and a branch on one of its bits; 5000 times, with interrupts.
        let code = [
            0xb9, 0x88, 0x13, 0, 0, 0x48, 0xc7, 0xc0, 0x45, 0x23, 1, 0, 0x48, 0x89, 0xc2, 0x48,
            0xc1, 0xe2, 13, 0x48, 0x31, 0xd0, 0x48, 0x89, 0xc2, 0x48, 0xc1, 0xea, 7, 0x48, 0x31,
            0xd0, 0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 17, 0x48, 0x31, 0xd0, 0x48, 0x89, 0x04, 0x24,
            0xa8, 16, 0x74, 4, 0x66, 0x0f, 0xef, 0xff, 0xff, 0xc9, 0x75, 0xd2, 0xb8, 60, 0, 0, 0,
            0x0f, 0x05,
        ];
        for mechanism in [Mechanism::Flush, Mechanism::Drain, Mechanism::Tracked] {
            let config = Config { mechanism, when: When::Every(700), ..Config::default() };
            let mut core = Core::new(Machine::with_code(0x40_0000, &code), &config);
            let before = core.registers.free();
            let report = core.run().unwrap();
            assert!(report.squashed > 10_000 && report.interrupts > 10, "{report:?}");
            // Names that share a register leave more of them free.
            let after = core.registers.free();
            assert!(after[0] >= before[0] && after[1] >= before[1], "{before:?} {after:?}");
            assert!(after[2] + core.stores.len() >= before[2], "{before:?} {after:?}");
            assert_eq!((core.rob, core.queued, core.waiting, core.loads), (0, 0, 0, 0));
        }
    }
}
