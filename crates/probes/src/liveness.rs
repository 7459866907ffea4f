//! Which registers and flags hold a value that is read later.
//!
//! Backward over the control flow for all of them; and forward for vector and x87 registers,
//! whether anything can have been put there at all: only what is both is live.
//!
//! At the edges of a function the ABI does not say enough. Compilers keep values in registers
//! across calls of functions of the same text that do not use them (gcc's `-fipa-ra`), and
//! functions of other conventions (`ms_abi`, `preserve_most`) keep more for callers anywhere:
//!
//! * A call reads all registers that may hold arguments, keeps every register, and kills the flags.
//! * A function returns with everything alive that it does not overwrite.
//! * Vector registers may be passed on by functions that do not touch them: all of the widest kind
//!   that the text uses count as defined at entries and calls, and as read by calls and returns.
//! * The x87 registers are empty at entries and calls. A call may return in them, unless the result
//!   in rax is read; and since compilers know the depth of that stack at each place, they are
//!   empty where they are on one of the ways to it.

use crate::cfg::{Cfg, Exit};
use crate::code::Code;
use crate::effects::Flow;
use crate::regs::Regs;

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

/// What one statement does to the sets.
struct Step {
    reads: Regs,
    kills: Regs,
    defines: Regs,
    /// Leaves the forward set.
    empties: Regs,
}

fn step(code: &Code<'_>, block: &[usize], at: usize) -> Step {
    let index = block[at];
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
        step.kills |= Regs::FLAGS | Regs::X87;
        step.defines |= vectors;
        if returns_integer(code, block, at) {
            step.empties = Regs::X87;
        } else {
            step.defines |= Regs::X87;
        }
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

/// Whether the result of the call at `at` in a block is an integer: rax is read before it is
/// written. Around functions of the same text it may have been kept from before.
fn returns_integer(code: &Code<'_>, block: &[usize], at: usize) -> bool {
    let rax = Regs::general(0);
    if code.calls_within(block[at]) {
        return false;
    }
    for &index in &block[at + 1..] {
        let effects = code.effects(index);
        if effects.is_opaque() || effects.flow != Flow::Next {
            return false;
        }
        if effects.reads.meets(rax) {
            return true;
        }
        if effects.kills.meets(rax) {
            return false;
        }
    }
    false
}

impl Liveness {
    /// Computes it.
    pub fn new(code: &Code<'_>, cfg: &Cfg) -> Self {
        let count = cfg.blocks.len();
        let vectors = Regs::vectors(code.width);
        let returns = Regs::GENERAL | vectors | Regs::X87;

        let mut reads = vec![Regs::NONE; count];
        let mut kills = vec![Regs::NONE; count];
        let mut defines = vec![Regs::NONE; count];
        let mut empties = vec![Regs::NONE; count];
        for (number, block) in cfg.blocks.iter().enumerate() {
            for at in (0..block.code.len()).rev() {
                let step = step(code, &block.code, at);
                reads[number] = reads[number].without(step.kills) | step.reads;
                kills[number] |= step.kills;
            }
            for at in 0..block.code.len() {
                let step = step(code, &block.code, at);
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
        let at_end =
            |number: usize, at_start: Regs| at_start.without(empties[number]) | defines[number];
        changed = true;
        while changed {
            changed = false;
            for &number in order.iter().rev() {
                let mut sets = defined[number];
                for &before in &cfg.graph.before[number] {
                    sets |= at_end(before, defined[before]).without(Regs::X87);
                }
                changed |= sets != defined[number];
                defined[number] = sets;
            }
        }
        // The x87 stack is as deep on all ways to a block.
        let mut full: Vec<bool> =
            cfg.blocks.iter().map(|block| !block.root || block.dead).collect();
        changed = true;
        while changed {
            changed = false;
            for &number in order.iter().rev() {
                let fills = |&before: &usize| {
                    let start = if full[before] { Regs::X87 } else { Regs::NONE };
                    at_end(before, start).meets(Regs::X87)
                };
                if full[number] && !cfg.graph.before[number].iter().all(fills) {
                    full[number] = false;
                    changed = true;
                }
            }
        }
        for (number, _) in full.iter().enumerate().filter(|(_, full)| **full) {
            defined[number] |= Regs::X87;
        }
        Liveness { out, defined }
    }

    /// What is live before each instruction of block `number`.
    pub fn points(&self, code: &Code<'_>, cfg: &Cfg, number: usize) -> Points {
        let statements = &cfg.blocks[number].code;
        let mut before = vec![Regs::NONE; statements.len()];
        let mut live = self.out[number];
        for (at, before) in before.iter_mut().enumerate().rev() {
            let step = step(code, statements, at);
            live = live.without(step.kills) | step.reads;
            *before = live;
        }
        let mut defined = self.defined[number];
        for (at, before) in before.iter_mut().enumerate() {
            *before = *before & (defined | !Regs::VECTORS);
            let step = step(code, statements, at);
            defined = defined.without(step.empties) | step.defines;
        }
        Points { before }
    }
}
