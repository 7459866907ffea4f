//! Fetch: executes instructions along the predicted path, and hands their uops to the window.

use super::class::{How, NONE, Needs, needs};
use super::microcode::{Step, StepOp};
use super::parameters::Class;
use super::predict::{Branch, Kind};
use super::window::{Entry, Forward, NEVER, Origin, Place, UNNUMBERED};
use super::{Core, class};
use crate::decode;
use crate::fault::{Error, Fault};
use crate::mechanism::Action;
use crate::speculate::{Access, Stop};
use crate::uop::{Op, Uop, reg};

/// Why the front end has nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blame {
    Nothing,
    Code,
    Mispredict,
    Interrupt,
}

/// Why fetch waits for something that is not a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stopped {
    /// There is nothing to fetch: on a wrong path, or the program's end.
    Fault(Fault),
    /// An instruction for the machine waits until all before it have retired.
    Machine,
    /// The address is known when a uop in flight has executed.
    Branch,
    /// A mechanism waits until all in flight have retired.
    Hold,
}

/// The state of fetch.
pub(super) struct Front {
    /// It does nothing before this cycle.
    pub(super) resume: u64,
    pub(super) stopped: Option<Stopped>,
    pub(super) blame: Blame,
    /// The line of code that it is in, and whether its uops are in the uop cache.
    pub(super) line: Option<(u64, bool)>,
    /// The instruction before this one can be fused with a branch.
    pub(super) fuses: bool,
}

/// Bytes of code whose uops are one line of the uop cache. No parameter:
/// `front.uop_cache_lines` counts lines of this size.
const LINE: u64 = 64;

