//! Loops that are known to end soon.
//!
//! Only the plainest are proved: one block that jumps to itself, counted by one register that
//! starts with a constant, changes by a constant once, and is compared with a constant (or 0) for
//! the jump.
//!
//! ```text
//!         xorl  %eax, %eax        start: the only block outside that enters
//!   .L3:  ...
//!         addq  $8, %rax          step
//!         cmpq  $64, %rax         end
//!         jne   .L3               8 iterations
//! ```

use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};

use crate::cfg::Cfg;
use crate::code::Code;
use crate::regs::Regs;
use crate::source::names;

/// Iterations of the loop that block `number` is, if they are constant.
pub fn iterations(code: &Code<'_>, cfg: &Cfg, number: usize) -> Option<u64> {
    let block = &cfg.blocks[number];
    let (&last, body) = block.code.split_last()?;
    if block.root || code.effects(last).decoded?.condition_code() != ConditionCode::ne {
        return None;
    }
    let decoded = |index: usize| code.effects(index).decoded;
    if body.iter().any(|&index| decoded(index).is_none() || code.is_call(index)) {
        return None;
    }

    // The last instruction that changes the zero flag decides.
    let zero = Regs::flags(iced_x86::RflagsBits::ZF);
    let deciding = body.iter().rposition(|&index| touches_flags(code, index, zero))?;
    let test = decoded(body[deciding])?;
    if test.op0_kind() != OpKind::Register {
        return None;
    }
    let counter = test.op0_register().full_register();
    let writes = |&&index: &&usize| writes(code, index, counter);
    let mut changes = body.iter().filter(writes);
    let change = *changes.next()?;
    if changes.next().is_some() {
        return None;
    }
    let (step, width) = step(&decoded(change)?)?;
    let end = if change == body[deciding] {
        0
    } else {
        if body[deciding] < change {
            return None;
        }
        match test.mnemonic() {
            Mnemonic::Cmp => constant(&test)?,
            Mnemonic::Test if test.op1_register() == test.op0_register() => 0,
            _ => return None,
        }
    };
    // What the linker fills in reads as 0 here.
    let symbols = |index: usize| names(code.instruction(index)).count() > 1;
    // Smaller parts of a register could match earlier.
    if width < 4 || test.op0_register().size() < 4 {
        return None;
    }

    let mut outside = cfg.graph.before[number].iter().filter(|&&before| before != number);
    let start = &cfg.blocks[*outside.next()?];
    if outside.next().is_some() {
        return None;
    }
    let first = start.code.iter().rev().find(|&&index| {
        code.effects(index).is_opaque() || code.is_call(index) || self::writes(code, index, counter)
    })?;
    if symbols(change) || symbols(body[deciding]) || symbols(*first) {
        return None;
    }
    let begin = initial(&decoded(*first)?, counter)?;
    let distance = end.checked_sub(begin)?;
    (step != 0 && distance % step == 0 && distance / step > 0).then(|| (distance / step) as u64)
}

fn touches_flags(code: &Code<'_>, index: usize, flags: Regs) -> bool {
    let modified =
        code.effects(index).decoded.map_or(u32::MAX, |decoded| decoded.rflags_modified());
    Regs::flags(modified).meets(flags)
}

/// Whether the instruction may write a part of `register`.
fn writes(code: &Code<'_>, index: usize, register: Register) -> bool {
    let Some(decoded) = code.effects(index).decoded else { return true };
    let mut info = iced_x86::InstructionInfoFactory::new();
    info.info(&decoded).used_registers().iter().any(|used| {
        used.register().is_gpr()
            && used.register().full_register() == register
            && !matches!(used.access(), iced_x86::OpAccess::Read | iced_x86::OpAccess::CondRead)
    })
}

/// What an instruction adds to its first operand, and the operand's size.
fn step(change: &Instruction) -> Option<(i64, usize)> {
    let register = change.op0_register();
    let step = match change.mnemonic() {
        Mnemonic::Add => constant(change)?,
        Mnemonic::Sub => -constant(change)?,
        Mnemonic::Inc => 1,
        Mnemonic::Dec => -1,
        _ => return None,
    };
    (change.op0_kind() == OpKind::Register).then_some((step, register.size()))
}

/// The immediate operand.
fn constant(instruction: &Instruction) -> Option<i64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 => {
            Some(i64::from(instruction.immediate8() as i8))
        }
        OpKind::Immediate32 => Some(i64::from(instruction.immediate32() as i32)),
        OpKind::Immediate32to64 => Some(i64::from(instruction.immediate32() as i32)),
        _ => None,
    }
}

/// The constant that an instruction puts into all of `counter`.
fn initial(instruction: &Instruction, counter: Register) -> Option<i64> {
    let register = instruction.op0_register();
    let ours = instruction.op0_kind() == OpKind::Register
        && register.full_register() == counter
        && register.size() >= 4;
    if !ours {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Xor if instruction.op1_kind() == OpKind::Register => {
            (instruction.op1_register() == register).then_some(0)
        }
        Mnemonic::Mov => {
            let value = constant(instruction)?;
            // A 32-bit move clears the upper half.
            (value >= 0).then_some(value)
        }
        _ => None,
    }
}
