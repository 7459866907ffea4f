//! From text to statements.
//!
//! What changes the meaning of other statements in ways that are not followed here (Intel syntax,
//! macros, conditions, 32-bit code) makes the whole text unknown: it must be left as it is.

use std::collections::HashMap;

use crate::source::{Holds, Kind, Source, Statement, is_prefix, is_symbol_byte};

/// Why a text is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The line, from 1.
    pub line: u32,
    /// What was found there.
    pub why: String,
}

/// Directives after which statements mean something else.
const CONFUSING: [&str; 26] = [
    ".intel_syntax",
    ".intel_mnemonic",
    ".macro",
    ".endm",
    ".rept",
    ".irp",
    ".irpc",
    ".endr",
    ".if",
    ".ifdef",
    ".ifndef",
    ".else",
    ".elseif",
    ".endif",
    ".include",
    ".code16",
    ".code32",
    ".altmacro",
    ".subsection",
    ".purgem",
    ".org",
    ".end",
    ".struct",
    ".offset",
    ".bundle_lock",
    ".bundle_align_mode",
];

/// What the labels at the ends of LLVM's functions begin with.
pub const LLVM_END: &str = ".Lfunc_end";

/// Parses AT&T text.
///
/// # Errors
///
/// Where the text holds something that changes the meaning of the rest.
pub fn parse(text: &str) -> Result<Source<'_>, Unknown> {
    let mut parser = Parser::new(text);
    let mut start = 0;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        parser.line = line;
        parser.line_of_text(start, content)?;
        start += content.len();
    }
    if let Some((line, _)) = parser.inline {
        return Err(Unknown { line, why: "inline assembly without end".into() });
    }
    Ok(parser.source)
}

