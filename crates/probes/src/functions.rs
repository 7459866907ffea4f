//! The functions of a text.
//!
//! A *part* is a piece of a function in one section: from its label or `.cfi_startproc` to
//! `.cfi_endproc`, or, without those, from a label that `.type` calls a function to `.size` or to
//! the next such label. A function has several parts where the compiler moved unlikely code away:
//! parts that jump to each other's local labels, or are called `name` and `name.cold`, are one
//! function.
//!
//! LLVM writes the assembly text of a program between functions without a mark (gcc marks it). What
//! does not end in one of LLVM's own labels is not the compiler's there, and is left out.

use std::collections::HashMap;

use crate::labels::Labels;
use crate::parse::LLVM_END;
use crate::source::{Holds, Kind, Source, split};

/// A piece of a function in one section.
#[derive(Clone, Debug)]
pub struct Part<'t> {
    /// The name that it bears, or the empty string.
    pub name: &'t str,
    /// Its section.
    pub section: u32,
    /// Its first statement.
    pub first: usize,
    /// The statement before which it ends.
    pub end: usize,
    /// The statement of `.cfi_startproc`, if it has one.
    pub cfi: Option<usize>,
    /// Whether the compiler wrote it.
    compiled: bool,
}

impl Part<'_> {
    /// Whether statement `index` is in it.
    pub fn holds(&self, index: usize) -> bool {
        (self.first..self.end).contains(&index)
    }
}

/// A function: the numbers of its parts in order, its entry in the first.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Indices into [`Functions::parts`].
    pub parts: Vec<usize>,
}

/// All functions of a text.
#[derive(Debug, Default)]
pub struct Functions<'t> {
    /// The pieces.
    pub parts: Vec<Part<'t>>,
    /// What they are pieces of.
    pub all: Vec<Function>,
    /// The first statements of what was not written by the compiler.
    pub foreign: Vec<usize>,
}

impl<'t> Functions<'t> {
    /// Finds the functions of `source`.
    pub fn new(source: &Source<'t>, labels: &Labels<'t>) -> Self {
        let mut parts = find_parts(source, labels);
        let foreign = |part: &Part<'_>| source.llvm && !part.compiled;
        let left = parts.iter().filter(|part| foreign(part)).map(|part| part.first).collect();
        parts.retain(|part| !foreign(part));
        let all = join(source, labels, &parts);
        Functions { parts, all, foreign: left }
    }
}

fn find_parts<'t>(source: &Source<'t>, labels: &Labels<'t>) -> Vec<Part<'t>> {
    let mut finder = Finder { parts: Vec::new(), open: None, last: 0 };
    for (index, statement) in source.statements.iter().enumerate() {
        if source.holds(index) == Holds::Code {
            finder.statement(source, labels, index, statement.kind);
        }
    }
    finder.close();
    finder.parts.retain(|part| part.end > part.first);
    finder.parts
}

struct Finder<'t> {
    parts: Vec<Part<'t>>,
    open: Option<Part<'t>>,
    /// Behind the last instruction of the open part; its start where there is none yet.
    last: usize,
}

impl<'t> Finder<'t> {
    fn statement(
        &mut self,
        source: &Source<'t>,
        labels: &Labels<'t>,
        index: usize,
        kind: Kind<'t>,
    ) {
        let section = source.statements[index].section;
        match kind {
            Kind::Label(name) if labels.functions.contains(name) => {
                let ours = self.open.as_ref().is_some_and(|part| {
                    part.section == section && (part.cfi.is_some() || self.last == part.first)
                });
                if !ours {
                    self.start(name, section, index);
                } else if let Some(part) = &mut self.open
                    && part.name.is_empty()
                {
                    part.name = name;
                }
            }
            Kind::Label(name) if name.starts_with(LLVM_END) => {
                // The function's size and debug information end here.
                if let Some(part) = &mut self.open {
                    part.compiled = true;
                    part.end = index;
                }
            }
            Kind::Directive(".cfi_startproc", _) => {
                let fresh = self.open.as_ref().is_some_and(|part| {
                    part.section == section && part.cfi.is_none() && self.last == part.first
                });
                if !fresh {
                    self.start("", section, index);
                }
                if let Some(part) = &mut self.open {
                    part.cfi = Some(index);
                }
            }
            Kind::Directive(".cfi_endproc", _) => {
                let open = self.open.take_if(|part| part.cfi.is_some());
                let end = |part: &Part<'_>| if part.compiled { part.end } else { index };
                self.parts.extend(open.map(|part| Part { end: end(&part), ..part }));
            }
            // Without unwinding information there is no other end.
            Kind::Directive(".size", _)
                if self.open.as_ref().is_some_and(|part| part.cfi.is_none()) =>
            {
                self.close();
            }
            Kind::Instruction(_) | Kind::Assembly(_) | Kind::Prefix(_)
                if self.open.as_ref().is_some_and(|part| part.section == section) =>
            {
                self.last = index + 1;
            }
            _ => {}
        }
    }

