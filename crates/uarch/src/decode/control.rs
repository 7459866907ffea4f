//! Uops of control transfers, and of what depends on a condition.

use iced_x86::{Code, ConditionCode, Mnemonic as M};

use super::integer::{copy, move_stack, pop, push};
use super::operand::{Emit, Refused};
use crate::uop::{Op, Uop, reg};

/// The four bits with which an instruction names its condition.
fn condition(code: ConditionCode) -> u8 {
    code as u8 - 1
}

/// Emits the uops of a branch, call, return, SETcc or CMOVcc.
///
/// # Errors
///
/// It is none, or it is left out: the class.
pub(super) fn control(e: &mut Emit<'_>) -> Result<(), Refused> {
    let i = e.i;
    let narrow =
        i.op_count() > 0 && i.op0_register().is_gpr16() || i.stack_pointer_increment().abs() == 2;
    let target = i.near_branch_target() as i64;
    let conditional = condition_of(i.mnemonic());
    match i.mnemonic() {
        _ if i.is_jcc_short_or_near() => {
            let aux = condition(i.condition_code());
            e.push(Uop { aux, imm: target, ..Uop::new(Op::Jcc) });
        }
        M::Jmp | M::Call | M::Ret if narrow => return Err(6),
        M::Jmp if i.is_jmp_short_or_near() => e.push(Uop { imm: target, ..Uop::new(Op::Jmp) }),
        M::Jmp if i.is_jmp_near_indirect() => {
            let (a, _) = e.source(0);
            e.push(Uop { a, ..Uop::new(Op::JmpReg) });
        }
        M::Call if i.is_call_near() || i.is_call_near_indirect() => {
            let direct = i.is_call_near();
            let mut a = if direct { reg::ZERO } else { e.source(0).0 };
            if a == reg::RSP {
                copy(e, 3, reg::T0, a, 0);
                a = reg::T0;
            }
            copy(e, 3, reg::T1, reg::IMM, i.next_ip() as i64);
            push(e, reg::T1);
            let op = if direct { Op::Jmp } else { Op::JmpReg };
            e.push(Uop { a, imm: if direct { target } else { 0 }, ..Uop::new(op) });
        }
        M::Ret => {
            let more = if i.op_count() == 1 { i64::from(i.immediate16()) } else { 0 };
            pop(e);
            move_stack(e, 8 + more);
            e.push(Uop { a: reg::T0, ..Uop::new(Op::JmpReg) });
        }
        M::Loop | M::Loope | M::Loopne | M::Jrcxz | M::Jecxz => {
            let aux = match i.code() {
                Code::Loop_rel8_64_RCX => 0,
                Code::Loope_rel8_64_RCX => 1,
                Code::Loopne_rel8_64_RCX => 2,
                Code::Jrcxz_rel8_64 => 3,
                Code::Jecxz_rel8_64 => 4,
                _ => return Err(3),
            };
            e.push(Uop { aux, imm: target, ..Uop::new(Op::Loop) });
        }
        _ if conditional == Some(Op::SetCc) => {
            let dst = e.result();
            e.push(Uop { dst, aux: condition(i.condition_code()), ..Uop::new(Op::SetCc) });
            e.finish(0, dst);
        }
        _ if conditional == Some(Op::Cmov) => {
            let (b, _) = e.source(1);
            let (size, dst) = (e.size(0), e.result());
            let aux = condition(i.condition_code());
            e.push(Uop { size, dst, a: dst, b, aux, ..Uop::new(Op::Cmov) });
        }
        _ => return Err(0),
    }
    Ok(())
}

fn condition_of(m: M) -> Option<Op> {
    Some(match m {
        M::Seta
        | M::Setae
        | M::Setb
        | M::Setbe
        | M::Sete
        | M::Setg
        | M::Setge
        | M::Setl
        | M::Setle
        | M::Setne
        | M::Setno
        | M::Setnp
        | M::Setns
        | M::Seto
        | M::Setp
        | M::Sets => Op::SetCc,
        M::Cmova
        | M::Cmovae
        | M::Cmovb
        | M::Cmovbe
        | M::Cmove
        | M::Cmovg
        | M::Cmovge
        | M::Cmovl
        | M::Cmovle
        | M::Cmovne
        | M::Cmovno
        | M::Cmovnp
        | M::Cmovns
        | M::Cmovo
        | M::Cmovp
        | M::Cmovs => Op::Cmov,
        _ => return None,
    })
}
