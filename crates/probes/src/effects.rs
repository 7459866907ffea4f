//! What each instruction reads, overwrites and does next.
//!
//! There is no table of mnemonics here: the assembler that will assemble the program translates the
//! instructions, and a decoder says what their bytes do. Each different instruction is assembled
//! once, in a slot of its own:
//!
//! ```text
//!   slot 0             slot 1             slot 2
//!   | bytes  06 06 06 | bytes  06 06 06 | ...          16 bytes each, filled with 0x06
//! ```
//!
//! 0x06 is no instruction in 64-bit code. What does not decode to exactly one instruction that is
//! followed by nothing but the filling is *opaque*: it reads everything, overwrites nothing for
//! certain, and nothing may be inserted beside it.
//!
//! Where an effect depends on a value (a shift by `%cl`, a repeated comparison, a masked write),
//! nothing counts as overwritten.

use std::collections::HashMap;
use std::path::Path;

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use crate::abi::VectorClass;
use crate::assembler::{Assembler, Error};
use crate::regs::Regs;
use crate::source::{is_symbol_byte, split};

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next one.
    Next,
    /// To a function, and then to the next one.
    Call,
    /// To a label.
    Jump,
    /// To a label or the next one.
    Branch,
    /// To what a register or memory says.
    Indirect,
    /// Out of the function.
    Return,
    /// Nowhere.
    Stop,
}

/// What one instruction does.
#[derive(Clone, Copy, Debug)]
pub struct Effects {
    /// What it may read.
    pub reads: Regs,
    /// What it overwrites in any case.
    pub kills: Regs,
    /// What it may write; vector and x87 registers only.
    pub defines: Regs,
    /// Where control goes.
    pub flow: Flow,
    /// The widest vector register that it names.
    pub width: VectorClass,
    /// Whether it jumps with a distance of 8 bits that cannot grow (`jrcxz`, `loop`).
    pub short: bool,
    /// The decoded instruction; none where it is opaque.
    pub decoded: Option<Instruction>,
}

impl Effects {
    /// What nothing is known about.
    pub const OPAQUE: Effects = Effects {
        reads: Regs::ALL,
        kills: Regs::NONE,
        defines: Regs::ALL,
        flow: Flow::Next,
        width: VectorClass::None,
        short: false,
        decoded: None,
    };

    /// Whether nothing is known about it.
    pub fn is_opaque(&self) -> bool {
        self.decoded.is_none()
    }
}

/// Bytes for one instruction.
const SLOT: usize = 16;
/// No instruction in 64-bit code.
const FILLING: u8 = 0x06;

/// The different instructions of a text, and their effects once they have been assembled.
#[derive(Default)]
pub struct Table {
    numbers: HashMap<String, u32>,
    texts: Vec<String>,
    effects: Vec<Effects>,
}

