//! Uops of integer and system instructions.

use iced_x86::{Code, Mnemonic as M};

use super::control::control;
use super::operand::{Emit, Refused, number, segment};
use crate::uop::{Op, Uop, reg};

/// Emits the uops of an integer instruction.
///
/// # Errors
///
/// It is none, or it is left out: the class.
pub(super) fn translate(e: &mut Emit<'_>) -> Result<(), Refused> {
    let i = e.i;
    if i.is_string_instruction() {
        return string(e);
    }
    if let Some(op) = two_operands(i.mnemonic()) {
        arithmetic(e, op);
        return Ok(());
    }
    if let Some(op) = one_operand(i.mnemonic()) {
        let (size, (a, out)) = (e.size(0), e.target());
        e.push(Uop { size, dst: out, a, ..Uop::new(op) });
        e.finish(0, out);
        return Ok(());
    }
    if let Some((op, sources)) = three_operands(i.mnemonic()) {
        let (a, imm) = e.source(1);
        let (b, imm) = if sources == 2 { e.source(2) } else { (reg::ZERO, imm) };
        let (size, dst) = (e.size(0), e.result());
        e.push(Uop { size, dst, a, b, imm, ..Uop::new(op) });
        return Ok(());
    }
    if let Some((op, aux)) = system(i.mnemonic()) {
        e.push(Uop { imm: aux, ..Uop::new(op) });
        return Ok(());
    }
    control(e).or_else(|_| data(e))
}

/// Read, compute, write: flags are set.
fn two_operands(m: M) -> Option<Op> {
    Some(match m {
        M::Add => Op::Add,
        M::Adc => Op::Adc,
        M::Sub => Op::Sub,
        M::Sbb => Op::Sbb,
        M::And => Op::And,
        M::Or => Op::Or,
        M::Xor => Op::Xor,
        M::Cmp => Op::Cmp,
        M::Test => Op::Test,
        M::Shl | M::Sal => Op::Shl,
        M::Shr => Op::Shr,
        M::Sar => Op::Sar,
        M::Rol => Op::Rol,
        M::Ror => Op::Ror,
        M::Rcl => Op::Rcl,
        M::Rcr => Op::Rcr,
        M::Adcx => Op::Adcx,
        M::Adox => Op::Adox,
        _ => return None,
    })
}

fn one_operand(m: M) -> Option<Op> {
    Some(match m {
        M::Inc => Op::Inc,
        M::Dec => Op::Dec,
        M::Neg => Op::Neg,
        M::Not => Op::Not,
        M::Bswap => Op::Bswap,
        _ => return None,
    })
}

/// A destination apart from the sources, of which there are one or two.
fn three_operands(m: M) -> Option<(Op, u32)> {
    Some(match m {
        M::Andn => (Op::Andn, 2),
        M::Bextr => (Op::Bextr, 2),
        M::Bzhi => (Op::Bzhi, 2),
        M::Pdep => (Op::Pdep, 2),
        M::Pext => (Op::Pext, 2),
        M::Shlx => (Op::Shlx, 2),
        M::Shrx => (Op::Shrx, 2),
        M::Sarx => (Op::Sarx, 2),
        M::Rorx => (Op::Rorx, 2),
        M::Tzcnt => (Op::Tzcnt, 1),
        M::Lzcnt => (Op::Lzcnt, 1),
        M::Popcnt => (Op::Popcnt, 1),
        M::Bsf => (Op::Bsf, 1),
        M::Bsr => (Op::Bsr, 1),
        _ => return None,
    })
}

/// Instructions without operands that programs name.
fn system(m: M) -> Option<(Op, i64)> {
    Some(match m {
        M::Nop | M::Endbr64 | M::Endbr32 | M::Pause | M::Mfence | M::Lfence | M::Sfence => {
            (Op::Nop, 0)
        }
        M::Prefetchnta
        | M::Prefetcht0
        | M::Prefetcht1
        | M::Prefetcht2
        | M::Prefetchw
        | M::Prefetch
        | M::Prefetchwt1
        | M::Rdsspq
        | M::Rdsspd => (Op::Nop, 0),
        M::Syscall => (Op::Syscall, 0),
        M::Cpuid => (Op::Cpuid, 0),
        M::Rdtsc => (Op::Rdtsc, 0),
        M::Rdtscp => (Op::Rdtscp, 0),
        M::Xgetbv => (Op::Xgetbv, 0),
        M::Uiret => (Op::Uiret, 0),
        M::Stui => (Op::Stui, 0),
        M::Clui => (Op::Clui, 0),
        M::Testui => (Op::Testui, 0),
        M::Ud2 | M::Ud1 | M::Ud0 => (Op::Invalid, 0),
        M::Int3 => (Op::Breakpoint, 0),
        M::Clc => (Op::FlagOp, 0),
        M::Stc => (Op::FlagOp, 1),
        M::Cmc => (Op::FlagOp, 2),
        M::Cld => (Op::FlagOp, 3),
        M::Std => (Op::FlagOp, 4),
        M::Lahf => (Op::FlagOp, 5),
        M::Sahf => (Op::FlagOp, 6),
        _ => return None,
    })
}

