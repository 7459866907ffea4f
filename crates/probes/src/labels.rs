//! Where labels are defined, and who mentions them.
//!
//! Most labels serve debug information only. A *target* is one that control can reach from
//! elsewhere: a jump names it, its address is taken (a jump table, `&&label`), an exception lands
//! on it, inline assembly mentions it, or it is a function's name.

use std::collections::{HashMap, HashSet};

use crate::source::{Holds, Kind, Source, names, split};

/// A range of statements whose exceptions land on a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The statement at which the range begins.
    pub start: usize,
    /// The statement before which it ends.
    pub end: usize,
    /// The statement of the landing pad's label.
    pub pad: usize,
}

/// The labels of a text.
#[derive(Debug, Default)]
pub struct Labels<'t> {
    /// The statement that defines a label; for one that inline assembly defines, that statement.
    pub defined: HashMap<&'t str, usize>,
    /// Names that `.type` declares to be functions.
    pub functions: HashSet<&'t str>,
    /// Functions that choose another one while a program is loaded (`ifunc`).
    pub resolvers: HashSet<&'t str>,
    /// Statements of labels whose address is taken.
    pub taken: HashSet<usize>,
    /// Statements of labels that control can reach from elsewhere, the taken ones included.
    pub targets: HashSet<usize>,
    /// Statements of all labels that tables of landing pads mention.
    pub excepted: HashSet<usize>,
    /// Which exceptions land where, in the order of the landing pads.
    pub guarded: Vec<Guarded>,
}

impl<'t> Labels<'t> {
    /// Collects the labels of `source`.
    pub fn new(source: &Source<'t>) -> Self {
        let mut labels = Labels::default();
        labels.define(source);
        labels.mention(source);
        labels.land(source);
        labels
    }