impl Table {
    /// The number of `instruction`, which stands after the lone prefixes `before`.
    pub fn number(&mut self, before: &str, instruction: &str) -> u32 {
        let text = normal(before, instruction);
        if let Some(&number) = self.numbers.get(&text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.numbers.insert(text.clone(), number);
        self.texts.push(text);
        number
    }

    /// The effects of instruction `number`.
    pub fn get(&self, number: u32) -> &Effects {
        &self.effects[number as usize]
    }

    /// All effects.
    pub fn all(&self) -> &[Effects] {
        &self.effects
    }

    /// Assembles and decodes all of them. An instruction that the assembler refuses is opaque.
    ///
    /// # Errors
    ///
    /// Where the assembler cannot be run, or refuses without naming lines.
    pub fn resolve(&mut self, assembler: &Assembler, folder: &Path) -> Result<(), Error> {
        let mut refused = vec![false; self.texts.len()];
        let bytes = loop {
            match assembler.bytes(&self.slots(&refused), folder) {
                Ok(bytes) => break bytes,
                Err(Error::Refused { program, status, message }) => {
                    let lines = error_lines(&message);
                    let mut news = false;
                    for line in lines {
                        // Two lines for each slot, after the first.
                        if let Some(flag) = refused.get_mut(line.saturating_sub(2) / 2) {
                            news |= !std::mem::replace(flag, true);
                        }
                    }
                    if !news {
                        return Err(Error::Refused { program, status, message });
                    }
                }
                Err(error) => return Err(error),
            }
        };
        let whole = bytes.len() == self.texts.len() * SLOT;
        let mut info = InstructionInfoFactory::new();
        self.effects = if whole {
            bytes.chunks_exact(SLOT).map(|slot| decode(slot, &mut info)).collect()
        } else {
            vec![Effects::OPAQUE; self.texts.len()]
        };
        Ok(())
    }

    /// The text to assemble: on line 1 the section, then two lines for each instruction.
    fn slots(&self, refused: &[bool]) -> String {
        use std::fmt::Write;
        let mut text = String::with_capacity(self.texts.len() * 48);
        text.push_str("\t.text\n");
        for (index, instruction) in self.texts.iter().enumerate() {
            let instruction = if refused[index] { "" } else { instruction };
            let end = (index + 1) * SLOT;
            let _ = writeln!(text, "\t{instruction}\n\t.org {end}, {FILLING}");
        }
        text
    }
}

/// The same instruction for all targets, and with names that need no definition: what follows the
/// mnemonic of a direct jump or call is replaced, and local labels become symbols.
fn normal(before: &str, instruction: &str) -> String {
    let (mnemonic, operands) = split(instruction);
    let jump = mnemonic.starts_with('j') || mnemonic.starts_with("call");
    let mut text = String::with_capacity(before.len() + instruction.len() + 2);
    text.push_str(before);
    if jump && !operands.is_empty() && !operands.starts_with('*') {
        let head = instruction.len() - operands.len();
        text.push_str(instruction[..head].trim_end());
        text.push_str(" quaver_target");
        return text;
    }
    if let Some(symbol) = relative(operands) {
        let head = instruction.len() - operands.len();
        text.push_str(&instruction[..head]);
        text.push_str(&operands[..symbol.start]);
        text.push_str("quaver_symbol");
        text.push_str(&operands[symbol.end..]);
        return text;
    }
    if !instruction.contains(".L") {
        text.push_str(instruction);
        return text;
    }
    let bytes = instruction.as_bytes();
    let mut from = 0;
    for (at, _) in instruction.match_indices(".L") {
        let starts = at == 0 || !is_symbol_byte(bytes[at - 1]) || bytes[at - 1] == b'$';
        if starts {
            text.push_str(&instruction[from..at]);
            text.push_str("quaver_L");
            from = at + 2;
        }
    }
    text.push_str(&instruction[from..]);
    text
}

/// Where the symbol of `symbol(%rip)` stands in `operands`, with what is added to it.
fn relative(operands: &str) -> Option<std::ops::Range<usize>> {
    let end = operands.find("(%rip)")?;
    let start = operands[..end].rfind([',', '*', ' ', '\t', ':']).map_or(0, |at| at + 1);
    let symbol = &operands[start..end];
    let plain = symbol.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '.');
    (plain && !symbol.contains(['(', '"', '%', '$'])).then_some(start..end)
}

/// The line numbers in an assembler's messages: `file:LINE: Error: ...`.
fn error_lines(message: &str) -> Vec<usize> {
    let number = |line: &str| {
        let (_, rest) = line.split_once(".s:")?;
        rest.split(':').next()?.trim().parse().ok()
    };
    message.lines().filter_map(number).collect()
}