struct Parser<'t> {
    source: Source<'t>,
    line: u32,
    /// The section's number by its name, with the group where there is one.
    known: HashMap<String, u32>,
    section: u32,
    previous: u32,
    pushed: Vec<(u32, u32)>,
    /// Line and place at which inline assembly began.
    inline: Option<(u32, usize)>,
    /// Between `#APP` and `#NO_APP`.
    app: bool,
    /// Inside the definition of a macro in inline assembly.
    in_macro: bool,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let blank = Statement { kind: Kind::Blank, start: 0, line: 0, section: 0 };
        Parser {
            source: Source {
                text,
                statements: vec![blank],
                sections: vec![Holds::Code],
                compiled: false,
                llvm: false,
            },
            line: 0,
            known: HashMap::from([(".text".to_owned(), 0)]),
            section: 0,
            previous: 0,
            pushed: Vec::new(),
            inline: None,
            app: false,
            in_macro: false,
        }
    }

    fn unknown<T>(&self, why: impl Into<String>) -> Result<T, Unknown> {
        Err(Unknown { line: self.line, why: why.into() })
    }

    fn push(&mut self, start: usize, kind: Kind<'t>) {
        let statement = Statement { kind, start, line: self.line, section: self.section };
        self.source.statements.push(statement);
    }

    fn line_of_text(&mut self, start: usize, content: &'t str) -> Result<(), Unknown> {
        let trimmed = content.trim();
        if trimmed.starts_with('#') {
            return self.comment(start, content, trimmed);
        }
        if self.inline.is_some() {
            return self.inside(trimmed);
        }
        if trimmed.is_empty() || trimmed.starts_with('/') && !trimmed.starts_with("/*") {
            return Ok(());
        }
        self.statements(start, content)
    }

    fn comment(&mut self, start: usize, content: &str, line: &str) -> Result<(), Unknown> {
        if line.starts_with("#APP") {
            self.app = true;
            self.begin(start + content.len());
        } else if line.starts_with("#NO_APP") {
            self.app = false;
            self.finish(start);
        } else if let Some(flag) = line_marker(line) {
            // gcc marks each statement: `# 12 "file.c" 1` before it, `# 0 "" 2` after it. What
            // stands between two is the compiler's.
            match (self.app, flag) {
                (false, _) => return self.unknown("text from a preprocessor, not from a compiler"),
                (true, "2") => self.finish(start),
                (true, _) => {
                    self.finish(start);
                    self.begin(start + content.len());
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, start: usize) {
        self.inline = Some((self.line + 1, start));
    }

    fn finish(&mut self, end: usize) {
        let Some((line, start)) = self.inline.take() else { return };
        let body = &self.source.text[start..end];
        let empty =
            body.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'));
        if !empty {
            // It stands in the section in which it began; what follows is where it ended.
            let kind = Kind::Assembly(body);
            let section = self.source.statements.last().map_or(0, |last| last.section);
            self.source.statements.push(Statement { kind, start, line, section });
            // The rest of the line that ends it is no part of it.
            let section = self.section;
            let line = self.line;
            self.source.statements.push(Statement { kind: Kind::Blank, start: end, line, section });
        }
    }

    /// A line of inline assembly: only its sections are followed.
    fn inside(&mut self, line: &'t str) -> Result<(), Unknown> {
        for part in line.split([';', '\n']) {
            let part = part.trim();
            let (name, arguments) = word(part);
            match name {
                ".macro" => self.in_macro = true,
                ".endm" => self.in_macro = false,
                _ if self.in_macro => {}
                ".subsection" => return self.unknown(".subsection in inline assembly"),
                _ => self.follow_section(name, arguments),
            }
        }
        Ok(())
    }

    /// The statements of one line.
    fn statements(&mut self, start: usize, content: &'t str) -> Result<(), Unknown> {
        let bytes = content.as_bytes();
        let mut at = 0;
        let mut first = true;
        loop {
            while at < bytes.len() && (bytes[at].is_ascii_whitespace() || bytes[at] == b';') {
                at += 1;
            }
            if at >= bytes.len() || bytes[at] == b'#' {
                return Ok(());
            }
            let begin = if first { start } else { start + at };
            first = false;
            if let Some((name, end)) = label(content, at) {
                self.push(begin, Kind::Label(name));
                self.source.llvm |= name.starts_with(LLVM_END);
                at = end;
                continue;
            }
            let end = statement_end(bytes, at);
            let text = content[at..end].trim_end();
            if text.contains("/*") && !text.contains('"') {
                return self.unknown("a comment of C");
            }
            self.statement(begin, text)?;
            at = end;
        }
    }

    fn statement(&mut self, start: usize, text: &'t str) -> Result<(), Unknown> {
        let (name, arguments) = word(text);
        if arguments.starts_with('=') && !arguments.starts_with("==") {
            self.push(start, Kind::Directive("=", text));
        } else if name.starts_with('.') {
            if CONFUSING.contains(&name) || self.is_subsection(name, arguments) {
                return self.unknown(format!("directive `{name}`"));
            }
            if name == ".ident" {
                let llvm = ["clang", "rustc", "LLVM"].iter().any(|who| arguments.contains(who));
                self.source.compiled |= llvm || arguments.contains("GCC");
                self.source.llvm |= llvm;
            }
            // The directive itself belongs to the section that it leaves.
            self.push(start, Kind::Directive(name, arguments));
            self.follow_section(name, arguments);
        } else if arguments.is_empty() && is_prefix(name) {
            self.push(start, Kind::Prefix(text));
        } else {
            self.push(start, Kind::Instruction(text));
        }
        Ok(())
    }

    fn is_subsection(&self, name: &str, arguments: &str) -> bool {
        matches!(name, ".text" | ".data" | ".bss") && !matches!(arguments, "" | "0")
    }

    fn follow_section(&mut self, name: &str, arguments: &str) {
        let next = match name {
            ".text" | ".data" | ".bss" => self.number(name),
            ".section" => self.number(arguments),
            ".pushsection" => {
                self.pushed.push((self.section, self.previous));
                self.number(arguments)
            }
            ".popsection" => {
                if let Some((section, previous)) = self.pushed.pop() {
                    self.section = section;
                    self.previous = previous;
                }
                return;
            }
            ".previous" => self.previous,
            _ => return,
        };
        self.previous = self.section;
        self.section = next;
    }

    /// The number of the section that `.section` or a directive of its own names.
    fn number(&mut self, arguments: &str) -> u32 {
        let name = arguments.split(',').next().unwrap_or("").trim().trim_matches('"');
        let distinct = arguments.contains("comdat") || arguments.contains("unique");
        let key = if distinct { arguments } else { name };
        if let Some(&number) = self.known.get(key) {
            return number;
        }
        let flags = arguments.split('"').nth(1).unwrap_or("");
        let holds = if name.starts_with(".gcc_except_table") {
            Holds::Exceptions
        } else if name.starts_with(".debug") {
            Holds::Debug
        } else if name.starts_with(".text") || flags.contains('x') {
            Holds::Code
        } else if [".rodata", ".lrodata", ".data.rel.ro"].iter().any(|of| name.starts_with(of)) {
            Holds::Constants
        } else {
            Holds::Data
        };
        let number = self.source.sections.len() as u32;
        self.source.sections.push(holds);
        self.known.insert(key.to_owned(), number);
        number
    }
}

/// The flag at the end of `# 12 "file" 1`; empty where there is none.
fn line_marker(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# ")?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(" \"")?;
    if rest.len() + 4 > line.len() {
        return None; // no number
    }
    let (_, flag) = rest.rsplit_once('"')?;
    Some(flag.trim())
}

/// The first word and the rest.
fn word(text: &str) -> (&str, &str) {
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// The label at `at`, and where the text behind its colon begins.
fn label(content: &str, at: usize) -> Option<(&str, usize)> {
    let bytes = content.as_bytes();
    if bytes[at] == b'"' {
        let end = at + 1 + content[at + 1..].find('"')?;
        return (bytes.get(end + 1) == Some(&b':')).then(|| (&content[at + 1..end], end + 2));
    }
    let mut end = at;
    while end < bytes.len() && is_symbol_byte(bytes[end]) || end > at && bytes[end] == b'@' {
        end += 1;
    }
    (end > at && bytes.get(end) == Some(&b':')).then(|| (&content[at..end], end + 1))
}

/// Where the statement at `at` ends: at a `;`, a comment or the end of the line.
fn statement_end(bytes: &[u8], at: usize) -> usize {
    let mut quoted = false;
    let mut end = at;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' if quoted => end += 1,
            b'"' => quoted = !quoted,
            b'#' | b';' if !quoted => return end,
            _ => {}
        }
        end += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        parse(text).unwrap().statements.iter().skip(1).map(|statement| statement.kind).collect()
    }

    #[test]
    fn statements_tile_the_text() {
        let text = "\t.text # a\nf:\tnop; nop # b\n\n# c\n\"g h\": ret\n";
        let source = parse(text).unwrap();
        let joined: String =
            (0..source.statements.len()).map(|index| &text[source.span(index)]).collect();
        assert_eq!(joined, text);
        assert_eq!(
            kinds(text),
            [
                Kind::Directive(".text", ""),
                Kind::Label("f"),
                Kind::Instruction("nop"),
                Kind::Instruction("nop"),
                Kind::Label("g h"),
                Kind::Instruction("ret"),
            ]
        );
    }

    #[test]
    fn inline_assembly_is_one_statement() {
        let text = "nop\n#APP\n# 1 \"a.c\" 1\n\tfoo; bar\n1:\tjmp 1b\n# 0 \"\" 2\n.L3:\n\
                    # 2 \"a.c\" 1\n\t\n# 0 \"\" 2\n#NO_APP\n\tret\n";
        let found = kinds(text);
        assert_eq!(found[0], Kind::Instruction("nop"));
        assert_eq!(found[1], Kind::Assembly("\tfoo; bar\n1:\tjmp 1b\n"));
        assert_eq!(found[2], Kind::Blank);
        assert_eq!(found[3], Kind::Label(".L3"));
        assert_eq!(found[4], Kind::Instruction("ret"));
        assert_eq!(kinds("#APP\n foo\n#NO_APP\n")[0], Kind::Assembly(" foo\n"));
    }

    #[test]
    fn sections_are_followed_through_inline_assembly() {
        let text = "#APP\n .pushsection .data; .long 1\n .popsection\n#NO_APP\nnop\n\
                    .section .rodata\n.long 2\n.previous\nnop\n";
        let source = parse(text).unwrap();
        let of = |kind| {
            let is = |statement: &Statement<'_>| statement.kind == kind;
            let index = source.statements.iter().rposition(is).unwrap();
            source.holds(index)
        };
        assert_eq!(of(Kind::Instruction("nop")), Holds::Code);
        assert_eq!(of(Kind::Directive(".long", "2")), Holds::Constants);
    }

    #[test]
    fn what_changes_meaning_is_unknown() {
        for text in
            [".intel_syntax noprefix\n", ".macro f\n.endm\n", "# 1 \"a.S\"\nnop\n", ".text 1\n"]
        {
            assert_eq!(parse(text).unwrap_err().line, 1, "{text}");
        }
        assert!(parse("#APP\n .intel_syntax noprefix\n nop\n .att_syntax\n#NO_APP\n").is_ok());
        assert_eq!(parse("nop\n#APP\nnop\n").unwrap_err().line, 3);
    }
}