fn arithmetic(e: &mut Emit<'_>, op: Op) {
    let size = e.size(0);
    let (a, out) = e.target();
    let (b, imm) = e.source(1);
    e.push(Uop { size, dst: out, a, b, imm, ..Uop::new(op) });
    if !matches!(op, Op::Cmp | Op::Test) {
        e.finish(0, out);
    }
}

/// RSP becomes RSP + `by`, without flags.
pub(super) fn move_stack(e: &mut Emit<'_>, by: i64) {
    e.push(Uop { dst: reg::RSP, a: reg::RSP, imm: by, ..Uop::new(Op::Lea) });
}

pub(super) fn push(e: &mut Emit<'_>, data: u8) {
    e.push(Uop { dst: data, a: reg::RSP, imm: -8, ..Uop::new(Op::Store) });
    move_stack(e, -8);
}

pub(super) fn pop(e: &mut Emit<'_>) {
    e.push(Uop { dst: reg::T0, a: reg::RSP, ..Uop::new(Op::Load) });
}

pub(super) fn copy(e: &mut Emit<'_>, size: u8, dst: u8, b: u8, imm: i64) {
    e.push(Uop { size, dst, b, imm, ..Uop::new(Op::Mov) });
}

/// Moves, exchanges, multiplication, bits.
fn data(e: &mut Emit<'_>) -> Result<(), Refused> {
    let i = e.i;
    match i.mnemonic() {
        M::Mov | M::Movnti => mov(e),
        M::Movzx | M::Movsx | M::Movsxd => {
            let (from, (a, _)) = (e.size(1), e.source(1));
            let (size, dst) = (e.size(0), e.result());
            let op = if i.mnemonic() == M::Movzx { Op::MovZx } else { Op::MovSx };
            e.push(Uop { size, dst, a, aux: from, ..Uop::new(op) });
        }
        M::Lea => {
            let uop = e.address(Op::Lea, e.size(0), e.result());
            // LEA computes no segment's base.
            e.push(Uop { seg: reg::ZERO, ..uop });
        }
        M::Push | M::Pop if i.stack_pointer_increment().abs() == 2 => return Err(6),
        M::Leave if i.code() == Code::Leavew => return Err(6),
        M::Push => {
            let (mut data, imm) = e.source(0);
            if data == reg::IMM {
                copy(e, 3, reg::T1, reg::IMM, imm);
                data = reg::T1;
            }
            push(e, data);
        }
        M::Pop => {
            pop(e);
            if e.in_memory(0) {
                // The address is computed with the stack pointer after the pop.
                let store = e.address(Op::Store, 3, reg::T0);
                let later = if store.a == reg::RSP { 8 } else { 0 };
                e.push(Uop { imm: store.imm + later, ..store });
                move_stack(e, 8);
            } else {
                move_stack(e, 8);
                e.finish(0, reg::T0);
            }
        }
        M::Pushfq => {
            e.push(Uop { dst: reg::T0, ..Uop::new(Op::GetFlags) });
            push(e, reg::T0);
        }
        M::Popfq => {
            pop(e);
            move_stack(e, 8);
            e.push(Uop { a: reg::T0, ..Uop::new(Op::SetFlags) });
        }
        M::Leave => {
            e.push(Uop { dst: reg::T0, a: reg::RBP, ..Uop::new(Op::Load) });
            e.push(Uop { dst: reg::RSP, a: reg::RBP, imm: 8, ..Uop::new(Op::Lea) });
            copy(e, 3, reg::RBP, reg::T0, 0);
        }
        M::Imul if i.op_count() == 2 => arithmetic(e, Op::Imul),
        M::Imul if i.op_count() == 3 => {
            let (a, _) = e.source(1);
            let (b, imm) = e.source(2);
            let (size, dst) = (e.size(0), e.result());
            e.push(Uop { size, dst, a, b, imm, ..Uop::new(Op::Imul) });
        }
        M::Mul | M::Imul | M::Div | M::Idiv => {
            let (size, (a, _)) = (e.size(0), e.source(0));
            let op = match i.mnemonic() {
                M::Mul => Op::MulWide,
                M::Imul => Op::ImulWide,
                M::Div => Op::Div,
                _ => Op::Idiv,
            };
            e.push(Uop { size, a, ..Uop::new(op) });
        }
        M::Mulx => {
            let (a, _) = e.source(2);
            let (size, dst, aux) = (e.size(0), e.result(), number(i.op1_register()));
            e.push(Uop { size, dst, a, aux, ..Uop::new(Op::Mulx) });
        }
        M::Cbw | M::Cwde | M::Cdqe | M::Cwd | M::Cdq | M::Cqo => {
            let (op, size) = match i.mnemonic() {
                M::Cbw => (Op::Widen, 1),
                M::Cwde => (Op::Widen, 2),
                M::Cdqe => (Op::Widen, 3),
                M::Cwd => (Op::Sign, 1),
                M::Cdq => (Op::Sign, 2),
                _ => (Op::Sign, 3),
            };
            e.push(Uop { size, ..Uop::new(op) });
        }
        M::Shld | M::Shrd => {
            let (size, (a, out)) = (e.size(0), e.target());
            let (b, _) = e.source(1);
            let (count, imm) = e.source(2);
            let aux = if count == reg::IMM { imm as u8 & 63 } else { 255 };
            let op = if i.mnemonic() == M::Shld { Op::Shld } else { Op::Shrd };
            e.push(Uop { size, dst: out, a, b, aux, ..Uop::new(op) });
            e.finish(0, out);
        }
        M::Bt => bit(e, 0),
        M::Bts => bit(e, 1),
        M::Btr => bit(e, 2),
        M::Btc => bit(e, 3),
        M::Blsi | M::Blsr | M::Blsmsk => {
            let (a, _) = e.source(1);
            let (size, dst) = (e.size(0), e.result());
            let op = match i.mnemonic() {
                M::Blsi => Op::Blsi,
                M::Blsr => Op::Blsr,
                _ => Op::Blsmsk,
            };
            e.push(Uop { size, dst, a, ..Uop::new(op) });
        }
        M::Crc32 => {
            let (size, (b, _)) = (e.size(1), e.source(1));
            let dst = e.result();
            e.push(Uop { size, dst, a: dst, b, ..Uop::new(Op::Crc32) });
        }
        M::Movbe => {
            let size = e.size(0);
            let a = if e.in_memory(1) { e.source(1).0 } else { number(i.op1_register()) };
            // ROR by 8 swaps two bytes, and BSWAP of 16 bits does not.
            let op = if size == 1 { Op::Rorx } else { Op::Bswap };
            e.push(Uop { size, dst: reg::T2, a, b: reg::IMM, imm: 8, ..Uop::new(op) });
            e.finish(0, reg::T2);
        }
        M::Xchg | M::Xadd | M::Cmpxchg => exchange(e),
        M::Cmpxchg8b => e.push(e.address(Op::CmpXchg16, 2, reg::ZERO)),
        M::Cmpxchg16b => e.push(e.address(Op::CmpXchg16, 3, reg::ZERO)),
        M::Rdfsbase | M::Rdgsbase | M::Wrfsbase | M::Wrgsbase => {
            let (size, register) = (e.size(0), number(i.op0_register()));
            let base =
                if matches!(i.mnemonic(), M::Rdfsbase | M::Wrfsbase) { reg::FS } else { reg::GS };
            let read = matches!(i.mnemonic(), M::Rdfsbase | M::Rdgsbase);
            let (dst, b) = if read { (register, base) } else { (base, register) };
            copy(e, size, dst, b, 0);
        }
        M::Senduipi => {
            let (a, _) = e.source(0);
            e.push(Uop { a, ..Uop::new(Op::Senduipi) });
        }
        M::Ldmxcsr | M::Vldmxcsr => {
            e.load(2, reg::T0);
            e.push(Uop { a: reg::T0, ..Uop::new(Op::LoadMxcsr) });
        }
        M::Stmxcsr | M::Vstmxcsr => {
            e.push(Uop { dst: reg::T0, ..Uop::new(Op::StoreMxcsr) });
            e.store(2, reg::T0);
        }
        M::Fnstcw => {
            copy(e, 3, reg::T0, reg::IMM, crate::exec::X87_CONTROL as i64);
            e.store(1, reg::T0);
        }
        M::Fldcw => {
            e.load(1, reg::T0);
            e.push(Uop { a: reg::T0, ..Uop::new(Op::LoadX87Control) });
        }
        _ if i.is_privileged() || i.is_jmp_far() || i.is_call_far() => return Err(4),
        _ => return Err(0),
    }
    Ok(())
}

