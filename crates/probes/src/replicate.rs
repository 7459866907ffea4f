//! Replication: small loops are written several times, so that one probe serves more instructions.
//!
//! A *region* is a stretch of text that holds a loop. All its jumps backward must go to its first
//! block, except those of loops of a few iterations ([`crate::bounded`]) to themselves. Each copy
//! is the whole region with exits of its own; jumps forward stay in their copy, and the jumps
//! backward go to the start of the next copy, those of the last to the first:
//!
//! ```text
//!   .L3:  ... je .L5 ... jne .L3        .L3:   ... je .L5 ... je .Lend      copy 0
//!                                       .Lq1:  ... je .L5 ... je .Lend      copy 1
//!                                       .Lq2:  ... je .L5 ... jne .L3       copy 2
//!                                       .Lend:
//! ```
//!
//! Whoever enters enters the first copy. Inside another loop the probe stands in the last: a loop
//! of few rounds passes none, and the loop around it has its own. Otherwise it stands in the first:
//! each call passes it, for a library without probes (`qsort`) may call the function again and
//! again. At every point a copy does what the original does there, so nothing else needs to hold;
//! the limits are about what belongs to one place only: calls (their landing pads), unwinding
//! directives, inline assembly, jump tables.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use iced_x86::ConditionCode;

use crate::cfg::Cfg;
use crate::code::Code;
use crate::effects::Flow;
use crate::graph::Loop;
use crate::source::{Kind, split};

/// Instructions that a loop may have to be replicated.
const LARGEST: usize = 48;

/// A stretch of text that is written several times.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its blocks, which follow each other in the text.
    pub blocks: RangeInclusive<usize>,
    /// How often it is written.
    pub copies: usize,
    /// The copy in which its probe stands.
    pub probed: usize,
    /// Its statements.
    pub statements: RangeInclusive<usize>,
}

/// The region of `body`, if it may be replicated: so often, but at most `most` times, that
/// `target` instructions are executed for each probe. `bounded`: blocks that jump to themselves,
/// so often.
pub fn region(
    code: &Code<'_>,
    cfg: &Cfg,
    body: &Loop,
    bounded: &HashMap<usize, u64>,
    most: usize,
    target: usize,
) -> Option<Region> {
    let size = cfg.instructions(&body.body);
    let executed = |&number: &usize| {
        let rounds = bounded.get(&number).map_or(1, |&rounds| rounds as usize);
        rounds * cfg.blocks[number].code.len()
    };
    let executed: usize = body.body.iter().map(executed).sum();
    let copies = target.div_ceil(executed.max(1)).min(most);
    let (&first, &last) = (body.body.first()?, body.body.last()?);
    let blocks = first..=last;
    let count: usize = cfg.blocks[blocks.clone()].iter().map(|block| block.code.len()).sum();
    if copies < 2 || size > LARGEST || count > 2 * LARGEST {
        return None;
    }
    let part = cfg.blocks[first].part;
    // Not worth the room.
    if code.functions.parts[part].name.contains(".cold") {
        return None;
    }
    for number in blocks.clone() {
        let block = &cfg.blocks[number];
        if block.part != part || block.pad {
            return None;
        }
        for &next in &cfg.graph.next[number] {
            let few = next == number && bounded.contains_key(&number);
            if blocks.contains(&next) && next <= number && next != first && !few {
                return None;
            }
        }
    }
    let end = *cfg.blocks[last].code.last()?;
    let statements = cfg.blocks[first].first..=end;
    let section = code.functions.parts[part].section;
    let starts_with_label = cfg.of_label.contains_key(statements.start());
    let simple = statements.clone().all(|index| {
        code.source.statements[index].section == section && may_be_copied(code, index)
    });
    (starts_with_label && simple).then_some(Region { blocks, copies, probed: 0, statements })
}

fn may_be_copied(code: &Code<'_>, index: usize) -> bool {
    match code.source.statements[index].kind {
        Kind::Blank => true,
        Kind::Label(name) => {
            !code.labels.excepted.contains(&index)
                && (name.starts_with(".L") || !code.labels.targets.contains(&index))
        }
        Kind::Directive(name, _) => matches!(name, ".loc" | ".p2align" | ".align" | ".balign"),
        Kind::Instruction(text) => {
            let effects = code.effects(index);
            !effects.is_opaque()
                && !effects.short
                && !matches!(effects.flow, Flow::Call | Flow::Indirect)
                && !code.glued.contains(&index)
                && !text.contains("@tls")
        }
        Kind::Prefix(_) | Kind::Assembly(_) => false,
    }
}

/// New text for statements of the first copy, and the text of the other copies.
pub struct Copies {
    /// Statements of the first copy that change.
    pub changed: Vec<(usize, String)>,
    /// What follows the first copy.
    pub text: String,
}

/// Writes the copies of `region`. New labels begin with `prefix`, which no other region uses.
/// `probes`: those of later copies, by the statements before which they stand.
pub fn copies(
    code: &Code<'_>,
    cfg: &Cfg,
    region: &Region,
    probes: &HashMap<usize, String>,
    prefix: &str,
) -> Copies {
    let writer = Writer { code, cfg, region, probes, prefix };
    let mut result = Copies { changed: Vec::new(), text: String::new() };
    for copy in 0..region.copies {
        writer.copy(copy, &mut result);
    }
    result.text.push_str(prefix);
    result.text.push_str("_end:\n");
    result
}

