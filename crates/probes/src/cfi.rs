//! Unwinding information of stubs.
//!
//! A stub stands at the end of its part, where other rules hold than at its probe. So the rules at
//! both places are followed through the directives, and the difference is stated before the stub.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::functions::Part;
use crate::source::Kind;

/// How the canonical frame address is found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Frame {
    /// A register (by its DWARF number) plus an offset.
    Register(u32, i64),
    /// An expression: the `.cfi_escape` that states it.
    Expression(String),
}

/// The rules at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    frame: Frame,
    /// For each register by its number the directive that states its rule.
    rules: BTreeMap<u32, String>,
}

/// The stack pointer's DWARF number.
const RSP: u32 = 7;

impl State {
    /// The rules at the start of a function.
    fn start() -> Self {
        State { frame: Frame::Register(RSP, 8), rules: BTreeMap::new() }
    }

    /// Whether a change of the stack pointer must be stated.
    pub fn follows_stack(&self) -> bool {
        matches!(self.frame, Frame::Register(RSP, _))
    }

    /// The general register, by its number in the encoding, that the frame address is computed
    /// from, if it is not the stack pointer.
    pub fn base(&self) -> Option<u32> {
        // DWARF's order of rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp.
        const ENCODED: [u32; 8] = [0, 2, 1, 3, 6, 7, 5, 4];
        match self.frame {
            Frame::Register(RSP, _) | Frame::Expression(_) => None,
            Frame::Register(number, _) => {
                Some(ENCODED.get(number as usize).copied().unwrap_or(number))
            }
        }
    }

    /// Directives that turn the rules `from` into these.
    pub fn after(&self, from: &State) -> String {
        let mut text = String::new();
        if self.frame != from.frame {
            match &self.frame {
                Frame::Register(register, offset) => {
                    text.push_str(&format!("\t.cfi_def_cfa {register}, {offset}\n"));
                }
                Frame::Expression(escape) => text.push_str(&format!("\t.cfi_escape {escape}\n")),
            }
        }
        for register in from.rules.keys().filter(|register| !self.rules.contains_key(register)) {
            text.push_str(&format!("\t.cfi_restore {register}\n"));
        }
        for (register, rule) in &self.rules {
            if from.rules.get(register) != Some(rule) {
                text.push_str(&format!("\t{rule}\n"));
            }
        }
        text
    }

    /// Applies a directive.
    fn apply(&mut self, name: &str, arguments: &str, kept: &mut Vec<State>) -> Option<()> {
        let mut values = arguments.split(',').map(str::trim);
        match name {
            ".cfi_def_cfa" => {
                self.frame = Frame::Register(number(values.next()?)?, integer(values.next()?)?);
            }
            ".cfi_def_cfa_offset" | ".cfi_adjust_cfa_offset" | ".cfi_def_cfa_register" => {
                let Frame::Register(register, offset) = &mut self.frame else { return None };
                match name {
                    ".cfi_def_cfa_offset" => *offset = integer(arguments)?,
                    ".cfi_adjust_cfa_offset" => *offset += integer(arguments)?,
                    _ => *register = number(arguments)?,
                }
            }
            ".cfi_offset" | ".cfi_undefined" | ".cfi_same_value" | ".cfi_register"
            | ".cfi_val_offset" => {
                self.rules.insert(number(values.next()?)?, format!("{name} {arguments}"));
            }
            ".cfi_restore" => {
                self.rules.remove(&number(arguments)?);
            }
            ".cfi_remember_state" => kept.push(self.clone()),
            ".cfi_restore_state" => *self = kept.pop()?,
            ".cfi_escape" => self.escape(arguments)?,
            ".cfi_startproc" | ".cfi_endproc" | ".cfi_personality" | ".cfi_lsda"
            | ".cfi_sections" | ".cfi_signal_frame" => {}
            _ => return None,
        }
        Some(())
    }