    /// The label that `operands` of a direct jump or call name, without `@PLT`; none where it is
    /// anything but a name.
    pub fn named(operands: &'t str) -> Option<&'t str> {
        let plain = operands.strip_suffix("@PLT").unwrap_or(operands).trim();
        let (at, name) = names(plain).next()?;
        let length = if plain.starts_with('"') { name.len() + 2 } else { name.len() };
        (at == 0 && length == plain.len()).then_some(name)
    }

    fn define(&mut self, source: &Source<'t>) {
        for (index, statement) in source.statements.iter().enumerate() {
            match statement.kind {
                Kind::Label(name) => {
                    self.defined.insert(name, index);
                }
                Kind::Assembly(body) => {
                    for name in defined_within(body) {
                        self.defined.entry(name).or_insert(index);
                    }
                }
                Kind::Directive(".type", arguments) => {
                    let function = ["@function", "@gnu_indirect_function", "STT_FUNC"];
                    if function.iter().any(|kind| arguments.contains(kind)) {
                        self.functions.extend(names(arguments).map(|(_, name)| name).next());
                    }
                }
                _ => {}
            }
        }
        self.resolve(source);
        let targets = self.functions.iter().filter_map(|name| self.defined.get(name));
        self.targets.extend(targets);
    }

    fn resolve(&mut self, source: &Source<'t>) {
        for statement in &source.statements {
            match statement.kind {
                Kind::Directive(".type", arguments)
                    if arguments.contains("gnu_indirect_function") =>
                {
                    self.resolvers.extend(names(arguments).map(|(_, name)| name).next());
                }
                Kind::Directive(".set" | ".equ" | "=", arguments) => {
                    let mut pair = names(arguments).map(|(_, name)| name);
                    if pair.next().is_some_and(|name| self.resolvers.contains(name)) {
                        self.resolvers.extend(pair.next());
                    }
                }
                _ => {}
            }
        }
    }

    fn mention(&mut self, source: &Source<'t>) {
        for (index, statement) in source.statements.iter().enumerate() {
            let holds = source.holds(index);
            match statement.kind {
                Kind::Instruction(text) => {
                    let (_, operands) = split(text);
                    match Labels::named(operands) {
                        // A jump or a call; no other instruction has just a name for operand.
                        Some(name) => self.target(name),
                        None if !operands.contains(['.', '"']) => {}
                        None => names(operands).for_each(|(_, name)| self.take(name)),
                    }
                }
                Kind::Assembly(body) => names(body).for_each(|(_, name)| self.target(name)),
                Kind::Directive(name, arguments) if is_data(name) => match holds {
                    Holds::Code | Holds::Constants | Holds::Data => {
                        names(arguments).for_each(|(_, name)| self.take(name));
                    }
                    Holds::Exceptions => {
                        for (_, name) in names(arguments) {
                            self.excepted.extend(self.defined.get(name));
                        }
                    }
                    Holds::Debug => {}
                },
                _ => {}
            }
        }
        self.targets.extend(&self.taken);
    }

    fn target(&mut self, name: &str) {
        self.targets.extend(self.defined.get(name));
    }

    fn take(&mut self, name: &str) {
        self.taken.extend(self.defined.get(name));
    }

    /// The call site tables: for each range its start, its length, its landing pad or 0.
    fn land(&mut self, source: &Source<'t>) {
        let mut start = None;
        let mut range = None;
        for (index, statement) in source.statements.iter().enumerate() {
            if source.holds(index) != Holds::Exceptions {
                continue;
            }
            let Kind::Directive(name, arguments) = statement.kind else { continue };
            if !is_data(name) {
                continue;
            }
            let mut pair = names(arguments).map(|(_, name)| name);
            let (first, second) = (pair.next(), pair.next());
            if let Some((from, to)) = range.take() {
                let pad = first.and_then(|name| self.defined.get(name));
                if let Some(&pad) = pad {
                    self.guarded.push(Guarded { start: from, end: to, pad });
                    self.targets.insert(pad);
                }
                start = None;
            } else if start.is_some() && second == start {
                let of = |name: Option<&str>| self.defined.get(name?).copied();
                range = of(start).zip(of(first));
            } else if second.is_some() {
                start = first;
            }
        }
        self.guarded.sort_by_key(|guarded| guarded.pad);
    }
}

/// Directives that lay down values.
pub fn is_data(name: &str) -> bool {
    matches!(
        name,
        ".long"
            | ".quad"
            | ".4byte"
            | ".8byte"
            | ".int"
            | ".value"
            | ".word"
            | ".short"
            | ".2byte"
            | ".byte"
            | ".uleb128"
            | ".sleb128"
            | ".set"
            | ".equ"
            | ".dc.l"
            | ".dc.q"
            | "="
    )
}

/// The labels that inline assembly defines, except numbers.
fn defined_within(body: &str) -> impl Iterator<Item = &str> {
    body.split(['\n', ';']).filter_map(|line| {
        let (name, _) = line.trim_start().split_once(':')?;
        let (at, found) = names(name).next()?;
        (at == 0 && found.len() == name.len()).then_some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn debug_labels_are_no_targets() {
        let source =
            parse(".L1: jmp .L2\n.L2: nop\n.L3: nop\n.L4: nop\n.L5: leaq .L4(%rip), %rax\n")
                .unwrap();
        let labels = Labels::new(&source);
        let is = |name| labels.targets.contains(&labels.defined[name]);
        assert!(is(".L2") && is(".L4"));
        assert!(!is(".L1") && !is(".L3") && !is(".L5"));
        assert!(labels.taken.contains(&labels.defined[".L4"]));
    }

    #[test]
    fn landing_pads_come_from_call_site_tables() {
        let text = ".LFB1:\n.LEHB0: call f\n.LEHE0: ret\n.L7: ret\n\
            .section .gcc_except_table,\"a\"\n.byte 0xff\n.uleb128 .LT-.LTD\n.LTD:\n.byte 1\n\
            .uleb128 .LE-.LB\n.LB:\n.uleb128 .LEHB0-.LFB1\n.uleb128 .LEHE0-.LEHB0\n\
            .uleb128 .L7-.LFB1\n.uleb128 0x1\n.uleb128 .LEHE0-.LFB1\n.uleb128 .L7-.LEHE0\n\
            .uleb128 0\n.uleb128 0\n.LE:\n.LT:\n";
        let source = parse(text).unwrap();
        let labels = Labels::new(&source);
        let at = |name| labels.defined[name];
        let expected = Guarded { start: at(".LEHB0"), end: at(".LEHE0"), pad: at(".L7") };
        assert_eq!(labels.guarded, [expected]);
        assert!(labels.targets.contains(&at(".L7")) && !labels.targets.contains(&at(".LEHE0")));
    }

    #[test]
    fn names_of_jumps() {
        assert_eq!(Labels::named(".L3"), Some(".L3"));
        assert_eq!(Labels::named("f@PLT"), Some("f"));
        assert_eq!(Labels::named("\"a b\"@PLT"), Some("a b"));
        assert_eq!(Labels::named(".L3+4"), None);
        assert_eq!(Labels::named("*%rax"), None);
        assert_eq!(Labels::named("1f"), None);
    }
}
