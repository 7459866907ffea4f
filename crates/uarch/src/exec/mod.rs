//! What each uop does to registers and memory.
//!
//! Execution is exact up to the uop at which a fault occurs: a faulting instruction may have
//! changed flags and the stack pointer.

mod alu;
mod float;
mod lanes;
mod packed;
mod shuffle;
mod string;
mod vector;

use crate::cpu::{Cpu, MXCSR, flag};
use crate::fault::Fault;
use crate::memory::{Bus, TOP};
use crate::uintr;
use crate::uop::{Op, Uop, reg};

pub(crate) use alu::signed;

/// The x87 control word, which programs read even where they use no x87 instruction.
pub(crate) const X87_CONTROL: u64 = 0x37f;

/// The address of a memory uop.
#[inline]
pub fn address(cpu: &Cpu, u: &Uop) -> u64 {
    cpu.reg(u.seg)
        .wrapping_add(cpu.reg(u.a))
        .wrapping_add(cpu.reg(u.b) << (u.scale & 3))
        .wrapping_add(u.imm as u64)
}

#[inline]
fn load<B: Bus>(bus: &mut B, size: u8, address: u64) -> Result<u64, Fault> {
    Ok(match size {
        0 => u64::from(bus.load::<1>(address)?[0]),
        1 => u64::from(u16::from_le_bytes(bus.load(address)?)),
        2 => u64::from(u32::from_le_bytes(bus.load(address)?)),
        _ => u64::from_le_bytes(bus.load(address)?),
    })
}

#[inline]
fn store<B: Bus>(bus: &mut B, size: u8, address: u64, value: u64) -> Result<(), Fault> {
    match size {
        0 => bus.store(address, [value as u8]),
        1 => bus.store(address, (value as u16).to_le_bytes()),
        2 => bus.store(address, (value as u32).to_le_bytes()),
        _ => bus.store(address, value.to_le_bytes()),
    }
}

impl Cpu {
    #[inline]
    fn second(&self, u: &Uop) -> u64 {
        if u.b == reg::IMM { u.imm as u64 } else { self.reg(u.b) }
    }

    #[inline]
    fn both(&mut self, u: &Uop, (value, flags): (u64, u64)) {
        self.flags = flags;
        self.set(u.dst, u.size, value);
    }
}

