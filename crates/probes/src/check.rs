//! Checks the rule of [`crate::plan`] on a rewritten text, from the text alone.

use std::path::Path;

use crate::abi::{VectorClass, WORD};
use crate::assembler::{Assembler, Error};
use crate::cfg::Cfg;
use crate::code::Code;
use crate::parse::parse;
use crate::plan::open_cycle;
use crate::rewrite::PREFIX;
use crate::source::Kind;

/// A cycle in which no probe stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The function.
    pub function: String,
    /// A line on the cycle, from 1.
    pub line: u32,
}

/// The cycles without a probe in `text`, at most one for each function. Functions that are left
/// alone, and cycles that consist of inline assembly, do not count.
///
/// # Errors
///
/// Where the assembler fails, or the text is not understood.
pub fn open_cycles(text: &str, assembler: &Assembler, folder: &Path) -> Result<Vec<Open>, Error> {
    let text = &without_stubs(text);
    let source = parse(text).map_err(|unknown| Error::Object(unknown.why))?;
    let code = Code::new(&source, VectorClass::Xmm, assembler, folder)?;
    let mut found = Vec::new();
    let probe = format!("$0, %fs:{WORD}");
    for function in &code.functions.all {
        let Ok(cfg) = Cfg::new(&code, function) else { continue };
        let is_probe = |&index: &usize| code.instruction(index).ends_with(&probe);
        let assembly = |&index: &usize| matches!(source.statements[index].kind, Kind::Assembly(_));
        let cut: Vec<bool> = cfg
            .blocks
            .iter()
            .map(|block| block.code.iter().any(is_probe) || block.code.iter().all(assembly))
            .collect();
        if let Some(cycle) = open_cycle(&code, &cfg, &cut) {
            let first = cycle.iter().map(|&number| cfg.blocks[number].first).min().unwrap_or(0);
            let function = code.functions.parts[function.parts[0]].name.to_owned();
            found.push(Open { function, line: source.statements[first].line });
        }
    }
    Ok(found)
}

/// The text without the ways to stubs and back: a probe only looks at its word.
fn without_stubs(text: &str) -> String {
    let change = |line: &str| {
        let label = line.rsplit('\t').next().unwrap_or_default();
        let ours = label.starts_with(PREFIX);
        let (stub, back) = (ours && label.ends_with("_stub"), ours && label.ends_with("_back"));
        match line.trim_start().split('\t').next() {
            Some("jne") if stub => String::new(),
            Some("jns") if back => String::new(),
            Some("jmp") if back => "\tud2".to_owned(),
            _ => line.to_owned(),
        }
    };
    text.lines().map(|line| change(line) + "\n").collect()
}
