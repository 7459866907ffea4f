//! String instructions: one uop does all repetitions.

use super::{alu, load, store};
use crate::cpu::{Cpu, flag};
use crate::fault::Fault;
use crate::memory::Bus;
use crate::uop::{Op, Uop, reg};

/// Executes a string instruction. RCX, RSI and RDI are right after a fault as well: the repetitions
/// before it have happened.
pub(super) fn execute<B: Bus>(cpu: &mut Cpu, bus: &mut B, u: &Uop) -> Result<(), Fault> {
    let repeated = u.aux != 0;
    while !repeated || cpu.reg(reg::RCX) != 0 {
        once(cpu, bus, u)?;
        if !repeated {
            break;
        }
        cpu.set(reg::RCX, 3, cpu.reg(reg::RCX) - 1);
        let equal = cpu.flags & flag::ZF != 0;
        if matches!(u.op, Op::Scas | Op::Cmps) && equal != (u.aux & 1 == 1) {
            break;
        }
    }
    Ok(())
}

fn once<B: Bus>(cpu: &mut Cpu, bus: &mut B, u: &Uop) -> Result<(), Fault> {
    let (size, bytes) = (u.size, 1u64 << u.size);
    let step = if cpu.flags & flag::DF == 0 { bytes } else { bytes.wrapping_neg() };
    let (from, to) = (cpu.reg(u.seg).wrapping_add(cpu.reg(reg::RSI)), cpu.reg(reg::RDI));
    let (mut source, mut target) = (true, true);
    match u.op {
        Op::Movs => {
            let value = load(bus, size, from)?;
            store(bus, size, to, value)?;
        }
        Op::Stos => {
            store(bus, size, to, cpu.reg(reg::RAX))?;
            source = false;
        }
        Op::Lods => {
            let value = load(bus, size, from)?;
            cpu.set(reg::RAX, size, value);
            target = false;
        }
        Op::Scas => {
            let value = load(bus, size, to)?;
            cpu.flags = alu::sub(size, cpu.flags, cpu.reg(reg::RAX), value, 0).1;
            source = false;
        }
        _ => {
            let (a, b) = (load(bus, size, from)?, load(bus, size, to)?);
            cpu.flags = alu::sub(size, cpu.flags, a, b, 0).1;
        }
    }
    if source {
        cpu.set(reg::RSI, 3, cpu.reg(reg::RSI).wrapping_add(step));
    }
    if target {
        cpu.set(reg::RDI, 3, to.wrapping_add(step));
    }
    Ok(())
}