/// Executes a uop. `cpu.rip` is the address of the next instruction; branches change it.
///
/// Uops that need the machine (`Syscall`, `Cpuid`, `Rdtsc`, `Senduipi`, ...; see [`for_machine`])
/// are not for this function.
///
/// # Errors
///
/// The instruction faults; `cpu.rip` may be wrong then.
#[inline]
pub fn execute<B: Bus>(cpu: &mut Cpu, bus: &mut B, u: &Uop) -> Result<(), Fault> {
    let (size, f) = (u.size, cpu.flags);
    match u.op {
        Op::Load => {
            let value = load(bus, size, address(cpu, u))?;
            cpu.set(u.dst, size, value);
        }
        Op::Store => store(bus, size, address(cpu, u), cpu.reg(u.dst))?,
        Op::Lea => cpu.set(u.dst, size, address(cpu, u)),
        Op::Mov => cpu.set(u.dst, size, cpu.second(u)),
        Op::MovSx => cpu.set(u.dst, size, signed(u.aux, cpu.reg(u.a)) as u64),
        Op::MovZx => cpu.set(u.dst, size, cpu.reg(u.a) & crate::cpu::MASK[usize::from(u.aux & 3)]),
        Op::High => cpu.set(u.dst, 3, cpu.reg(u.a) >> 8 & 0xff),
        Op::SetHigh => {
            let value = cpu.reg(u.dst) & !0xff00 | (cpu.reg(u.a) & 0xff) << 8;
            cpu.set(u.dst, 3, value);
        }
        Op::Cmov => {
            let value = if cpu.condition(u.aux) { cpu.reg(u.b) } else { cpu.reg(u.a) };
            cpu.set(u.dst, size, value);
        }
        Op::SetCc => cpu.set(u.dst, 0, cpu.condition(u.aux).into()),
        Op::Add => cpu.both(u, alu::add(size, f, cpu.reg(u.a), cpu.second(u), 0)),
        Op::Adc => cpu.both(u, alu::add(size, f, cpu.reg(u.a), cpu.second(u), f & flag::CF)),
        Op::Sub => cpu.both(u, alu::sub(size, f, cpu.reg(u.a), cpu.second(u), 0)),
        Op::Sbb => cpu.both(u, alu::sub(size, f, cpu.reg(u.a), cpu.second(u), f & flag::CF)),
        Op::Cmp => cpu.flags = alu::sub(size, f, cpu.reg(u.a), cpu.second(u), 0).1,
        Op::And => {
            let r = cpu.reg(u.a) & cpu.second(u);
            cpu.both(u, (r, alu::logic(size, f, r)));
        }
        Op::Or => {
            let r = cpu.reg(u.a) | cpu.second(u);
            cpu.both(u, (r, alu::logic(size, f, r)));
        }
        Op::Xor => {
            let r = cpu.reg(u.a) ^ cpu.second(u);
            cpu.both(u, (r, alu::logic(size, f, r)));
        }
        Op::Test => cpu.flags = alu::logic(size, f, cpu.reg(u.a) & cpu.second(u)),
        Op::Jcc => {
            if cpu.condition(u.aux) {
                cpu.rip = u.imm as u64;
            }
        }
        Op::Jmp => cpu.rip = u.imm as u64,
        Op::JmpReg => {
            let to = cpu.reg(u.a);
            if to >= TOP {
                return Err(Fault::Protection("a jump out of the address space of programs"));
            }
            cpu.rip = to;
        }
        Op::Inc => cpu.both(u, alu::keep_carry(f, alu::add(size, f, cpu.reg(u.a), 1, 0))),
        Op::Dec => cpu.both(u, alu::keep_carry(f, alu::sub(size, f, cpu.reg(u.a), 1, 0))),
        Op::Neg => cpu.both(u, alu::sub(size, f, 0, cpu.reg(u.a), 0)),
        Op::Not => cpu.set(u.dst, size, !cpu.reg(u.a)),
        Op::Shl => cpu.both(u, alu::shl(size, f, cpu.reg(u.a), cpu.second(u))),
        Op::Shr => cpu.both(u, alu::shr(size, f, cpu.reg(u.a), cpu.second(u))),
        Op::Sar => cpu.both(u, alu::sar(size, f, cpu.reg(u.a), cpu.second(u))),
        Op::Imul => cpu.both(u, alu::imul(size, f, cpu.reg(u.a), cpu.second(u))),
        Op::Vector => vector::execute(cpu, u),
        Op::LoadVector => vector::load(cpu, bus, u)?,
        Op::StoreVector => vector::store(cpu, bus, u)?,
        Op::Movs | Op::Stos | Op::Lods | Op::Scas | Op::Cmps => string::execute(cpu, bus, u)?,
        Op::CmpXchg16 => compare_exchange_pair(cpu, bus, u)?,
        Op::Uiret => uintr::uiret(cpu, bus)?,
        Op::Nop => {}
        _ => rare(cpu, u)?,
    }
    Ok(())
}

