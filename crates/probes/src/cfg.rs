//! The control flow of one function: basic blocks and the edges between them.
//!
//! Control is followed through labels, so a function in which it may go where no label says is
//! left alone ([`Left`]). Inline assembly is a block of its own with an edge to every label that it
//! mentions.

use std::collections::HashMap;
use std::ops::Range;

use crate::code::{Code, lays_bytes};
use crate::effects::Flow;
use crate::functions::Function;
use crate::graph::Graph;
use crate::labels::{Guarded, Labels};
use crate::source::{Kind, names, split};
use crate::tables;

/// Why a function is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The statement.
    pub at: usize,
    /// What is there.
    pub why: &'static str,
}

/// Where control goes that leaves the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It does not leave here.
    None,
    /// To the caller.
    Return,
    /// Into another function, or to an unknown place.
    Unknown,
}

/// A basic block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The part that it stands in.
    pub part: usize,
    /// Its first statement: its first label, or its first instruction.
    pub first: usize,
    /// The statements of its instructions, in order.
    pub code: Vec<usize>,
    /// How control leaves the function from its end, besides its edges.
    pub exit: Exit,
    /// Whether control reaches it from outside: entry, landing pad, address taken.
    pub root: bool,
    /// Whether exceptions land here.
    pub pad: bool,
    /// Whether nothing leads here.
    pub dead: bool,
}

/// The control flow of a function.
#[derive(Debug)]
pub struct Cfg {
    /// Blocks in the order of the text, the entry's part first.
    pub blocks: Vec<Block>,
    /// The edges.
    pub graph: Graph,
    /// The block at each label that is a target, and of each piece of inline assembly.
    pub of_label: HashMap<usize, usize>,
}

impl Cfg {
    /// The control flow of `function`. A function without instructions has no blocks.
    ///
    /// # Errors
    ///
    /// What makes it impossible to follow.
    pub fn new(code: &Code<'_>, function: &Function) -> Result<Cfg, Left> {
        for &part in &function.parts {
            let part = &code.functions.parts[part];
            if code.labels.resolvers.contains(part.name) {
                let why = "it may run before there is a thread control block (ifunc)";
                return Err(Left { at: part.first, why });
            }
        }
        let (blocks, of_label) = blocks(code, function)?;
        let mut cfg = Cfg { graph: Graph::new(blocks.len()), blocks, of_label };
        let mut edges = Edges { code, cfg: &mut cfg };
        for number in 0..edges.cfg.blocks.len() {
            edges.of_block(number)?;
        }
        edges.landings();
        for (number, block) in cfg.blocks.iter_mut().enumerate() {
            block.dead = cfg.graph.before[number].is_empty() && !block.root;
            block.root |= block.dead;
        }
        Ok(cfg)
    }

    /// The blocks that are reached from outside.
    pub fn roots(&self) -> Vec<usize> {
        (0..self.blocks.len()).filter(|&number| self.blocks[number].root).collect()
    }

    /// Number of instructions in the blocks of `body`.
    pub fn instructions(&self, body: &[usize]) -> usize {
        body.iter().map(|&number| self.blocks[number].code.len()).sum()
    }
}

/// Directives between instructions that mean nothing to control flow.
fn is_harmless(name: &str) -> bool {
    name.starts_with(".cfi_")
        || name.starts_with(".addrsig")
        || matches!(
            name,
            ".loc"
                | ".p2align"
                | ".prefalign"
                | ".align"
                | ".balign"
                | ".type"
                | ".globl"
                | ".global"
                | ".size"
                | ".file"
                | ".weak"
                | ".hidden"
                | ".internal"
                | ".protected"
                | ".local"
                | ".comm"
                | ".set"
                | ".equ"
                | "="
                | ".text"
                | ".section"
                | ".previous"
                | ".pushsection"
                | ".popsection"
                | ".data"
                | ".bss"
                | ".ident"
                | ".symver"
                | ".nops"
                | ".cv_loc"
                | ".loc_mark_labels"
                | ".weakref"
                | ".data_region"
                | ".end_data_region"
        )
}

/// Whether a call goes to a label that is no function.
fn calls_a_label(code: &Code<'_>, index: usize) -> bool {
    if !code.is_call(index) {
        return false;
    }
    let name = Labels::named(split(code.instruction(index)).1);
    name.is_some_and(|name| name.starts_with(".L") && !code.labels.functions.contains(name))
}

