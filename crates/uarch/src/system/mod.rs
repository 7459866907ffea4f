//! Several cores with one memory, and a minimal kernel that multiplexes threads over them: the slow
//! paths of user interrupts (xUI 3.2, 4.3, 4.5).
//!
//! Each core is the timing model's. The one whose time is the earliest goes next; its stores in
//! flight are in memory only meanwhile, so that others see what has retired. A line that a core
//! writes leaves the others' caches, UPIDs included.
//!
//! The kernel is no program: it changes state when a core is quiet, and what it takes is a
//! parameter.

pub(crate) mod request;
mod schedule;
mod slow;

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::core::{Config, Context, Core, Report};
use crate::fault::Error;
use crate::kernel::{Clock, Output, Threads, UINV};
use crate::machine::Machine;
use crate::mechanism::forwarding::{LocalApic, Route, Vectors};
pub use request::FIRST_DEVICE;
use schedule::{Leave, State};
pub use slow::Slow;

/// Never.
const NEVER: u64 = u64::MAX;

/// What a core has done.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CoreReport {
    /// Cycles in which it had no thread.
    pub idle: u64,
    /// Cycles that the kernel took.
    pub kernel: u64,
    /// Threads that began to run here.
    pub switches: u64,
    /// Slow paths.
    #[serde(flatten)]
    pub slow: Slow,
    /// Its pipeline.
    #[serde(flatten)]
    pub core: Report,
}

/// What a run has found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SystemReport {
    /// The program's status.
    pub status: u8,
    /// Until its end.
    pub cycles: u64,
    /// Of all cores.
    pub instructions: u64,
    /// User interrupts delivered.
    pub interrupts: u64,
    /// Each core.
    pub cores: Vec<CoreReport>,
}

/// A thread of the program.
struct Thread {
    /// Its registers while it does not run.
    context: Option<Context>,
    core: usize,
    state: State,
    /// `forwarded_active` while it runs.
    forwarded: Vectors,
    /// When its alarm rings, and in which periods.
    alarm: u64,
    period: u64,
    /// The registers that a signal's handler returns to.
    interrupted: Option<Box<crate::cpu::Cpu>>,
}

/// A core and what the kernel knows of it.
struct Seat {
    core: Core,
    apic: LocalApic,
    running: Option<usize>,
    ready: VecDeque<usize>,
    /// Interrupts under way to the core: when they arrive, in which order they were sent, the
    /// vector.
    messages: BTreeMap<(u64, u64), u8>,
    leaving: Option<Leave>,
    /// The cycle in which it was last looked at, and since when it is as it is: idle, or with its
    /// thread.
    last: u64,
    since: u64,
    idle: u64,
    kernel: u64,
    switches: u64,
    slow: Slow,
}

/// A program on several cores.
pub struct System {
    /// The program and its memory. Its cores are those of the system.
    pub machine: Box<Machine>,
    seats: Vec<Seat>,
    threads: Vec<Thread>,
    /// Whose interrupts a forwarded vector is.
    owners: BTreeMap<u8, usize>,
    p: crate::core::Parameters,
    /// Cycles after which a thread makes way for another one that is ready.
    quantum: u64,
    sent: u64,
}

impl System {
    /// A system that has not begun, with so many cores; `quantum` in cycles. Interrupts come from
    /// the program alone, or from [`System::interrupt`]: `config.when` and `config.source` do not
    /// count.
    ///
    /// # Panics
    ///
    /// If there is no core, or more than 64.
    pub fn new(mut machine: Machine, config: &Config, cores: usize, quantum: u64) -> System {
        assert!((1..=64).contains(&cores), "from 1 to 64 cores");
        machine.kernel.threads = Some(Threads::new());
        machine.kernel.clock = Clock { frequency: config.parameters.frequency };
        let config = Config { when: crate::core::When::ByProgram, ..config.clone() };
        let seat = |_| {
            let mut core = Core::new(Machine::empty(), &config);
            core.share();
            core.hold();
            Seat {
                core,
                apic: LocalApic::default(),
                running: None,
                ready: VecDeque::new(),
                messages: BTreeMap::new(),
                leaving: None,
                last: 0,
                since: 0,
                idle: 0,
                kernel: 0,
                switches: 0,
                slow: Slow::default(),
            }
        };
        let mut system = System {
            seats: (0..cores).map(seat).collect(),
            threads: Vec::new(),
            owners: BTreeMap::new(),
            p: config.parameters.clone(),
            quantum: quantum.max(1),
            sent: 0,
            machine: Box::new(machine),
        };
        let cpu = system.machine.cpu.clone();
        system.add(cpu, 0);
        system
    }