    fn start(&mut self, name: &'t str, section: u32, first: usize) {
        self.close();
        self.open = Some(Part { name, section, first, end: first, cfi: None, compiled: false });
        self.last = first;
    }

    /// Ends a part that nothing else ends.
    fn close(&mut self) {
        if let Some(mut part) = self.open.take() {
            part.end = self.last;
            self.parts.push(part);
        }
    }
}

/// Joins parts to functions.
fn join(source: &Source<'_>, labels: &Labels<'_>, parts: &[Part<'_>]) -> Vec<Function> {
    let mut root: Vec<usize> = (0..parts.len()).collect();
    fn find(root: &mut [usize], mut part: usize) -> usize {
        while root[part] != part {
            root[part] = root[root[part]];
            part = root[part];
        }
        part
    }
    let mut unite = |a: usize, b: usize| {
        let (a, b) = (find(&mut root, a), find(&mut root, b));
        root[a.max(b)] = a.min(b);
    };
    // Parts are in the order of their starts, and those of one section do not overlap.
    let part_of = |statement: usize| {
        let section = source.statements[statement].section;
        let after = parts.partition_point(|part| part.first <= statement);
        let found = parts[..after].iter().rposition(|part| part.section == section)?;
        (statement < parts[found].end).then_some(found)
    };
    let mut named: HashMap<&str, usize> = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        if !part.name.is_empty() {
            named.insert(part.name, number);
        }
    }
    for (number, part) in parts.iter().enumerate() {
        let whole = part.name.rfind(".cold").map(|at| &part.name[..at]);
        if let Some(&other) = whole.and_then(|name| named.get(name)) {
            unite(number, other);
        }
        for index in part.first..part.end {
            let statement = &source.statements[index];
            let Kind::Instruction(text) = statement.kind else { continue };
            if statement.section != part.section || !text.contains(".L") {
                continue;
            }
            let target = Labels::named(split(text).1).filter(|name| name.starts_with(".L"));
            if let Some(&label) = target.and_then(|name| labels.defined.get(name))
                && !(part.first..part.end).contains(&label)
                && let Some(other) = part_of(label)
            {
                unite(number, other);
            }
        }
    }
    let mut functions: Vec<Function> = Vec::new();
    let mut of_root = HashMap::new();
    for number in 0..parts.len() {
        let root = find(&mut root, number);
        let function = *of_root.entry(root).or_insert_with(|| {
            functions.push(Function::default());
            functions.len() - 1
        });
        functions[function].parts.push(number);
    }
    // The entry is not in a cold part, wherever that stands.
    for function in &mut functions {
        function.parts.sort_by_key(|&part| parts[part].name.contains(".cold"));
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn functions(text: &str) -> Vec<Vec<String>> {
        let source = parse(text).unwrap();
        let labels = Labels::new(&source);
        let found = Functions::new(&source, &labels);
        let names = |function: &Function| {
            function.parts.iter().map(|&part| found.parts[part].name.to_owned()).collect()
        };
        found.all.iter().map(names).collect()
    }

    #[test]
    fn cold_parts_belong_to_their_function() {
        let text = "\t.type f, @function\nf:\n.LFB0:\n.cfi_startproc\njne .L2\nret\n.cfi_endproc\n\
            .section .text.unlikely\n.cfi_startproc\n.type f.cold, @function\nf.cold:\n.LFSB0:\n\
            .L2: call abort\n.cfi_endproc\n.LFE0:\n.text\n.size f, .-f\n\
            .type g, @function\ng:\n.cfi_startproc\nret\n.cfi_endproc\n";
        assert_eq!(functions(text), [vec!["f", "f.cold"], vec!["g"]]);
    }

    #[test]
    fn text_of_the_program_is_not_the_compilers() {
        let text = "\t.ident \"clang\"\n.type f, @function\nf:\nret\n.size f, .-f\n\
            .type g, @function\ng:\nret\n.Lfunc_end0:\n.size g, .Lfunc_end0-g\n";
        assert_eq!(functions(text), [vec!["g"]]);
    }

    #[test]
    fn functions_without_unwinding_information() {
        let text = "\t.type f, @function\nf:\njne .L2\nret\n.section .text.unlikely\n\
            .type f.cold, @function\nf.cold:\n.L2: call abort\n.text\n.size f, .-f\n\
            .type g, @function\ng:\nret\n.size g, .-g\nnop\n";
        assert_eq!(functions(text), [vec!["f", "f.cold"], vec!["g"]]);
    }
}