fn decode(slot: &[u8], info: &mut InstructionInfoFactory) -> Effects {
    let mut decoder = Decoder::new(64, slot, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let rest = &slot[instruction.len()..];
    if instruction.is_invalid() || rest.iter().any(|&byte| byte != FILLING) {
        return Effects::OPAQUE;
    }
    let flow = match instruction.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::UnconditionalBranch => Flow::Jump,
        FlowControl::IndirectBranch => Flow::Indirect,
        FlowControl::ConditionalBranch => Flow::Branch,
        FlowControl::Return => Flow::Return,
        FlowControl::Call | FlowControl::IndirectCall
            if instruction.mnemonic() == Mnemonic::Call =>
        {
            Flow::Call
        }
        FlowControl::Exception => Flow::Stop,
        // System calls, interrupts, transactions.
        _ => return Effects::OPAQUE,
    };
    let flow = if instruction.mnemonic() == Mnemonic::Hlt { Flow::Stop } else { flow };
    let (reads, kills, defines) = registers(&instruction, info);
    let named = |operand| match instruction.op_kind(operand) {
        OpKind::Register => {
            let all = Regs::of(instruction.op_register(operand));
            all.without(Regs::X87).class()
        }
        _ => VectorClass::None,
    };
    Effects {
        reads,
        kills,
        defines: defines & Regs::VECTORS,
        flow,
        width: (0..instruction.op_count()).map(named).fold(VectorClass::None, Ord::max),
        short: instruction.is_jcx_short() || instruction.is_loop() || instruction.is_loopcc(),
        decoded: Some(instruction),
    }
}

