//! Instructions that the machine around the core executes: they wait until all before them have
//! retired, and take effect at once. The timing model gives them a sequence of microcode.

use super::Core;
use super::microcode::{Step, StepOp};
use super::window::Origin;
use crate::fault::Error;
use crate::speculate::{Access, Stop};
use crate::uop::{Op, Uop};

impl Core {
    /// Executes an instruction that needs the machine: all before it have retired.
    pub(super) fn serve(&mut self) -> Result<(), Error> {
        let address = self.ahead.cpu.rip;
        let upcoming = self.ahead.upcoming(&mut self.machine.memory);
        let op = upcoming.map_or(Op::Nop, |uop| uop.op);
        if upcoming.is_some_and(|uop| uop.ordered) {
            return self.ordered(address);
        }
        let accesses = match upcoming {
            Some(uop) if op == Op::Senduipi => self.sends_to(&uop),
            _ => Vec::new(),
        };
        self.machine.cpu = self.ahead.cpu.clone();
        self.machine.cpu.uintr.timer = self.interrupts.timer.clone();
        self.machine.serve(self.cycle)?;
        let requests = std::mem::take(&mut self.machine.cpu.uintr.requests);
        self.interrupts.timer = self.machine.cpu.uintr.timer.clone();
        self.ahead.cpu = self.machine.cpu.clone();
        if let (Some(outside), Some(sent)) = (&mut self.outside, self.machine.sent.take()) {
            outside.sent.push((self.cycle + self.p.interrupt.notification_delay, sent));
        }
        self.moved = true;
        self.front.stopped = None;
        if self.machine.exit_status().is_some() {
            return self.count(address);
        }
        if requests != 0 {
            self.interrupts
                .sent_to_self(self.cycle + self.p.interrupt.notification_delay, requests);
        }
        let served = &self.p.served;
        let latency = match op {
            Op::Syscall => served.system_call,
            Op::Cpuid => served.cpuid,
            Op::SetTimer | Op::ClearTimer => served.timer,
            _ => served.rdtsc,
        };
        let steps = if op == Op::Senduipi {
            self.p.microcode.senduipi.clone()
        } else {
            vec![Step { op: StepOp::Serialize, count: 1, latency, flag: false }]
        };
        let like = Self::blank(self.cycle, address, Origin::Served);
        self.sequence(&steps, &accesses, &like, true);
        Ok(())
    }

    /// Executes an instruction that other cores see as one: what it stores is there at once.
    fn ordered(&mut self, address: u64) -> Result<(), Error> {
        let fetched = match self.ahead.fetch(&mut self.machine.memory) {
            Ok(fetched) => fetched,
            Err(Stop::Fault(fault)) => return Err(self.fault(fault)),
            Err(Stop::Machine) => unreachable!("nothing is in flight"),
        };
        let (number, accesses) = (fetched.number, fetched.accesses.to_vec());
        self.ahead.retire(number + 1);
        self.moved = true;
        self.front.stopped = None;
        let step = |op, latency| Step { op, count: 1, latency, flag: false };
        let has = |store| accesses.iter().any(|access| access.store == store);
        let mut steps = vec![step(StepOp::Serialize, self.p.served.locked)];
        if has(false) {
            steps.insert(0, step(StepOp::Load, 0));
        }
        if has(true) {
            steps.push(step(StepOp::Store, 0));
        }
        let like = Self::blank(self.cycle, address, Origin::Served);
        self.sequence(&steps, &accesses, &like, true);
        Ok(())
    }

    /// The receiver's UPID, which SENDUIPI reads and writes; nothing if it will fault.
    fn sends_to(&self, uop: &Uop) -> Vec<Access> {
        let cpu = &self.ahead.cpu;
        let entry = cpu.uintr.uitt.wrapping_add(cpu.reg(uop.a).wrapping_mul(16)).wrapping_add(8);
        let mut bytes = [0; 8];
        if !self.machine.memory.peek(entry, &mut bytes) {
            return Vec::new();
        }
        let address = u64::from_le_bytes(bytes);
        [false, true].map(|store| Access { address, bytes: 8, store, uop: 0 }).to_vec()
    }
}