    /// An interrupt of a device arrives at a core in this cycle, with a vector of the core's.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn interrupt(&mut self, core: usize, cycle: u64, vector: u8) {
        self.send(core, cycle, vector);
    }

    /// What the program has written, if it was kept.
    pub fn output(&self) -> &[u8] {
        match &self.machine.kernel.output {
            Output::Keep(bytes) => bytes,
            Output::Echo => &[],
        }
    }

    /// Runs until the program ends.
    ///
    /// # Errors
    ///
    /// As [`Core::run`]; and if all threads wait for what will not come.
    pub fn run(&mut self) -> Result<SystemReport, Error> {
        let mut cycles = 0;
        while self.machine.exit_status().is_none() {
            let times = (0..self.seats.len()).map(|at| (self.time(at), at));
            let (time, at) = times.min().expect("there is a core");
            if time == NEVER {
                return Err(Error::Program(
                    "all threads wait, and nothing will wake them".to_owned(),
                ));
            }
            cycles = time;
            self.events(at, time);
            if self.seats[at].running.is_none() {
                self.seats[at].last = time;
            } else if self.seats[at].core.quiet() {
                self.leave(at)?;
            } else {
                self.step(at)?;
            }
        }
        Ok(self.report(cycles))
    }

    fn report(&mut self, cycles: u64) -> SystemReport {
        let status = self.machine.exit_status().unwrap_or_default();
        let mut cores = Vec::new();
        for seat in &mut self.seats {
            let idle = if seat.running.is_none() { cycles.saturating_sub(seat.since) } else { 0 };
            let core = Report { status, cycles, ..seat.core.finish() };
            let (idle, kernel) = (seat.idle + idle, seat.kernel);
            cores.push(CoreReport { idle, kernel, switches: seat.switches, slow: seat.slow, core });
        }
        SystemReport {
            status,
            cycles,
            instructions: cores.iter().map(|core| core.core.instructions).sum(),
            interrupts: cores.iter().map(|core| core.core.interrupts).sum(),
            cores,
        }
    }

    /// When a core goes on.
    fn time(&self, at: usize) -> u64 {
        let seat = &self.seats[at];
        if seat.running.is_some() {
            seat.core.now()
        } else if seat.ready.is_empty() {
            self.next_event(at).max(seat.last)
        } else {
            seat.since
        }
    }

    /// A core goes on with its thread.
    fn step(&mut self, at: usize) -> Result<(), Error> {
        let alone = self.seats.len() == 1;
        let seat = &mut self.seats[at];
        let kernel = self.machine.kernel.threads.as_mut().expect("there are threads");
        (kernel.thread, kernel.core) = (seat.running.expect("it has one"), at);
        std::mem::swap(&mut self.machine, &mut seat.core.machine);
        seat.last = seat.core.now();
        let done = if alone {
            seat.core.step()
        } else {
            seat.core.show();
            let done = seat.core.step();
            seat.core.hide();
            done
        };
        std::mem::swap(&mut self.machine, &mut seat.core.machine);
        done?;
        let outside = seat.core.outside();
        let (sent, stored) =
            (std::mem::take(&mut outside.sent), std::mem::take(&mut outside.stored));
        let (before, rest) = self.seats.split_at_mut(at);
        for other in before.iter_mut().chain(&mut rest[1..]) {
            stored.iter().for_each(|&address| other.core.lose_line(address));
        }
        for (time, notification) in sent {
            self.seats[at].slow.notifications += 1;
            let to = notification.destination as usize;
            if to < self.seats.len() {
                self.send(to, time, notification.vector);
            }
        }
        let kernel = self.machine.kernel.threads.as_mut().expect("there are threads");
        if let Some(request) = kernel.asked.take() {
            self.serve(at, request);
        }
        let (next, last) = (self.next_event(at), self.seats[at].last);
        self.seats[at].core.not_beyond(next, last);
        Ok(())
    }

    /// A message goes to a local APIC, and arrives there in this cycle.
    fn send(&mut self, to: usize, time: u64, vector: u8) {
        self.sent += 1;
        let seat = &mut self.seats[to];
        seat.messages.insert((time, self.sent), vector);
        if seat.running.is_some() {
            seat.core.not_beyond(time, seat.last);
        }
    }

    /// What has arrived at a core.
    fn arrivals(&mut self, at: usize, time: u64) {
        while let Some(entry) = self.seats[at].messages.first_entry() {
            if entry.key().0 > time {
                break;
            }
            let vector = entry.remove();
            let seat = &mut self.seats[at];
            // Also if the thread is about to leave: what the core has not taken then is in the
            // UPID, or in UIRR.
            let running = seat.running.is_some();
            let takes = running && seat.core.cpu().uintr.upid != 0;
            match seat.apic.route(vector, takes.then_some(UINV)) {
                Route::Notification => {
                    if !self.posted(at) {
                        self.seats[at].slow.stale += 1;
                    }
                    self.seats[at].core.notified();
                }
                Route::Thread(user) if running => seat.core.forwarded(user),
                Route::Thread(user) | Route::Kernel(user) => {
                    seat.slow.kept += 1;
                    if let Some(&owner) = self.owners.get(&vector) {
                        slow::keep(&mut self.machine.memory, owner, user);
                        if self.threads[owner].state == State::Asleep(NEVER) {
                            self.wake(owner, time);
                        }
                    }
                    self.trap(at);
                }
                // What it announces is in a UPID, where the kernel finds it when the thread runs.
                Route::Conventional => {
                    seat.slow.stale += u64::from(vector == UINV);
                    self.trap(at);
                }
            }
        }
    }

    /// Whether something is posted to the thread that runs on a core.
    fn posted(&mut self, at: usize) -> bool {
        let upid = self.seats[at].core.cpu().uintr.upid;
        let mut bytes = [0; 8];
        self.machine.memory.peek(upid + 8, &mut bytes) && bytes != [0; 8]
    }
}