/// Uops that are seldom executed and need no memory.
fn rare(cpu: &mut Cpu, u: &Uop) -> Result<(), Fault> {
    let (size, f) = (u.size, cpu.flags);
    let (a, b) = (cpu.reg(u.a), cpu.second(u));
    match u.op {
        Op::Andn => {
            let r = !a & b;
            cpu.both(u, (r, alu::logic(size, f, r)));
        }
        Op::Rol => cpu.both(u, alu::rol(size, f, a, b)),
        Op::Ror => cpu.both(u, alu::ror(size, f, a, b)),
        Op::Rcl => cpu.both(u, alu::rcl(size, f, a, b)),
        Op::Rcr => cpu.both(u, alu::rcr(size, f, a, b)),
        Op::Shld | Op::Shrd => {
            let n = if u.aux == 255 { cpu.reg(reg::RCX) } else { u.aux.into() };
            let shift = if u.op == Op::Shld { alu::shld } else { alu::shrd };
            cpu.both(u, shift(size, f, a, b, n));
        }
        Op::Shlx => cpu.set(u.dst, size, alu::shl(size, f, a, b).0),
        Op::Shrx => cpu.set(u.dst, size, alu::shr(size, f, a, b).0),
        Op::Sarx => cpu.set(u.dst, size, alu::sar(size, f, a, b).0),
        Op::Rorx => cpu.set(u.dst, size, alu::ror(size, f, a, b).0),
        Op::MulWide | Op::ImulWide => {
            let (low, high, large) = alu::wide(size, u.op == Op::ImulWide, cpu.reg(reg::RAX), a);
            let carry = if large { flag::CF | flag::OF } else { 0 };
            cpu.flags = f & !flag::STATUS | carry | alu::zsp(size, low);
            if size == 0 {
                cpu.set(reg::RAX, 1, high << 8 | low);
            } else {
                cpu.set(reg::RAX, size, low);
                cpu.set(reg::RDX, size, high);
            }
        }
        Op::Mulx => {
            let (low, high, _) = alu::wide(size, false, cpu.reg(reg::RDX), a);
            cpu.set(u.aux, size, low);
            cpu.set(u.dst, size, high);
        }
        Op::Div | Op::Idiv => {
            let (rax, is_signed) = (cpu.reg(reg::RAX), u.op == Op::Idiv);
            let high = if size == 0 { rax >> 8 } else { cpu.reg(reg::RDX) };
            let (q, r) = alu::divide(size, is_signed, high, rax, a).ok_or(Fault::Divide)?;
            if size == 0 {
                cpu.set(reg::RAX, 1, (r & 0xff) << 8 | q & 0xff);
            } else {
                cpu.set(reg::RAX, size, q);
                cpu.set(reg::RDX, size, r);
            }
        }
        Op::Bt => {
            let bit = 1u64 << (b & ((8 << size) - 1));
            cpu.flags = f & !flag::CF | u64::from(a & bit != 0);
            match u.aux {
                0 => {}
                1 => cpu.set(u.dst, size, a | bit),
                2 => cpu.set(u.dst, size, a & !bit),
                _ => cpu.set(u.dst, size, a ^ bit),
            }
        }
        Op::BtAddress => {
            let units = signed(size, b) >> (3 + size);
            cpu.set(u.dst, 3, a.wrapping_add((units << size) as u64));
        }
        Op::Bsf | Op::Bsr => {
            let (r, flags) = alu::bit_scan(size, u.op == Op::Bsr, f, a, cpu.reg(u.dst));
            cpu.flags = flags;
            // Without a bit the destination stays, its upper half as well.
            if flags & flag::ZF == 0 {
                cpu.set(u.dst, size, r);
            }
        }
        Op::Tzcnt => cpu.both(u, alu::tzcnt(size, f, a)),
        Op::Lzcnt => cpu.both(u, alu::lzcnt(size, f, a)),
        Op::Popcnt => cpu.both(u, alu::popcnt(size, f, a)),
        Op::Bswap => match size {
            3 => cpu.set(u.dst, 3, a.swap_bytes()),
            2 => cpu.set(u.dst, 2, (a as u32).swap_bytes().into()),
            // Undefined; processors clear it.
            _ => cpu.set(u.dst, 1, 0),
        },
        Op::Bextr => cpu.both(u, alu::bextr(size, f, a, b)),
        Op::Bzhi => cpu.both(u, alu::bzhi(size, f, a, b)),
        Op::Blsi | Op::Blsr | Op::Blsmsk => {
            let a = a & crate::cpu::MASK[usize::from(size & 3)];
            let r = match u.op {
                Op::Blsi => a & a.wrapping_neg(),
                Op::Blsr => a & a.wrapping_sub(1),
                _ => a ^ a.wrapping_sub(1),
            };
            cpu.both(u, alu::lowest(size, f, r, (a == 0) != (u.op == Op::Blsi)));
        }
        Op::Pdep => cpu.set(u.dst, size, alu::pdep(a, b & crate::cpu::MASK[usize::from(size & 3)])),
        Op::Pext => cpu.set(u.dst, size, alu::pext(a, b & crate::cpu::MASK[usize::from(size & 3)])),
        Op::Adcx | Op::Adox => {
            let bit = if u.op == Op::Adcx { flag::CF } else { flag::OF };
            let (r, flags) = alu::add(size, f, a, b, u64::from(f & bit != 0));
            let carry = if flags & flag::CF != 0 { bit } else { 0 };
            cpu.both(u, (r, f & !bit | carry));
        }
        Op::Crc32 => cpu.set(u.dst, 2, alu::crc32(size, a, b)),
        Op::Widen => {
            let value = signed(size - 1, cpu.reg(reg::RAX)) as u64;
            cpu.set(reg::RAX, size, value);
        }
        Op::Sign => cpu.set(reg::RDX, size, (signed(size, cpu.reg(reg::RAX)) >> 63) as u64),
        Op::CmpXchg => {
            let rax = cpu.reg(reg::RAX);
            let (difference, flags) = alu::sub(size, f, rax, a, 0);
            cpu.flags = flags;
            // `dst` is what the operand becomes: a register of 32 bits that stays keeps its upper
            // half.
            let equal = difference & crate::cpu::MASK[usize::from(size & 3)] == 0;
            cpu.set(u.dst, 3, a);
            if equal {
                cpu.set(u.dst, size, b);
            }
            cpu.set(reg::T1, 3, rax);
            if !equal {
                cpu.set(reg::T1, size, a);
            }
        }
        Op::SetFlags => {
            let mask = if size == 1 { flag::USER & 0xffff } else { flag::USER };
            cpu.flags = f & !mask | a & mask;
        }
        Op::GetFlags => cpu.set(u.dst, 3, f & (flag::USER | flag::FIXED)),
        Op::FlagOp => flag_operation(cpu, u.imm),
        Op::Loop => {
            let count = cpu.reg(reg::RCX);
            let zero = f & flag::ZF != 0;
            let taken = match u.aux {
                3 => count == 0,
                4 => count as u32 == 0,
                how => {
                    cpu.set(reg::RCX, 3, count.wrapping_sub(1));
                    count != 1 && (how == 0 || zero == (how == 1))
                }
            };
            if taken {
                cpu.rip = u.imm as u64;
            }
        }
        Op::LoadMxcsr => {
            let value = a as u32;
            if value >> 16 != 0 {
                return Err(Fault::Protection("reserved bits of MXCSR"));
            }
            if value & !0x3f != MXCSR {
                return Err(Fault::Unsupported(
                    "rounding modes, flush to zero and unmasked exceptions",
                ));
            }
            cpu.mxcsr = value;
        }
        Op::LoadX87Control if a & 0xffff == X87_CONTROL => {}
        Op::LoadX87Control => return Err(Fault::Unsupported("an x87 control word of its own")),
        Op::StoreMxcsr => cpu.set(u.dst, 2, cpu.mxcsr.into()),
        Op::Stui => cpu.uintr.uif = true,
        Op::Clui => cpu.uintr.uif = false,
        Op::Testui => {
            cpu.flags = f & !flag::STATUS | if cpu.uintr.uif { flag::CF } else { 0 };
        }
        Op::Breakpoint => return Err(Fault::Breakpoint),
        Op::Invalid => return Err(Fault::Invalid),
        Op::Unsupported => return Err(Fault::Unsupported(crate::decode::class(u.aux))),
        op => unreachable!("{op:?} is the machine's"),
    }
    Ok(())
}