impl Core {
    /// Fetches for one cycle.
    ///
    /// # Errors
    ///
    /// An instruction on the program's path cannot be executed, or is not served.
    pub(super) fn fetch(&mut self) -> Result<(), Error> {
        if self.cycle < self.front.resume || self.held {
            return Ok(());
        }
        match self.front.stopped {
            Some(Stopped::Machine) if self.window.is_empty() => return self.serve(),
            Some(Stopped::Fault(fault)) if self.window.is_empty() => {
                return Err(self.fault(fault));
            }
            Some(Stopped::Hold) | None => {}
            Some(_) => return Ok(()),
        }
        let mut room = self.p.front.width;
        let mut lines = 0;
        let mut block = None;
        while room > 0 && self.queued < self.p.front.queue {
            match self.before_fetch() {
                Action::Go => self.front.stopped = None,
                Action::Hold => {
                    self.front.stopped = Some(Stopped::Hold);
                    return Ok(());
                }
                Action::Inject => {
                    self.inject();
                    return Ok(());
                }
                Action::Squash => unreachable!("only retirement squashes"),
            }
            let address = self.ahead.cpu.rip;
            let here = Some(address / self.p.front.bytes);
            if block.is_some() && block != here {
                return Ok(());
            }
            block = here;
            if self.front.line.is_none_or(|(line, _)| line != address / LINE) {
                lines += 1;
                // Two lines of the uop cache in a cycle.
                if lines > 2 || !self.enter_line(address) {
                    return Ok(());
                }
            }
            let Some((weight, ends)) = self.fetch_one() else { return Ok(()) };
            self.moved = true;
            room -= weight.min(room);
            if ends {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Looks for a line of code. False if it takes time.
    fn enter_line(&mut self, address: u64) -> bool {
        let line = address / LINE;
        if self.uop_cache.find(line).is_some() {
            self.front.line = Some((line, true));
            return true;
        }
        self.uop_cache.fill(line, 0);
        self.front.line = Some((line, false));
        let wait = self.memory.code(address, self.cycle);
        if wait > 0 {
            self.front.resume = self.cycle + wait;
            self.front.blame = Blame::Code;
            self.moved = true;
            return false;
        }
        true
    }

    /// Whether uops of the code at `address` come out of the uop cache, without being decoded.
    pub(super) fn in_uop_cache(&self, address: u64) -> bool {
        let line = address / LINE;
        match self.front.line {
            Some((now, cached)) if now == line => cached,
            _ => self.uop_cache.holds(line),
        }
    }

    /// Fetches one instruction. Says its weight, and whether the cycle's fetch ends with it;
    /// nothing if there is none.
    fn fetch_one(&mut self) -> Option<(usize, bool)> {
        let fetched = match self.ahead.fetch(&mut self.machine.memory) {
            Ok(fetched) => fetched,
            Err(stop) => {
                self.moved = true;
                self.front.stopped = Some(match stop {
                    Stop::Fault(fault) => Stopped::Fault(fault),
                    Stop::Machine => Stopped::Machine,
                });
                return None;
            }
        };
        let uops = fetched.uops;
        let last = uops[uops.len() - 1];
        let cached = self.front.line.is_some_and(|(_, cached)| cached);
        let decode = if cached { 0 } else { self.p.front.decode };
        let mut entry = Entry {
            number: fetched.number,
            weight: 0,
            safepoint: self.interrupts.safepoints.bit(last.safepoint, cached),
            available: self.cycle + self.p.front.depth + decode,
            ..Self::blank(self.cycle, fetched.address, Origin::Program)
        };
        let branch = branch_of(fetched.address, uops);
        let next = fetched.next;
        if last.op == Op::Uiret {
            let accesses: Vec<Access> = fetched.accesses.to_vec();
            let steps = self.p.microcode.uiret.clone();
            self.far(&mut entry, Kind::Uiret, 0, next);
            entry.available = 0;
            self.sequence(&steps, &accesses, &entry, true);
            return Some((self.p.front.width, true));
        }
        let strings = matches!(last.op, Op::Movs | Op::Stos | Op::Lods | Op::Scas | Op::Cmps);
        let mut total = 0;
        if strings || last.op == Op::CmpXchg16 {
            total = string(&mut self.window, entry, fetched.accesses, strings);
        } else {
            let mut accesses = fetched.accesses.iter().peekable();
            let mut weights = 0;
            for (i, uop) in uops.iter().enumerate() {
                let mut one = Entry { needs: needs(uop), ..entry_like(&entry) };
                one.first = i == 0;
                one.last = i + 1 == uops.len();
                one.vector = uop.op == Op::LoadVector;
                one.weight = weight(uop, &one.needs, one.last);
                if one.last && last.op == Op::Jcc && self.front.fuses && i == 0 {
                    one.weight = 0;
                } else if one.last && weights == 0 {
                    one.weight = one.weight.max(1);
                }
                if let Some(access) = accesses.next_if(|access| usize::from(access.uop) == i) {
                    one.place = Some(place(access));
                }
                one.latency = match uop.op {
                    Op::Clui => self.p.interrupt.clui,
                    Op::Stui if !self.p.interrupt.flag_renamed => self.p.interrupt.stui,
                    _ => 0,
                };
                if uop.op == Op::Stui && !self.p.interrupt.flag_renamed {
                    one.needs.class = Class::Serialize;
                }
                weights += usize::from(one.weight);
                if !one.last {
                    self.window.push(one);
                    continue;
                }
                entry = one;
            }
            total += weights;
            let mut ends = false;
            if let Some(branch) = branch {
                let guess = self.predictor.guess(&branch);
                entry.branch = Some((branch, guess.before));
                if guess.next != Some(next) {
                    entry.resolves = Some(next);
                }
                match guess.next {
                    Some(to) => self.ahead.cpu.rip = to,
                    None => self.front.stopped = Some(Stopped::Branch),
                }
                if guess.late {
                    self.front.resume = self.cycle + self.p.front.resteer;
                }
                ends = guess.next != Some(branch.behind);
            }
            self.window.push(entry);
            self.queued += total;
            self.front.fuses = fusable(&last);
            if ends {
                self.front.line = None;
            }
            return Some((total, ends));
        }
        self.queued += total;
        self.front.fuses = false;
        Some((total, true))
    }

    /// Predicts where the microcode of a delivery or of UIRET goes; `next` is where it will go, and
    /// `back` where a handler will return to. Fetch is to go on there.
    pub(super) fn far(&mut self, like: &mut Entry, kind: Kind, back: u64, next: u64) {
        let branch = Branch { kind, address: like.address, behind: back, target: next };
        let guess = self.predictor.guess(&branch);
        like.branch = Some((branch, guess.before));
        like.resolves = (guess.next != Some(next)).then_some(next);
        match guess.next {
            Some(to) => self.ahead.cpu.rip = to,
            None => self.front.stopped = Some(Stopped::Branch),
        }
        self.front.blame = Blame::Interrupt;
    }

    /// Hands a sequence of microcode to the window. `like` is what all its uops have in common; its
    /// `available` is a delay.
    pub(super) fn sequence(
        &mut self,
        steps: &[Step],
        accesses: &[Access],
        like: &Entry,
        ends: bool,
    ) {
        let front = &self.p.front;
        let mut accesses = accesses.iter();
        let upid = Place { address: self.ahead.cpu.uintr.upid, bytes: 8, store: false };
        let count: usize = steps.iter().map(|step| step.count as usize).sum();
        let mut done = 0;
        for step in steps {
            for _ in 0..step.count {
                let mut one = entry_like(like);
                one.first = like.first && done == 0;
                one.last = ends && done + 1 == count;
                one.weight = 1;
                let at = self.sequenced + done;
                one.available = self.cycle
                    + like.available
                    + front.depth
                    + front.microcode_switch
                    + (at / front.microcode_width) as u64;
                one.needs = Needs {
                    class: Class::Alu,
                    reads: [class::MICRO, NONE, NONE, NONE, NONE, NONE],
                    writes: [class::MICRO, NONE, NONE],
                    how: How::Unit,
                };
                match step.op {
                    StepOp::Alu => {}
                    StepOp::Load => {
                        one.needs.class = Class::Load;
                        one.needs.reads[1] = reg::RSP;
                        one.place = accesses.by_ref().find(|access| !access.store).map(place);
                    }
                    StepOp::Store => {
                        one.needs.class = Class::StoreAddress;
                        one.needs.reads[1] = reg::RSP;
                        one.needs.writes[0] = NONE;
                        one.place = accesses.by_ref().find(|access| access.store).map(place);
                    }
                    StepOp::LoadUpid => {
                        one.needs.class = Class::Load;
                        let given = accesses.by_ref().find(|access| !access.store);
                        one.place = Some(given.map_or(upid, place));
                    }
                    StepOp::StoreUpid => {
                        one.needs.class = Class::StoreAddress;
                        one.needs.writes[0] = NONE;
                        let given = accesses.by_ref().find(|access| access.store);
                        one.place = Some(given.map_or(Place { store: true, ..upid }, place));
                    }
                    StepOp::Stack => {
                        one.needs.reads[1] = reg::RSP;
                        one.needs.writes[1] = reg::RSP;
                    }
                    StepOp::Serialize if self.p.interrupt.flag_renamed && step.flag => {}
                    StepOp::Serialize => {
                        one.needs.class = Class::Serialize;
                        one.latency = step.latency;
                    }
                    StepOp::Jump => {
                        one.needs.class = Class::Branch;
                        (one.branch, one.resolves) = (like.branch, like.resolves);
                    }
                }
                self.window.push(one);
                done += 1;
            }
        }
        self.sequenced += done;
        self.queued += done;
        if ends {
            let cycles = (self.sequenced / front.microcode_width) as u64;
            self.front.resume = self.cycle + 2 * front.microcode_switch + cycles;
            self.sequenced = 0;
            self.front.line = None;
            self.front.fuses = false;
        }
        self.moved = true;
    }

    /// An entry of microcode that begins in this cycle.
    pub(super) fn blank(cycle: u64, address: u64, origin: Origin) -> Entry {
        Entry {
            stamp: 0,
            number: UNNUMBERED,
            address,
            origin,
            needs: NOTHING,
            latency: 0,
            weight: 1,
            first: true,
            last: false,
            safepoint: false,
            place: None,
            vector: false,
            branch: None,
            resolves: None,
            available: 0,
            renamed: false,
            new: [0; 3],
            old: [0; 3],
            forward: Forward::No,
            pending: 0,
            ready: 0,
            issued: false,
            done: NEVER,
            times: [cycle, 0, 0],
        }
    }

    pub(super) fn fault(&self, fault: Fault) -> Error {
        let address = self.ahead.cpu.rip;
        Error::Fault { address, text: decode::disassemble(&self.machine.memory, address), fault }
    }
}

const NOTHING: Needs =
    Needs { class: Class::Alu, reads: [NONE; 6], writes: [NONE; 3], how: How::Nothing };

/// A copy for another uop of the same instruction.
fn entry_like(e: &Entry) -> Entry {
    Entry { branch: None, resolves: None, place: None, ..*e }
}

fn place(access: &Access) -> Place {
    Place { address: access.address, bytes: access.bytes, store: access.store }
}

/// How much of the widths a uop takes: nothing where the processor fuses it with another one.
fn weight(uop: &Uop, needs: &Needs, last: bool) -> u8 {
    let temporary = |register: u8| (16..24).contains(&register);
    let fused = match uop.op {
        Op::Load => temporary(uop.dst) && !last,
        Op::LoadVector => uop.dst == reg::VT && !last,
        Op::Mov => {
            temporary(uop.dst) && uop.b == reg::IMM
                || needs.how == How::Rename && (temporary(uop.dst) || temporary(uop.b))
        }
        Op::Lea => needs.how == How::Rename,
        _ => false,
    };
    u8::from(!fused)
}

/// Whether a conditional branch behind it becomes one uop with it.
fn fusable(last: &Uop) -> bool {
    matches!(last.op, Op::Cmp | Op::Test | Op::Add | Op::Sub | Op::And | Op::Inc | Op::Dec)
}

/// The branch at the end of an instruction, if there is one.
fn branch_of(address: u64, uops: &[Uop]) -> Option<Branch> {
    let last = &uops[uops.len() - 1];
    let behind = address + u64::from(last.length);
    let pushes = uops.iter().any(|uop| uop.op == Op::Store);
    let returns = || {
        matches!(uops, [load, lea, _] if load.op == Op::Load
            && load.a == reg::RSP
            && lea.op == Op::Lea
            && lea.dst == reg::RSP)
    };
    let kind = match last.op {
        Op::Jcc | Op::Loop => Kind::Conditional,
        Op::Jmp if pushes => Kind::Call,
        Op::Jmp => Kind::Jump,
        Op::JmpReg if pushes => Kind::IndirectCall,
        Op::JmpReg if returns() => Kind::Return,
        Op::JmpReg => Kind::Indirect,
        _ => return None,
    };
    Some(Branch { kind, address, behind, target: last.imm as u64 })
}

/// Strings and pairs: a start, accesses in pieces of up to 32 bytes, an end. Says their weight.
fn string(
    window: &mut super::window::Window,
    like: Entry,
    accesses: &[Access],
    strings: bool,
) -> usize {
    let registers: &[u8] =
        if strings { &[reg::RCX, reg::RSI, reg::RDI] } else { &[reg::RAX, reg::RDX, class::FLAGS] };
    let mut first = Entry { weight: 1, ..entry_like(&like) };
    first.needs = Needs {
        class: Class::Slow,
        reads: [registers[0], registers[1], registers[2], reg::RAX, class::FLAGS, NONE],
        writes: [class::MICRO, NONE, NONE],
        how: How::Unit,
    };
    window.push(first);
    let mut count = 2;
    let mut pieces: Vec<Place> = Vec::new();
    for access in accesses {
        let end = |place: &Place| place.address.wrapping_add(u64::from(place.bytes));
        // Loads and stores of a copy alternate.
        let same = pieces.iter_mut().rev().take(2).find(|place| {
            place.store == access.store
                && end(place) == access.address
                && place.bytes + access.bytes <= 32
        });
        match same {
            Some(piece) => piece.bytes += access.bytes,
            None => pieces.push(place(access)),
        }
    }
    for piece in pieces {
        let mut one = Entry { weight: 1, place: Some(piece), first: false, ..entry_like(&like) };
        one.needs = Needs {
            class: if piece.store { Class::StoreAddress } else { Class::Load },
            reads: [class::MICRO, NONE, NONE, NONE, NONE, NONE],
            writes: [NONE; 3],
            how: How::Unit,
        };
        one.place = Some(piece);
        window.push(one);
        count += 1;
    }
    let mut end = Entry { weight: 1, first: false, last: true, ..entry_like(&like) };
    end.needs = Needs {
        class: Class::Slow,
        reads: [class::MICRO, NONE, NONE, NONE, NONE, NONE],
        writes: [registers[0], registers[1], registers[2]],
        how: How::Unit,
    };
    window.push(end);
    count
}