fn mov(e: &mut Emit<'_>) {
    let size = e.size(0);
    if e.in_memory(0) {
        let (mut data, imm) = e.source(1);
        if data == reg::IMM {
            copy(e, 3, reg::T1, reg::IMM, imm);
            data = reg::T1;
        }
        e.store(size, data);
    } else if e.in_memory(1) {
        let dst = e.result();
        e.load(size, dst);
        e.finish(0, dst);
    } else {
        let (b, imm) = e.source(1);
        let dst = e.result();
        copy(e, size, dst, b, imm);
        e.finish(0, dst);
    }
}

/// XCHG, XADD and CMPXCHG: where an operand is in memory, it is stored before a register changes.
fn exchange(e: &mut Emit<'_>) {
    let (i, size) = (e.i, e.size(0));
    let (a, out) = e.target();
    let b = e.read(i.op1_register(), reg::T1);
    match i.mnemonic() {
        M::Xchg => {
            copy(e, 3, reg::T3, a, 0);
            copy(e, 3, reg::T1, b, 0);
            e.finish(0, reg::T1);
            e.finish(1, reg::T3);
        }
        M::Xadd => {
            copy(e, 3, reg::T3, a, 0);
            e.push(Uop { size, dst: reg::T2, a, b, ..Uop::new(Op::Add) });
            if e.in_memory(0) {
                e.finish(0, reg::T2);
                e.finish(1, reg::T3);
            } else {
                e.finish(1, reg::T3);
                e.finish(0, reg::T2);
            }
        }
        _ => {
            e.push(Uop { size, dst: reg::T2, a, b, ..Uop::new(Op::CmpXchg) });
            if e.in_memory(0) {
                e.finish(0, reg::T2);
                copy(e, 3, reg::RAX, reg::T1, 0);
            } else {
                copy(e, 3, reg::RAX, reg::T1, 0);
                if out == reg::T2 {
                    e.finish(0, reg::T2);
                } else {
                    copy(e, 3, out, reg::T2, 0);
                }
            }
        }
    }
}

