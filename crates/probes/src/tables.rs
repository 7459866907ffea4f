//! Jump tables: which labels an indirect jump can reach.
//!
//! The address of the table is followed backward through the block that jumps:
//!
//! ```text
//!   leaq  .L4(%rip), %rdx         jmp  *.L4(,%rax,8)
//!   movslq (%rdx,%rax,4), %rax
//!   addq  %rdx, %rax
//!   jmp   *%rax
//! ```
//!
//! Where this does not lead to a table of constants, the jump may go to any label whose address is
//! taken.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::code::Code;
use crate::labels::is_data;
use crate::source::{Holds, Kind, names, split};

/// The statements of the labels that the jump at `at`, the last in `block`, can reach; none where
/// its table is not found.
pub fn targets(code: &Code<'_>, block: &[usize], at: usize) -> Option<Vec<usize>> {
    let table = table(code, block, at)?;
    let found = entries(code, table);
    (!found.is_empty()).then_some(found)
}

/// The statement of the table's label.
fn table(code: &Code<'_>, block: &[usize], at: usize) -> Option<usize> {
    let jump = code.effects(at).decoded?;
    let mut wanted = match jump.op0_kind() {
        OpKind::Register => jump.op0_register().full_register(),
        OpKind::Memory => match mentioned(code, at) {
            Some(label) => return Some(label),
            None => jump.memory_base(),
        },
        _ => return None,
    };
    for &index in block.iter().rev().skip(1) {
        let instruction = code.effects(index).decoded?;
        if instruction.op0_kind() != OpKind::Register
            || instruction.op0_register().full_register() != wanted
        {
            let all = code.effects(index);
            if all.kills.meets(crate::regs::Regs::of(wanted)) || code.is_call(index) {
                return None;
            }
            continue;
        }
        wanted = match instruction.mnemonic() {
            Mnemonic::Lea => return mentioned(code, index),
            Mnemonic::Add if instruction.op1_kind() == OpKind::Register => wanted,
            Mnemonic::Mov | Mnemonic::Movsxd => match source(&instruction) {
                Some(Register::None) | None => return mentioned(code, index),
                Some(register) => register,
            },
            // It only tests the register.
            Mnemonic::Cmp | Mnemonic::Test => wanted,
            _ => return None,
        };
    }
    None
}

/// The register that a move reads: its source, or the base of its address.
fn source(instruction: &Instruction) -> Option<Register> {
    match instruction.op1_kind() {
        OpKind::Register => Some(instruction.op1_register().full_register()),
        OpKind::Memory if instruction.memory_base() == Register::RIP => Some(Register::None),
        OpKind::Memory => Some(instruction.memory_base()),
        _ => None,
    }
}

/// The label of constants that the instruction at `index` mentions.
fn mentioned(code: &Code<'_>, index: usize) -> Option<usize> {
    let (_, operands) = split(code.instruction(index));
    let mut found = names(operands).filter_map(|(_, name)| code.labels.defined.get(name));
    let &label = found.next()?;
    (found.next().is_none() && code.source.holds(label) == Holds::Constants).then_some(label)
}

/// The labels in code that the values behind the label `table` name, up to the next label.
fn entries(code: &Code<'_>, table: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let section = code.source.statements[table].section;
    for (index, statement) in code.source.statements.iter().enumerate().skip(table + 1) {
        if statement.section != section {
            break;
        }
        match statement.kind {
            Kind::Directive(name, arguments) if is_data(name) => {
                let label = |name| code.labels.defined.get(name).copied();
                // `.L5-.L4`, or a list of labels: whatever of it stands in code.
                let targets = names(arguments).filter_map(|(_, name)| label(name));
                found.extend(targets.filter(|&label| code.source.holds(label) == Holds::Code));
            }
            Kind::Directive(".p2align" | ".align" | ".balign", _) => {}
            // Several labels may stand before the values.
            Kind::Label(_) if index == table + 1 => {}
            _ => break,
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
