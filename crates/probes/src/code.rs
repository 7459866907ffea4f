//! A text with everything that is known about its instructions.

use std::collections::HashSet;
use std::path::Path;

use crate::abi::VectorClass;
use crate::assembler::{Assembler, Error};
use crate::effects::{Effects, Flow, Table};
use crate::functions::Functions;
use crate::labels::{Labels, is_data};
use crate::source::{Holds, Kind, Source, names, split};

/// A text, its labels and functions, and the effects of its instructions.
pub struct Code<'t> {
    /// The statements.
    pub source: &'t Source<'t>,
    /// The labels.
    pub labels: Labels<'t>,
    /// The functions.
    pub functions: Functions<'t>,
    /// Instructions that data or a lone prefix precede: nothing may come between.
    pub glued: HashSet<usize>,
    /// The widest vector registers that the text uses, at least xmm: what functions may pass on
    /// to each other without touching it.
    pub width: VectorClass,
    /// Instructions that take the address of a function of the text: a call through a register may
    /// be one of that function, and compilers know that.
    addressed: Vec<usize>,
    table: Table,
    /// The number in the table, for each statement that is an instruction.
    numbers: Vec<u32>,
}

const NO_NUMBER: u32 = u32::MAX;

impl<'t> Code<'t> {
    /// Looks at all of `source`. Vector registers are taken to be at least as wide as `at_least`.
    ///
    /// # Errors
    ///
    /// Where the assembler fails.
    pub fn new(
        source: &'t Source<'t>,
        at_least: VectorClass,
        assembler: &Assembler,
        folder: &Path,
    ) -> Result<Self, Error> {
        let labels = Labels::new(source);
        let functions = Functions::new(source, &labels);
        let mut table = Table::default();
        let mut numbers = vec![NO_NUMBER; source.statements.len()];
        let mut glued = HashSet::new();
        let mut before = String::new();
        let mut after_data = false;
        for (index, statement) in source.statements.iter().enumerate() {
            if source.holds(index) != Holds::Code {
                continue;
            }
            match statement.kind {
                Kind::Prefix(text) => {
                    before.push_str(text);
                    before.push_str("; ");
                }
                Kind::Instruction(text) => {
                    if !before.is_empty() || after_data {
                        glued.insert(index);
                    }
                    numbers[index] = table.number(&before, text);
                    before.clear();
                    after_data = false;
                }
                Kind::Directive(name, _) if lays_bytes(name) => after_data = true,
                _ => {}
            }
        }
        table.resolve(assembler, folder)?;
        let widths = table.all().iter().map(|effects| effects.width);
        let width = widths.fold(at_least.max(VectorClass::Xmm), Ord::max);
        let addressed = Vec::new();
        let mut code = Code { source, labels, functions, glued, width, addressed, table, numbers };
        code.addressed = code.find_addressed();
        Ok(code)
    }

    fn find_addressed(&self) -> Vec<usize> {
        let mut functions = self.labels.functions.clone();
        for statement in &self.source.statements {
            if let Kind::Directive(".set" | ".equ" | "=", arguments) = statement.kind {
                let pair: Vec<&str> = names(arguments).map(|(_, name)| name).collect();
                if let [alias, name] = pair[..]
                    && functions.contains(name)
                {
                    functions.insert(alias);
                }
            }
        }
        let mut found = Vec::new();
        for index in 0..self.source.statements.len() {
            let (_, operands) = split(self.instruction(index));
            if Labels::named(operands).is_none()
                && names(operands).any(|(_, name)| functions.contains(name))
            {
                found.push(index);
            }
        }
        found
    }

    /// What statement `index` does: an instruction or inline assembly.
    pub fn effects(&self, index: usize) -> &Effects {
        match self.numbers[index] {
            NO_NUMBER => &Effects::OPAQUE,
            number => self.table.get(number),
        }
    }

    /// The text of the instruction at `index`; empty where there is none.
    pub fn instruction(&self, index: usize) -> &'t str {
        match self.source.statements[index].kind {
            Kind::Instruction(text) => text,
            _ => "",
        }
    }

    /// Whether the call at `index` goes to a function that the text defines: by name, or perhaps
    /// through a register (`-mcmodel=large`).
    pub fn calls_within(&self, index: usize) -> bool {
        let operands = split(self.instruction(index)).1;
        match Labels::named(operands) {
            Some(name) => self.labels.defined.contains_key(name),
            None => {
                let part = self.functions.parts.iter().find(|part| part.holds(index));
                let holds = |&at: &usize| part.is_none_or(|part| part.holds(at));
                operands.starts_with("*%") && self.addressed.iter().any(holds)
            }
        }
    }

    /// Whether the instruction at `index` calls.
    pub fn is_call(&self, index: usize) -> bool {
        self.effects(index).flow == Flow::Call
    }
}

/// Whether a directive between instructions lays down bytes that may belong to the next one.
pub fn lays_bytes(name: &str) -> bool {
    let extra = [".zero", ".skip", ".space", ".fill", ".ascii", ".asciz", ".string", ".octa"];
    is_data(name) && !matches!(name, ".set" | ".equ" | "=") || extra.contains(&name)
}