fn flag_operation(cpu: &mut Cpu, which: i64) {
    let f = cpu.flags;
    cpu.flags = match which {
        0 => f & !flag::CF,
        1 => f | flag::CF,
        2 => f ^ flag::CF,
        3 => f & !flag::DF,
        4 => f | flag::DF,
        5 => {
            let ah = f & flag::STATUS & 0xff | 2;
            cpu.r[0] = cpu.r[0] & !0xff00 | ah << 8;
            f
        }
        _ => {
            let mask = flag::STATUS & 0xff;
            f & !mask | cpu.r[0] >> 8 & mask
        }
    };
}

/// CMPXCHG8B and CMPXCHG16B.
fn compare_exchange_pair<B: Bus>(cpu: &mut Cpu, bus: &mut B, u: &Uop) -> Result<(), Fault> {
    let (at, size) = (address(cpu, u), u.size);
    let step = 1u64 << size;
    if size == 3 && at % 16 != 0 {
        return Err(Fault::Protection("CMPXCHG16B of an address that 16 does not divide"));
    }
    let (low, high) = (load(bus, size, at)?, load(bus, size, at.wrapping_add(step))?);
    let mask = crate::cpu::MASK[usize::from(size)];
    let (rax, rdx) = (cpu.reg(reg::RAX) & mask, cpu.reg(reg::RDX) & mask);
    let equal = (low, high) == (rax, rdx);
    let (new_low, new_high) =
        if equal { (cpu.reg(reg::RBX), cpu.reg(reg::RCX)) } else { (low, high) };
    // The upper half first: where it cannot be stored, nothing is.
    store(bus, size, at.wrapping_add(step), new_high)?;
    store(bus, size, at, new_low)?;
    if equal {
        cpu.flags |= flag::ZF;
    } else {
        cpu.flags &= !flag::ZF;
        cpu.set(reg::RAX, size, low);
        cpu.set(reg::RDX, size, high);
    }
    Ok(())
}

/// Uops that need more than a core's registers and memory.
pub fn for_machine(op: Op) -> bool {
    use Op::{ClearTimer, Cpuid, Rdtsc, Rdtscp, Senduipi, SetTimer, Syscall, Xgetbv};
    matches!(op, Syscall | Cpuid | Rdtsc | Rdtscp | Xgetbv | Senduipi | SetTimer | ClearTimer)
}