type OfLabel = HashMap<usize, usize>;

fn blocks(code: &Code<'_>, function: &Function) -> Result<(Vec<Block>, OfLabel), Left> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut of_label = OfLabel::new();
    for &part in &function.parts {
        let (first, end) = (code.functions.parts[part].first, code.functions.parts[part].end);
        let section = code.functions.parts[part].section;
        let mut open = false;
        let entry = blocks.len();
        for index in first..end {
            let statement = &code.source.statements[index];
            if statement.section != section {
                continue;
            }
            let start = |blocks: &mut Vec<Block>| {
                let exit = Exit::None;
                let (code, root, pad, dead) = (Vec::new(), false, false, false);
                blocks.push(Block { part, first: index, code, exit, root, pad, dead });
            };
            match statement.kind {
                Kind::Label(_) if code.labels.targets.contains(&index) => {
                    let fresh = open && blocks.last().is_some_and(|block| block.code.is_empty());
                    if !fresh {
                        start(&mut blocks);
                        open = true;
                    }
                    of_label.insert(index, blocks.len() - 1);
                }
                Kind::Instruction(_) | Kind::Assembly(_) => {
                    let assembly = matches!(statement.kind, Kind::Assembly(_));
                    let used = blocks.last().is_some_and(|block| !block.code.is_empty());
                    if !open || assembly && used {
                        start(&mut blocks);
                    }
                    if let Some(block) = blocks.last_mut() {
                        block.code.push(index);
                    }
                    if assembly {
                        of_label.insert(index, blocks.len() - 1);
                    }
                    open = !assembly && matches!(code.effects(index).flow, Flow::Next | Flow::Call);
                    if calls_a_label(code, index) {
                        return Err(Left { at: index, why: "a call of a local label" });
                    }
                    if code.effects(index).short {
                        return Err(Left { at: index, why: "a jump that cannot be made longer" });
                    }
                }
                Kind::Directive(".cfi_startproc", "simple") => {
                    return Err(Left { at: index, why: "`.cfi_startproc simple`" });
                }
                Kind::Directive(name, _) if !is_harmless(name) && !lays_bytes(name) => {
                    return Err(Left { at: index, why: "an unknown directive" });
                }
                _ => {}
            }
        }
        // Where unwinding information says that it ends, a compiler lets nothing but what cannot be
        // reached run on; without it, the end may be elsewhere.
        if let Some(last) = blocks[entry..].last()
            && let Some(&index) = last.code.last()
            && code.functions.parts[part].cfi.is_none()
            && matches!(code.effects(index).flow, Flow::Next | Flow::Branch)
        {
            return Err(Left { at: index, why: "control runs off its end" });
        }
        let cold = code.functions.parts[part].name.contains(".cold");
        if let Some(block) = blocks.get_mut(entry)
            && !cold
        {
            block.root = true;
        }
    }
    Ok((blocks, of_label))
}

struct Edges<'a, 't> {
    code: &'a Code<'t>,
    cfg: &'a mut Cfg,
}

impl Edges<'_, '_> {
    fn of_block(&mut self, number: usize) -> Result<(), Left> {
        let Some(&last) = self.cfg.blocks[number].code.last() else {
            self.fall(number);
            return Ok(());
        };
        let statement = &self.code.source.statements[last];
        let effects = self.code.effects(last);
        match (statement.kind, effects.flow) {
            (Kind::Assembly(body), _) => {
                self.mentioned(number, body);
                self.fall(number);
            }
            (Kind::Instruction(text), _) if effects.is_opaque() => {
                self.mentioned(number, text);
                self.fall(number);
            }
            (Kind::Instruction(text), Flow::Jump | Flow::Branch) => {
                self.direct(number, last, text)?;
                if effects.flow == Flow::Branch {
                    self.fall(number);
                }
            }
            (_, Flow::Indirect) => self.indirect(number, last),
            (_, Flow::Return) => {
                let plain = self.code.instruction(last).contains("ret")
                    && !self.code.instruction(last).contains("iret");
                self.leave(number, if plain { Exit::Return } else { Exit::Unknown });
            }
            (_, Flow::Stop) => {}
            _ => self.fall(number),
        }
        Ok(())
    }

    /// Control runs on into the next block. A call at the end of a part does not return.
    fn fall(&mut self, number: usize) {
        let part = self.cfg.blocks[number].part;
        if self.cfg.blocks.get(number + 1).is_some_and(|next| next.part == part) {
            self.cfg.graph.add(number, number + 1);
        }
    }

