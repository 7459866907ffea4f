//! What was done with a text, to be written as one line of JSON.

use serde::Serialize;

/// Something that was left as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftAlone {
    /// The function; empty for the whole text.
    pub function: String,
    /// The line, from 1.
    pub line: u32,
    /// What was found there.
    pub why: String,
}

/// Counts of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The input, as it was named.
    pub file: String,
    /// Functions found.
    pub functions: usize,
    /// Their instructions.
    pub instructions: usize,
    /// Their loops.
    pub loops: usize,
    /// Probes inserted, those for recursion included.
    pub probes: usize,
    /// Probes that are there for recursion only.
    pub entry_probes: usize,
    /// Probes that must save the flags.
    pub saved_flags: usize,
    /// Probes by class of live vector state, 0 to 4.
    pub classes: [usize; 5],
    /// Loops that were replicated.
    pub replicated: usize,
    /// Copies that were added for them.
    pub copies: usize,
    /// Loops without a probe because they end soon.
    pub bounded: usize,
    /// Instructions added by probes, their stubs and copies.
    pub added_instructions: usize,
    /// How long reading and rewriting took, without the assembler's run for the object, in µs.
    pub rewriting_us: u64,
    /// The whole text, if it was left alone.
    pub left_file: Option<LeftAlone>,
    /// Functions that were left alone.
    pub left: Vec<LeftAlone>,
    /// Cycles in which no probe can stand: they consist of inline assembly.
    pub unprobed: Vec<LeftAlone>,
}