    fn escape(&mut self, arguments: &str) -> Option<()> {
        let bytes: Option<Vec<i64>> =
            arguments.split(',').map(|byte| integer(byte.trim())).collect();
        match bytes?[..] {
            // DW_CFA_def_cfa_expression of a base register other than rsp.
            [0x0f, _, base, ..] if base != 0x77 => {
                self.frame = Frame::Expression(arguments.to_owned());
            }
            // DW_CFA_expression and DW_CFA_val_expression.
            [0x10 | 0x16, register, ..] => {
                let rule = format!(".cfi_escape {arguments}");
                self.rules.insert(u32::try_from(register).ok()?, rule);
            }
            // DW_CFA_GNU_args_size matters where an exception lands only.
            [0x2e, ..] => {}
            _ => return None,
        }
        Some(())
    }
}

/// The rules before each of some statements of `part`, and at its end. None of them where the part
/// has no unwinding information; an error where a directive is not understood: its statement.
///
/// `places` are sorted.
pub fn states(
    code: &Code<'_>,
    part: &Part<'_>,
    places: &[usize],
) -> Result<Option<(Vec<State>, State)>, usize> {
    let Some(first) = part.cfi else { return Ok(None) };
    let mut state = State::start();
    let mut kept = Vec::new();
    let mut found = Vec::new();
    for index in first + 1..part.end {
        while places.get(found.len()) == Some(&index) {
            found.push(state.clone());
        }
        let statement = &code.source.statements[index];
        if let Kind::Directive(name, arguments) = statement.kind
            && name.starts_with(".cfi_")
        {
            state.apply(name, arguments, &mut kept).ok_or(index)?;
        }
    }
    Ok(Some((found, state)))
}

fn integer(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The DWARF number of a register, which may be given by name.
fn number(text: &str) -> Option<u32> {
    const NAMES: [&str; 17] = [
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15", "rip",
    ];
    let name = text.strip_prefix('%').unwrap_or(text);
    if let Some(vector) = name.strip_prefix("xmm") {
        return vector.parse::<u32>().ok().filter(|&vector| vector < 16).map(|vector| 17 + vector);
    }
    let position = NAMES.iter().position(|&known| known == name);
    position.map_or_else(|| name.parse().ok(), |position| Some(position as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(directives: &[(&str, &str)]) -> Option<State> {
        let mut state = State::start();
        let mut kept = Vec::new();
        for (name, arguments) in directives {
            state.apply(name, arguments, &mut kept)?;
        }
        Some(state)
    }

    #[test]
    fn the_difference_is_stated() {
        let pushed = [
            (".cfi_def_cfa_offset", "16"),
            (".cfi_offset", "%rbp, -16"),
            (".cfi_def_cfa_register", "6"),
            (".cfi_offset", "3, -24"),
        ];
        let inside = after(&pushed).unwrap();
        assert!(!inside.follows_stack());
        assert_eq!(inside.base(), Some(5));
        let start = State::start();
        assert_eq!(
            inside.after(&start),
            "\t.cfi_def_cfa 6, 16\n\t.cfi_offset 3, -24\n\t.cfi_offset %rbp, -16\n"
        );
        assert_eq!(
            start.after(&inside),
            "\t.cfi_def_cfa 7, 8\n\t.cfi_restore 3\n\t.cfi_restore 6\n"
        );
        assert_eq!(inside.after(&inside), "");
    }

    #[test]
    fn states_are_kept_and_restored() {
        let state = after(&[
            (".cfi_remember_state", ""),
            (".cfi_adjust_cfa_offset", "8"),
            (".cfi_restore_state", ""),
        ]);
        assert_eq!(state, Some(State::start()));
        assert_eq!(after(&[(".cfi_restore_state", "")]), None);
        let realigned = after(&[(".cfi_escape", "0xf,0x3,0x76,0x78,0x6")]).unwrap();
        assert!(!realigned.follows_stack());
        assert_eq!(after(&[(".cfi_escape", "0x0f, 2, 0x77, 8")]), None);
        assert_eq!(after(&[(".cfi_b_key_frame", "")]), None);
    }
}