/// What is read, overwritten and possibly written.
fn registers(instruction: &Instruction, info: &mut InstructionInfoFactory) -> (Regs, Regs, Regs) {
    let (mut reads, mut kills, mut defines) = (Regs::NONE, Regs::NONE, Regs::NONE);
    for used in info.info(instruction).used_registers() {
        let register = used.register();
        let bits = Regs::of(register);
        // A part of a general register leaves the rest of it.
        let whole = !register.is_gpr() || register.size() >= 4;
        match used.access() {
            OpAccess::Write => {
                defines |= bits;
                if whole {
                    kills |= bits;
                }
            }
            OpAccess::CondWrite => defines |= bits,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                reads |= bits;
                defines |= bits;
            }
            OpAccess::Read | OpAccess::CondRead => reads |= bits,
            OpAccess::None | OpAccess::NoMemAccess => {}
        }
    }
    reads |= Regs::flags(instruction.rflags_read());
    let mut flags = Regs::flags(instruction.rflags_modified());
    let operand_cl = (1..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand) == Register::CL
    });
    let repeated = instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    if operand_cl || repeated {
        flags = Regs::NONE;
    }
    kills |= flags;

    let of_x87 = |feature: &CpuidFeature| {
        matches!(
            feature,
            CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387 | CpuidFeature::MMX
        )
    };
    if instruction.cpuid_features().iter().any(of_x87) {
        reads |= Regs::X87;
        defines |= Regs::X87;
    }
    match instruction.mnemonic() {
        // What is left in the upper parts is zero; nobody reads it.
        Mnemonic::Vzeroupper => {
            reads = reads.without(Regs::VECTORS);
            kills |= Regs::UPPER;
            defines = Regs::NONE;
        }
        // These take or give more than the decoder names.
        Mnemonic::Fxsave
        | Mnemonic::Fxsave64
        | Mnemonic::Xsave
        | Mnemonic::Xsave64
        | Mnemonic::Xsavec
        | Mnemonic::Xsavec64
        | Mnemonic::Xsaveopt
        | Mnemonic::Xsaveopt64
        | Mnemonic::Fxrstor
        | Mnemonic::Fxrstor64
        | Mnemonic::Xrstor
        | Mnemonic::Xrstor64 => {
            reads = Regs::ALL;
            kills = Regs::NONE;
            defines = Regs::ALL;
        }
        _ => {}
    }
    // An old SSE instruction keeps the upper parts of what it writes, but no compiler counts on it.
    if let OpKind::Register = instruction.op0_kind() {
        let first = instruction.op0_register();
        if first.is_xmm() && Regs::of(first).meets(defines) {
            kills |= Regs::of(first.full_register()) & Regs::UPPER;
        }
    }
    (reads, kills, defines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(instructions: &[&str]) -> Vec<Effects> {
        let folder = tempfile::tempdir().unwrap();
        let mut table = Table::default();
        let numbers: Vec<u32> =
            instructions.iter().map(|instruction| table.number("", instruction)).collect();
        table.resolve(&Assembler::default(), folder.path()).unwrap();
        numbers.iter().map(|&number| *table.get(number)).collect()
    }

    const ZERO: Regs = Regs(1 << 98);

    #[test]
    fn flags() {
        let found = effects(&[
            "addl %eax, %ebx",
            "incl %eax",
            "shll %cl, %eax",
            "shll $0, %eax",
            "shll $3, %eax",
            "rep cmpsb",
            "cmpsb",
            "adcq $0, %rax",
            "bt %eax, %ebx",
            "leaq 1(%rax), %rbx",
        ]);
        let kills = |at: usize| (found[at].kills.meets(ZERO), found[at].kills.meets(Regs::CARRY));
        assert_eq!(kills(0), (true, true));
        assert_eq!(kills(1), (true, false));
        assert_eq!(kills(2), (false, false), "by a count that may be 0");
        assert_eq!(kills(3), (false, false));
        assert_eq!(kills(4), (true, true));
        assert_eq!(kills(5), (false, false), "perhaps not once");
        assert_eq!(kills(6), (true, true));
        assert_eq!(kills(7), (true, true));
        assert!(found[7].reads.meets(Regs::CARRY) && !found[7].reads.meets(ZERO));
        assert!(!kills(8).0 && kills(8).1);
        assert_eq!(kills(9), (false, false));
    }

    #[test]
    fn registers() {
        let found = effects(&[
            "movl %eax, %ebx",
            "movb %al, %bl",
            "xorl %ecx, %ecx",
            "cmovne %eax, %edx",
            "vaddps %xmm1, %xmm2, %xmm3",
            "addss %xmm1, %xmm0",
            "vzeroupper",
            "fld1",
            "vaddps %zmm1, %zmm2, %zmm3{%k1}",
            "divq %rsi",
        ]);
        let general = |register| Regs::general(register);
        assert!(found[0].kills.meets(general(3)) && found[0].reads.meets(general(0)));
        assert!(!found[1].kills.meets(general(3)), "a part");
        assert!(!found[2].reads.meets(general(1)) && found[2].kills.meets(general(1)));
        assert!(found[3].reads.meets(general(2)), "perhaps not written");
        assert!(found[4].kills.meets(Regs::of(Register::ZMM3) & Regs::UPPER), "cleared");
        assert!(found[5].reads.meets(Regs::of(Register::XMM0)));
        assert!(found[6].reads.is_empty() && found[6].kills.meets(Regs::UPPER));
        assert_eq!(found[7].defines, Regs::X87);
        assert!(found[8].reads.meets(Regs::of(Register::ZMM3)), "masked");
        assert!(found[8].reads.meets(Regs::of(Register::K1)));
        assert!(found[9].reads.meets(general(2)) && found[9].reads.meets(general(0)));
    }

    #[test]
    fn flow() {
        let found = effects(&[
            "jne .L3",
            "jmp .L4",
            "jmp *.L4(,%rax,8)",
            "call f@PLT",
            "ret",
            "ud2",
            "jrcxz .L5",
            "nop",
            "notrack jmp *%rax",
            "syscall",
        ]);
        let flows: Vec<Flow> = found.iter().map(|effects| effects.flow).collect();
        let next = [Flow::Branch, Flow::Next, Flow::Indirect, Flow::Next];
        assert_eq!(
            flows[..6],
            [Flow::Branch, Flow::Jump, Flow::Indirect, Flow::Call, Flow::Return, Flow::Stop]
        );
        assert_eq!(flows[6..], next);
        assert!(found[6].short && !found[0].short);
        assert!(found[9].is_opaque());
    }

    #[test]
    fn what_is_refused_is_opaque() {
        let found = effects(&["nop", "frobnicate %eax", "movl %eax, %ebx"]);
        assert!(found[1].is_opaque());
        assert!(!found[0].is_opaque() && !found[2].is_opaque());
    }

    #[test]
    fn equal_instructions_are_assembled_once() {
        assert_eq!(normal("", "jne\t.L3"), normal("", "jne\t.L4"));
        assert_eq!(normal("", "leaq\t.LC0(%rip), %rax"), normal("", "leaq\tfoo+8(%rip), %rax"));
        assert_eq!(normal("", "jmp\t*%rax"), "jmp\t*%rax");
        assert_eq!(normal("lock; ", "incl\t.L5(,%rax)"), "lock; incl\tquaver_L5(,%rax)");
    }
}
