//! Instruction bytes to uops, a block at a time.
//!
//! A block ends at a branch, at an instruction that the machine executes, at one that cannot be
//! executed, or after [`BLOCK`] instructions.

mod cache;
mod control;
mod integer;
mod operand;
mod vector;

use iced_x86::{Decoder, DecoderOptions, FastFormatter, Instruction, Mnemonic, OpKind};

use crate::exec::for_machine;
use crate::fault::Fault;
use crate::memory::Memory;
use crate::uop::{Op, Uop};
pub use cache::Blocks;
use operand::Emit;

/// The longest block, in instructions.
pub const BLOCK: usize = 64;

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// A run of instructions with one entry.
#[derive(Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// The uops of all instructions.
    pub uops: Vec<Uop>,
    /// How many instructions.
    pub instructions: u32,
}

/// The classes of instructions that are left out.
const CLASSES: [&str; 7] = [
    "it is none that the model knows",
    "an x87 or MMX instruction",
    "an AVX-512 instruction",
    "an address of 32 bits",
    "a privileged instruction or far branch",
    "an approximation, FMA, gather or cryptographic instruction",
    "a stack or branch operand of 16 bits",
];

pub(crate) fn class(number: u8) -> &'static str {
    CLASSES[usize::from(number)]
}

/// Decodes the block that begins at `start`.
///
/// # Errors
///
/// There is no code at `start`.
pub fn block(memory: &mut Memory, start: u64) -> Result<Block, Fault> {
    let mut bytes = [0; BLOCK * LONGEST];
    let length = memory.fetch(start, &mut bytes);
    if length == 0 {
        return Err(Fault::Fetch { address: start });
    }
    let mut decoder = Decoder::with_ip(64, &bytes[..length], start, DecoderOptions::NONE);
    let mut block = Block { start, end: start, uops: Vec::new(), instructions: 0 };
    let mut instruction = Instruction::default();
    while block.instructions < BLOCK as u32 {
        let position = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() && length - position < LONGEST && block.instructions > 0 {
            // It may go on in a page that cannot be executed: the next block finds out.
            break;
        }
        let rest = &bytes[position..length];
        if instruction.is_invalid() && rest.len() < LONGEST && decoder.position() == length {
            return Err(Fault::Fetch { address: start + length as u64 });
        }
        let first = block.uops.len();
        translate(&instruction, rest, &mut block.uops);
        let safepoint = has_prefix(rest, &instruction);
        let ordered = is_ordered(&instruction);
        for uop in &mut block.uops[first..] {
            uop.offset = (instruction.ip() - start) as u16;
            uop.length = instruction.len() as u8;
            uop.safepoint = safepoint;
            uop.ordered = ordered;
        }
        let last = block.uops.last_mut().expect("an instruction has a uop");
        last.last = true;
        let op = last.op;
        block.instructions += 1;
        block.end = start + (last.offset + u16::from(last.length)) as u64;
        let ends = matches!(
            op,
            Op::Jcc
                | Op::Jmp
                | Op::JmpReg
                | Op::Loop
                | Op::Uiret
                | Op::Stui
                | Op::Invalid
                | Op::Unsupported
                | Op::Breakpoint
        );
        if ends || for_machine(op) {
            break;
        }
    }
    Ok(block)
}

/// The safepoint prefix is SS (36), which has no meaning of its own in 64-bit mode.
fn has_prefix(bytes: &[u8], instruction: &Instruction) -> bool {
    bytes[..instruction.len().min(bytes.len())]
        .iter()
        .take_while(|byte| {
            matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
        })
        .any(|&byte| byte == 0x36)
}

/// XCHG with memory is locked without a prefix.
fn is_ordered(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    exchanges || instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Mfence
}

/// Appends the uops of an instruction.
fn translate(instruction: &Instruction, bytes: &[u8], uops: &mut Vec<Uop>) {
    if instruction.is_invalid() {
        // xUI's instructions are invalid to everyone else.
        let op = match bytes {
            [0x66, 0x0f, 0x01, 0xec, ..] => Op::SetTimer,
            [0x66, 0x0f, 0x01, 0xed, ..] => Op::ClearTimer,
            _ => Op::Invalid,
        };
        uops.push(Uop::new(op));
        return;
    }
    let first = uops.len();
    let mut emit = Emit::new(instruction, uops);
    let done = match emit.refuse() {
        Some(class) => Err(class),
        None => integer::translate(&mut emit)
            .or_else(|class| vector::translate(&mut emit).map_err(|other| class.max(other))),
    };
    if let Err(class) = done {
        uops.truncate(first);
        uops.push(Uop { aux: class, ..Uop::new(Op::Unsupported) });
    }
    if uops.len() == first {
        uops.push(Uop::new(Op::Nop));
    }
}

/// The text of the instruction at `address`, and its bytes if it has none.
pub fn disassemble(memory: &Memory, address: u64) -> String {
    let mut bytes = [0; LONGEST];
    let length =
        (0..LONGEST).take_while(|&i| memory.peek(address + i as u64, &mut bytes[i..=i])).count();
    let instruction =
        Decoder::with_ip(64, &bytes[..length], address, DecoderOptions::NONE).decode();
    if length == 0 {
        return "(not mapped)".to_owned();
    }
    if instruction.is_invalid() {
        return match bytes {
            [0x66, 0x0f, 0x01, 0xec, ..] => "set_timer".to_owned(),
            [0x66, 0x0f, 0x01, 0xed, ..] => "clear_timer".to_owned(),
            _ => {
                let hex: Vec<_> =
                    bytes[..length.min(8)].iter().map(|b| format!("{b:02x}")).collect();
                format!("(bytes {} ...)", hex.join(" "))
            }
        };
    }
    let mut text = String::new();
    FastFormatter::new().format(&instruction, &mut text);
    text
}
