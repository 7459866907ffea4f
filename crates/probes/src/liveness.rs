//! Which registers and flags hold a value that is read later.
//!
//! Backward over the control flow for all of them; and forward for vector and x87 registers,
//! whether anything can have been put there at all: only what is both is live.
//!
//! At the edges of a function the ABI does not say enough, because compilers keep values in
//! registers across calls of functions of the same text that do not use them (gcc's `-fipa-ra`):
//!
//! * A call reads all registers that may hold arguments, keeps every register, and kills the flags.
//! * A function that the same text calls by name returns with everything alive that it does not
//!   overwrite. Others return with the results alive; the registers that a callee saves count as
//!   live everywhere (see [`crate::abi`]).
//! * Vector registers may be passed on by functions that do not touch them: all of the widest kind
//!   that the text uses count as defined at entries and calls, and as read by calls and returns.
//! * The x87 registers are empty at entries and calls, except around calls within the text, and a
//!   call may return in them.

use crate::cfg::{Cfg, Exit};
use crate::code::Code;
use crate::effects::Flow;
use crate::regs::Regs;
use crate::source::split;

/// Liveness in one function.
#[derive(Debug)]
pub struct Liveness {
    /// Live at the end of each block.
    out: Vec<Regs>,
    /// Vector and x87 registers that can hold something at the start of each block.
    defined: Vec<Regs>,
}

/// What is live before each instruction of a block.
pub struct Points {
    /// One for each instruction.
    pub before: Vec<Regs>,
}

/// rax, rcx, rdx, r8: what functions return in, of all conventions of the compilers.
const RESULTS: Regs = Regs(0x107);

/// What one statement does to the sets.
struct Step {
    reads: Regs,
    kills: Regs,
    defines: Regs,
    /// Leaves the forward set.
    empties: Regs,
}

fn step(code: &Code<'_>, index: usize) -> Step {
    let effects = code.effects(index);
    let mut step = Step {
        reads: effects.reads,
        kills: effects.kills,
        defines: effects.defines,
        empties: Regs::NONE,
    };
    let vectors = Regs::vectors(code.width);
    if effects.flow == Flow::Call {
        step.reads |= Regs::GENERAL | vectors;
        step.kills |= Regs::FLAGS;
        if !calls_within(code, index) {
            step.kills |= Regs::X87;
        }
        step.defines |= vectors | Regs::X87;
    } else if let Some(instruction) = effects.decoded {
        if instruction.mnemonic() == iced_x86::Mnemonic::Vzeroupper {
            step.empties = Regs::UPPER;
        }
        if matches!(instruction.mnemonic(), iced_x86::Mnemonic::Emms) {
            step.empties = Regs::X87;
        }
    }
    step
}

/// Whether a call goes to a function that the same text defines.
fn calls_within(code: &Code<'_>, index: usize) -> bool {
    let (_, operands) = split(code.instruction(index));
    let name = crate::labels::Labels::named(operands);
    name.is_some_and(|name| code.labels.defined.contains_key(name))
}

impl Liveness {
    /// Computes it. `called`: whether the same text calls the function by name.
    pub fn new(code: &Code<'_>, cfg: &Cfg, called: bool) -> Self {
        let count = cfg.blocks.len();
        let vectors = Regs::vectors(code.width);
        let returns = if called { Regs::GENERAL } else { RESULTS } | vectors | Regs::X87;

        let mut reads = vec![Regs::NONE; count];
        let mut kills = vec![Regs::NONE; count];
        let mut defines = vec![Regs::NONE; count];
        let mut empties = vec![Regs::NONE; count];
        for (number, block) in cfg.blocks.iter().enumerate() {
            for &index in block.code.iter().rev() {
                let step = step(code, index);
                reads[number] = reads[number].without(step.kills) | step.reads;
                kills[number] |= step.kills;
            }
            for &index in &block.code {
                let step = step(code, index);
                defines[number] = defines[number].without(step.empties) | step.defines;
                empties[number] |= step.empties;
            }
        }

        let exit = |number: usize| match cfg.blocks[number].exit {
            Exit::None => Regs::NONE,
            Exit::Return => returns,
            Exit::Unknown => Regs::ALL.without(Regs::FLAGS),
        };
        let mut out: Vec<Regs> = (0..count).map(exit).collect();
        let everything: Vec<usize> = (0..count).collect();
        let order = cfg.graph.postorder(&everything);
        let mut changed = true;
        while changed {
            changed = false;
            for &number in &order {
                let mut live = out[number];
                for &next in &cfg.graph.next[number] {
                    live |= out[next].without(kills[next]) | reads[next];
                }
                changed |= live != out[number];
                out[number] = live;
            }
        }

        let mut defined = vec![Regs::NONE; count];
        for (number, block) in cfg.blocks.iter().enumerate() {
            if block.root && !block.pad {
                defined[number] = vectors;
            }
        }
        changed = true;
        while changed {
            changed = false;
            for &number in order.iter().rev() {
                let mut sets = defined[number];
                for &before in &cfg.graph.before[number] {
                    sets |= defined[before].without(empties[before]) | defines[before];
                }
                changed |= sets != defined[number];
                defined[number] = sets;
            }
        }
        Liveness { out, defined }
    }

    /// What is live before each instruction of block `number`.
    pub fn points(&self, code: &Code<'_>, cfg: &Cfg, number: usize) -> Points {
        let statements = &cfg.blocks[number].code;
        let mut before = vec![Regs::NONE; statements.len()];
        let mut live = self.out[number];
        for (at, &index) in statements.iter().enumerate().rev() {
            let step = step(code, index);
            live = live.without(step.kills) | step.reads;
            before[at] = live;
        }
        let mut defined = self.defined[number];
        for (at, &index) in statements.iter().enumerate() {
            before[at] = before[at] & (defined | !Regs::VECTORS);
            let step = step(code, index);
            defined = defined.without(step.empties) | step.defines;
        }
        Points { before }
    }
}
