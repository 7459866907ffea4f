//! Vector uops: which registers they read, and what becomes of the destination's upper half.

use super::lanes::Lane;
use super::{address, float, packed, shuffle};
use crate::cpu::{Cpu, Vector, flag};
use crate::fault::Fault;
use crate::memory::Bus;
use crate::uop::{Uop, reg};
use crate::vop::Vop;

const UNALIGNED: Fault = Fault::Protection("an operand in memory is not aligned to its size");

/// `scale` of a vector uop is 1 if the instruction is of SSE, which leaves the upper half.
fn put(cpu: &mut Cpu, u: &Uop, mut value: Vector) {
    let target = cpu.vector_mut(u.dst);
    if u.scale == 1 {
        value[16..].copy_from_slice(&target[16..]);
    } else if u.size < 5 {
        value[16..].fill(0);
    }
    *target = value;
}

/// Loads `1 << size` bytes. `aux` bit 0: they must be aligned; bit 1: the upper half stays.
pub(super) fn load<B: Bus>(cpu: &mut Cpu, bus: &mut B, u: &Uop) -> Result<(), Fault> {
    let at = address(cpu, u);
    let (aligned, keep) = (u.aux & 1 == 1, u.aux & 2 == 2);
    if aligned && at & ((1 << u.size) - 1) != 0 {
        return Err(UNALIGNED);
    }
    let mut value = [0; 32];
    match u.size {
        0 => value[..1].copy_from_slice(&bus.load::<1>(at)?),
        1 => value[..2].copy_from_slice(&bus.load::<2>(at)?),
        2 => value[..4].copy_from_slice(&bus.load::<4>(at)?),
        3 => value[..8].copy_from_slice(&bus.load::<8>(at)?),
        4 => value[..16].copy_from_slice(&bus.load::<16>(at)?),
        _ => value = bus.load::<32>(at)?,
    }
    let target = cpu.vector_mut(u.dst);
    if keep {
        value[16..].copy_from_slice(&target[16..]);
    }
    *target = value;
    Ok(())
}

/// Stores `1 << size` bytes. `aux` bit 0: they must be aligned; bit 2: they begin at byte 8.
pub(super) fn store<B: Bus>(cpu: &mut Cpu, bus: &mut B, u: &Uop) -> Result<(), Fault> {
    let at = address(cpu, u);
    if u.aux & 1 == 1 && at & ((1 << u.size) - 1) != 0 {
        return Err(UNALIGNED);
    }
    let value = cpu.vector(u.dst);
    match (u.size, u.aux & 4) {
        (0, _) => bus.store(at, [value[0]]),
        (1, _) => bus.store(at, u16::get(value, 0).to_le_bytes()),
        (2, _) => bus.store(at, u32::get(value, 0).to_le_bytes()),
        (3, 0) => bus.store(at, u64::get(value, 0).to_le_bytes()),
        (3, _) => bus.store(at, u64::get(value, 1).to_le_bytes()),
        (4, _) => bus.store(at, u128::get(value, 0).to_le_bytes()),
        _ => bus.store(at, *value),
    }
}

/// Executes a uop `Op::Vector`.
pub(super) fn execute(cpu: &mut Cpu, u: &Uop) {
    let op = Vop::ALL[usize::from(u.aux)];
    if general(cpu, u, op) {
        return;
    }
    let (a, b) = (cpu.vector(u.a), cpu.vector(u.b));
    let imm = u.imm as usize & 0xff;
    // A shift by an immediate has no second register.
    let count = (u.seg == reg::IMM).then_some(imm as u64);
    // The mask of a blend: a register whose number is in the immediate.
    let value = packed::execute(op, a, b, count)
        .or_else(|| shuffle::execute(op, a, b, cpu.vector((u.imm >> 4) as u8), imm))
        .or_else(|| float::execute(op, a, b, imm))
        .unwrap_or_else(|| unreachable!("{op:?} is no vector operation"));
    put(cpu, u, value);
}