struct Writer<'a, 't> {
    code: &'a Code<'t>,
    cfg: &'a Cfg,
    region: &'a Region,
    probes: &'a HashMap<usize, String>,
    prefix: &'a str,
}

impl Writer<'_, '_> {
    fn copy(&self, copy: usize, result: &mut Copies) {
        let last = *self.region.statements.end();
        let mut location = None;
        for index in self.region.statements.clone() {
            let kind = self.code.source.statements[index].kind;
            let changed = self.statement(copy, index, kind);
            match (copy, kind) {
                (0, _) => result.changed.extend(changed.map(|text| (index, text))),
                (_, Kind::Directive(".loc", arguments)) => location = Some(arguments),
                (_, Kind::Instruction(text)) => {
                    // Only the last of several locations counts, and views are named once.
                    if let Some(location) = location.take() {
                        let plain = location.split(" view ").next().unwrap_or(location);
                        result.text.push_str(&format!("\t.loc\t{plain}\n"));
                    }
                    if let Some(probe) = self.probes.get(&index)
                        && copy == self.region.probed
                    {
                        result.text.push_str(probe);
                    }
                    let same = || format!("\t{text}\n");
                    result.text.push_str(&changed.unwrap_or_else(same));
                }
                _ => result.text.push_str(&changed.unwrap_or_default()),
            }
        }
        // Behind a copy comes the next one, not what comes behind the region.
        let falls = matches!(self.code.effects(last).flow, Flow::Next | Flow::Branch);
        if falls && copy + 1 < self.region.copies && !self.jumps_back(last) {
            result.text.push_str(&format!("\tjmp\t{}_end\n", self.prefix));
        }
    }

    /// The statement in a copy, where it differs from the original.
    fn statement(&self, copy: usize, index: usize, kind: Kind<'_>) -> Option<String> {
        match kind {
            Kind::Label(_) if copy > 0 && self.cfg.of_label.contains_key(&index) => {
                Some(format!("{}:\n", self.label(copy, index)))
            }
            Kind::Instruction(text) => self.jump(copy, index, text),
            _ => None,
        }
    }

    /// A jump within the region.
    fn jump(&self, copy: usize, index: usize, text: &str) -> Option<String> {
        let effects = self.code.effects(index);
        let target = self.target(index)?;
        let (mnemonic, _) = split(text);
        let head = &text[..mnemonic.as_ptr() as usize - text.as_ptr() as usize + mnemonic.len()];
        if !self.is_first(target) {
            return (copy > 0).then(|| format!("\t{head}\t{}\n", self.label(copy, target)));
        }
        let next = copy + 1;
        if next == self.region.copies {
            let first = self.label(0, *self.region.statements.start());
            return (copy > 0).then(|| format!("\t{head}\t{first}\n"));
        }
        if index == *self.region.statements.end() {
            // The next copy follows.
            return Some(match effects.decoded.map(|decoded| decoded.condition_code()) {
                Some(condition) if condition != ConditionCode::None => {
                    format!("\tj{}\t{}_end\n", inverse(condition), self.prefix)
                }
                _ => String::new(),
            });
        }
        let next = self.label(next, *self.region.statements.start());
        Some(format!("\t{head}\t{next}\n"))
    }

    /// The label in the region that the instruction at `index` jumps to.
    fn target(&self, index: usize) -> Option<usize> {
        if !matches!(self.code.effects(index).flow, Flow::Jump | Flow::Branch) {
            return None;
        }
        let (_, operands) = split(self.code.instruction(index));
        let name = crate::labels::Labels::named(operands)?;
        let label = *self.code.labels.defined.get(name)?;
        let block = self.cfg.of_label.get(&label)?;
        self.region.blocks.contains(block).then_some(label)
    }

    fn is_first(&self, label: usize) -> bool {
        self.cfg.of_label.get(&label) == Some(self.region.blocks.start())
    }

    fn jumps_back(&self, index: usize) -> bool {
        self.target(index).is_some_and(|target| self.is_first(target))
    }

    /// The name in `copy` of the label at `index`.
    fn label(&self, copy: usize, index: usize) -> String {
        if copy > 0 {
            return format!("{}_{copy}_{index}", self.prefix);
        }
        match self.code.source.statements[index].kind {
            Kind::Label(name)
                if self.code.source.text[self.code.source.span(index)].contains('"') =>
            {
                format!("\"{name}\"")
            }
            Kind::Label(name) => name.to_owned(),
            _ => String::new(),
        }
    }
}

fn inverse(condition: ConditionCode) -> &'static str {
    match condition {
        ConditionCode::o => "no",
        ConditionCode::no => "o",
        ConditionCode::b => "ae",
        ConditionCode::ae => "b",
        ConditionCode::e => "ne",
        ConditionCode::ne => "e",
        ConditionCode::be => "a",
        ConditionCode::a => "be",
        ConditionCode::s => "ns",
        ConditionCode::ns => "s",
        ConditionCode::p => "np",
        ConditionCode::np => "p",
        ConditionCode::l => "ge",
        ConditionCode::ge => "l",
        ConditionCode::le => "g",
        _ => "le",
    }
}