/// BT, BTS, BTR, BTC. With a register as index and an operand in memory, the bit may be far away.
fn bit(e: &mut Emit<'_>, aux: u8) {
    let size = e.size(0);
    if e.in_memory(0) && !matches!(e.i.op1_register(), iced_x86::Register::None) {
        let b = number(e.i.op1_register());
        let lea = e.address(Op::Lea, 3, reg::T3);
        e.push(lea);
        e.push(Uop { size, dst: reg::T3, a: reg::T3, b, ..Uop::new(Op::BtAddress) });
        e.push(Uop { size, dst: reg::T0, a: reg::T3, ..Uop::new(Op::Load) });
        e.push(Uop { size, dst: reg::T2, a: reg::T0, b, aux, ..Uop::new(Op::Bt) });
        if aux != 0 {
            e.push(Uop { size, dst: reg::T2, a: reg::T3, ..Uop::new(Op::Store) });
        }
        return;
    }
    let (a, out) = e.target();
    let (b, imm) = e.source(1);
    e.push(Uop { size, dst: out, a, b, imm, aux, ..Uop::new(Op::Bt) });
    if aux != 0 {
        e.finish(0, out);
    }
}

fn string(e: &mut Emit<'_>) -> Result<(), Refused> {
    let i = e.i;
    let (op, size) = match i.mnemonic() {
        M::Movsb => (Op::Movs, 0),
        M::Movsw => (Op::Movs, 1),
        M::Movsd => (Op::Movs, 2),
        M::Movsq => (Op::Movs, 3),
        M::Stosb => (Op::Stos, 0),
        M::Stosw => (Op::Stos, 1),
        M::Stosd => (Op::Stos, 2),
        M::Stosq => (Op::Stos, 3),
        M::Lodsb => (Op::Lods, 0),
        M::Lodsw => (Op::Lods, 1),
        M::Lodsd => (Op::Lods, 2),
        M::Lodsq => (Op::Lods, 3),
        M::Scasb => (Op::Scas, 0),
        M::Scasw => (Op::Scas, 1),
        M::Scasd => (Op::Scas, 2),
        M::Scasq => (Op::Scas, 3),
        M::Cmpsb => (Op::Cmps, 0),
        M::Cmpsw => (Op::Cmps, 1),
        M::Cmpsd => (Op::Cmps, 2),
        M::Cmpsq => (Op::Cmps, 3),
        _ => return Err(4),
    };
    let aux = u8::from(i.has_rep_prefix()) | u8::from(i.has_repne_prefix()) << 1;
    e.push(Uop { size, aux, seg: segment(i.segment_prefix()), ..Uop::new(op) });
    Ok(())
}