/// Operations with a general register or the flags, and those on all registers.
fn general(cpu: &mut Cpu, u: &Uop, op: Vop) -> bool {
    let imm = u.imm as usize & 0xff;
    let (a, b) = (*cpu.vector(u.a), *cpu.vector(u.b));
    // `seg` is the logarithm of a general register's bytes, `b` or `dst` the register.
    let (size, source) = (u.seg, cpu.reg(u.b));
    match op {
        Vop::Zeroupper => cpu.v[..16].iter_mut().for_each(|v| v[16..].fill(0)),
        Vop::Zeroall => cpu.v[..16].iter_mut().for_each(|v| v.fill(0)),
        Vop::Movd => {
            let mut value = [0; 32];
            if size == 2 {
                (source as u32).put(&mut value, 0);
            } else {
                source.put(&mut value, 0);
            }
            put(cpu, u, value);
        }
        Vop::Pinsrb | Vop::Pinsrw | Vop::Pinsrd | Vop::Pinsrq => {
            let mut value = a;
            match op {
                Vop::Pinsrb => (source as u8).put(&mut value, imm & 15),
                Vop::Pinsrw => (source as u16).put(&mut value, imm & 7),
                Vop::Pinsrd => (source as u32).put(&mut value, imm & 3),
                _ => source.put(&mut value, imm & 1),
            }
            put(cpu, u, value);
        }
        Vop::Pextrb => cpu.set(u.dst, 3, b[imm & 15].into()),
        Vop::Pextrw => cpu.set(u.dst, 3, u16::get(&b, imm & 7).into()),
        Vop::Pextrd => cpu.set(u.dst, 3, u32::get(&b, imm & 3).into()),
        Vop::Pextrq => cpu.set(u.dst, 3, u64::get(&b, imm & 1)),
        Vop::Pmovmskb => cpu.set(u.dst, 3, signs(&b, 1, u.size)),
        Vop::Movmskps => cpu.set(u.dst, 3, signs(&b, 4, u.size)),
        Vop::Movmskpd => cpu.set(u.dst, 3, signs(&b, 8, u.size)),
        Vop::Ptest => {
            let all = 1usize << u.size;
            let (mut both, mut only) = (0, 0);
            for (x, y) in a[..all].iter().zip(&b[..all]) {
                both |= x & y;
                only |= !x & y;
            }
            let zero = if both == 0 { flag::ZF } else { 0 };
            cpu.flags = cpu.flags & !flag::STATUS | zero | u64::from(only == 0);
        }
        Vop::Comiss | Vop::Comisd => {
            cpu.flags = cpu.flags & !flag::STATUS | float::flags(op, &a, &b);
        }
        Vop::Cvtsi2ss | Vop::Cvtsi2sd => {
            let mut value = a;
            let source = super::signed(size, source);
            if op == Vop::Cvtsi2ss {
                (source as f32).put(&mut value, 0);
            } else {
                (source as f64).put(&mut value, 0);
            }
            put(cpu, u, value);
        }
        Vop::Cvtss2si | Vop::Cvttss2si | Vop::Cvtsd2si | Vop::Cvttsd2si => {
            let truncate = matches!(op, Vop::Cvttss2si | Vop::Cvttsd2si);
            let double = matches!(op, Vop::Cvtsd2si | Vop::Cvttsd2si);
            let from = if double { f64::get(&b, 0) } else { f32::get(&b, 0).into() };
            cpu.set(u.dst, size, float::to_integer(from, 8 << size, truncate) as u64);
        }
        _ => return false,
    }
    true
}

/// The highest bits of lanes of `bytes` bytes.
fn signs(v: &Vector, bytes: usize, size: u8) -> u64 {
    let lanes = (1usize << size) / bytes;
    (0..lanes).fold(0, |mask, i| mask | u64::from(v[i * bytes + bytes - 1] >> 7) << i)
}
