//! The statements of an assembly text.
//!
//! A statement is a label, a directive, an instruction or a stretch of inline assembly; it begins
//! where its text begins and ends where the next one begins, so that statements tile the text:
//! what is not edited is copied byte by byte. Comments belong to the statement before them.
//!
//! Inline assembly is one statement, from `#APP` (or gcc's line marker) to its end. Nothing in it
//! is looked at but labels, the names that it mentions, and changes of section.

use std::ops::Range;

/// What a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'t> {
    /// Nothing: the part of the text before the first statement, or inline assembly without one.
    Blank,
    /// A definition of a label.
    Label(&'t str),
    /// A directive, or the definition of a symbol (`a = b`, with the name `=`).
    Directive(&'t str, &'t str),
    /// A prefix on a line of its own: part of the next instruction.
    Prefix(&'t str),
    /// An instruction with its prefixes and operands, without comment.
    Instruction(&'t str),
    /// Inline assembly.
    Assembly(&'t str),
}

/// One statement.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'t> {
    /// What it is.
    pub kind: Kind<'t>,
    /// Where its text begins, in bytes.
    pub start: usize,
    /// Its line, from 1.
    pub line: u32,
    /// Its section: an index into [`Source::sections`].
    pub section: u32,
}

/// What a section holds, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Instructions.
    Code,
    /// Tables of landing pads.
    Exceptions,
    /// Debug information.
    Debug,
    /// Values that nobody changes.
    Constants,
    /// Anything else.
    Data,
}

/// A parsed text.
#[derive(Debug)]
pub struct Source<'t> {
    /// The text itself.
    pub text: &'t str,
    /// Its statements, in order; the first begins at 0.
    pub statements: Vec<Statement<'t>>,
    /// What its sections hold.
    pub sections: Vec<Holds>,
    /// Whether an `.ident` names a compiler.
    pub compiled: bool,
    /// Whether it comes from LLVM: an `.ident` says so, or labels such as `.Lfunc_end0`.
    pub llvm: bool,
}

impl<'t> Source<'t> {
    /// The bytes of statement `index`.
    pub fn span(&self, index: usize) -> Range<usize> {
        let end = self.statements.get(index + 1).map_or(self.text.len(), |next| next.start);
        self.statements[index].start..end
    }

    /// What the section of statement `index` holds.
    pub fn holds(&self, index: usize) -> Holds {
        self.sections[self.statements[index].section as usize]
    }

    /// Whether statement `index` begins on the line of the one before it.
    pub fn shares_line(&self, index: usize) -> bool {
        index > 0 && self.statements[index - 1].line == self.statements[index].line
    }
}

/// Prefixes that may stand before an instruction, or alone on the line before it.
const PREFIXES: [&str; 24] = [
    "lock",
    "rep",
    "repe",
    "repz",
    "repne",
    "repnz",
    "data16",
    "data32",
    "addr32",
    "rex",
    "rex64",
    "rex.W",
    "notrack",
    "bnd",
    "xacquire",
    "xrelease",
    "cs",
    "ds",
    "es",
    "fs",
    "gs",
    "ss",
    "wait",
    "{nooptimize}",
];

/// Whether `word` is a prefix of an instruction.
pub fn is_prefix(word: &str) -> bool {
    PREFIXES.contains(&word)
}

/// Whether `byte` may be part of a symbol's name.
pub fn is_symbol_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$') || byte >= 0x80
}

/// Splits an instruction into its mnemonic, without prefixes, and its operands.
pub fn split(instruction: &str) -> (&str, &str) {
    let mut rest = instruction;
    loop {
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        let (word, operands) = (&rest[..end], rest[end..].trim_start());
        if operands.is_empty() || !is_prefix(word) {
            return (word, operands);
        }
        rest = operands;
    }
}

/// The names that `text` mentions: symbols and labels, without registers, numbers and what stands
/// in quotes, each with its place.
pub fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let begin = at;
            match bytes[at] {
                b'%' | b'@' => {
                    at += 1;
                    while at < bytes.len() && is_symbol_byte(bytes[at]) {
                        at += 1;
                    }
                }
                b'"' => {
                    at = begin + 1 + text[begin + 1..].find('"').unwrap_or(text.len() - begin - 1);
                    let name = &text[begin + 1..at];
                    at = (at + 1).min(bytes.len());
                    if !name.is_empty() {
                        return Some((begin, name));
                    }
                }
                // An immediate operand; `$` inside a name does not come here.
                b'$' => at += 1,
                byte if is_symbol_byte(byte) => {
                    while at < bytes.len() && is_symbol_byte(bytes[at]) {
                        at += 1;
                    }
                    if !byte.is_ascii_digit() && &text[begin..at] != "." {
                        return Some((begin, &text[begin..at]));
                    }
                }
                _ => at += 1,
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_follow_prefixes() {
        assert_eq!(split("notrack jmp\t*%rax"), ("jmp", "*%rax"));
        assert_eq!(split("rep stosq"), ("stosq", ""));
        assert_eq!(split("ret"), ("ret", ""));
        assert_eq!(split("lock\taddl $1, (%rax)"), ("addl", "$1, (%rax)"));
    }

    #[test]
    fn names_are_symbols() {
        let found = |text| names(text).map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(found(".L4-.L5"), [".L4", ".L5"]);
        assert_eq!(found("$foo+4, %rax"), ["foo"]);
        assert_eq!(found("foo@PLT"), ["foo"]);
        assert_eq!(found("12(%rax,%rbx,4), %ymm0{%k1}{z}"), ["z"]);
        assert_eq!(found("\"a b\"+1"), ["a b"]);
        assert_eq!(found("a$b"), ["a$b"]);
    }
}