    fn leave(&mut self, number: usize, exit: Exit) {
        self.cfg.blocks[number].exit = exit;
    }

    fn mentioned(&mut self, number: usize, text: &str) {
        for (_, name) in names(text) {
            let label = self.code.labels.defined.get(name);
            if let Some(&block) = label.and_then(|label| self.cfg.of_label.get(label))
                && block != number
            {
                self.cfg.graph.add(number, block);
            }
        }
        // Inline assembly may return, or jump to another function.
        self.leave(number, Exit::Unknown);
    }

    fn direct(&mut self, number: usize, at: usize, text: &str) -> Result<(), Left> {
        let (_, operands) = split(text);
        let Some(name) = Labels::named(operands) else {
            return Err(Left { at, why: "a jump to something other than a label" });
        };
        let label = self.code.labels.defined.get(name);
        match label.and_then(|label| self.cfg.of_label.get(label)) {
            // To the name of this function through the table of symbols: perhaps another one.
            Some(&block) if !operands.ends_with("@PLT") => self.cfg.graph.add(number, block),
            _ => self.leave(number, Exit::Unknown),
        }
        Ok(())
    }

    fn indirect(&mut self, number: usize, at: usize) {
        if let Some(targets) = tables::targets(self.code, &self.cfg.blocks[number].code, at) {
            for label in targets {
                match self.cfg.of_label.get(&label) {
                    Some(&block) => self.cfg.graph.add(number, block),
                    None => self.leave(number, Exit::Unknown),
                }
            }
            return;
        }
        self.leave(number, Exit::Unknown);
        let mut taken: Vec<usize> = Vec::new();
        for (label, &block) in &self.cfg.of_label {
            if self.code.labels.taken.contains(label) && !self.names_function(*label) {
                taken.push(block);
            }
        }
        taken.sort_unstable();
        for block in taken {
            self.cfg.graph.add(number, block);
        }
    }

    fn names_function(&self, label: usize) -> bool {
        match self.code.source.statements[label].kind {
            Kind::Label(name) => self.code.labels.functions.contains(name),
            _ => false,
        }
    }

    /// Edges from what may throw to where it lands, and the marks of pads and taken addresses.
    fn landings(&mut self) {
        let mut landings: Vec<(usize, usize)> = Vec::new();
        let guarded = &self.code.labels.guarded;
        for part in self.parts() {
            let blocks = &self.cfg.blocks[part.clone()];
            let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { continue };
            let from = guarded.partition_point(|guarded| guarded.pad < first.first);
            let here = guarded[from..].iter().take_while(|guarded| guarded.pad <= last.first);
            landings.extend(here.flat_map(|guarded| self.landing(guarded)));
        }
        for (from, pad) in landings {
            self.cfg.graph.add(from, pad);
            self.cfg.blocks[pad].pad = true;
            self.cfg.blocks[pad].root = true;
        }
        for (&label, &number) in &self.cfg.of_label {
            let function = self.names_function(label);
            let taken = self.code.labels.taken.contains(&label);
            if function || taken && self.cfg.graph.before[number].is_empty() {
                self.cfg.blocks[number].root = true;
            }
        }
    }

    /// The blocks that `guarded` guards, each with the block of the landing pad.
    fn landing(&self, guarded: &Guarded) -> Vec<(usize, usize)> {
        let Some(&pad) = self.cfg.of_label.get(&guarded.pad) else { return Vec::new() };
        let mut found = Vec::new();
        for part in self.parts() {
            let blocks = &self.cfg.blocks[part.clone()];
            let inside = |&index: &usize| guarded.start <= index && index < guarded.end;
            let after = blocks.partition_point(|block| block.first <= guarded.start);
            for (number, block) in blocks.iter().enumerate().skip(after.saturating_sub(1)) {
                if block.first >= guarded.end {
                    break;
                }
                if block.code.iter().any(inside) {
                    found.push((part.start + number, pad));
                }
            }
        }
        found
    }

    /// The blocks of each part: they are in the order of the text.
    fn parts(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (number, block) in self.cfg.blocks.iter().enumerate() {
            match ranges.last_mut() {
                Some(range) if self.cfg.blocks[range.start].part == block.part => {
                    range.end = number + 1;
                }
                _ => ranges.push(number..number + 1),
            }
        }
        ranges
    }
}
