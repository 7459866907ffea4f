//! What was found.

use serde::Serialize;

/// A program that does something else on user threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The program's number.
    pub program: u64,
    /// The options of `quaver run`.
    pub way: String,
    /// The operation that differs first, and how; or how the process ended.
    pub what: String,
    /// How many of so many runs of the program alone differed: `3 of 5`.
    pub again: String,
    /// Steps that are needed for it, if it was made smaller.
    pub steps: Vec<String>,
    /// The operations of what remains, with their results natively and on user threads.
    pub operations: Vec<String>,
    /// A command line that does it again.
    pub reproducer: String,
}

impl Difference {
    /// For people.
    pub fn to_text(&self) -> String {
        let Difference { program, way, what, again, reproducer, .. } = self;
        let steps = self.steps.join(", ");
        let mut out = format!("\nprogram {program} with {way}: {what}\n");
        out.push_str(&format!("  alone: {again}; steps: {steps}\n"));
        for line in &self.operations {
            out.push_str(&format!("    {line}\n"));
        }
        out.push_str(&format!("  again: {reproducer}\n"));
        out
    }
}

/// What came of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Programs that were run in all ways.
    pub programs: u64,
    /// Runs of programs on user threads that were compared.
    pub runs: u64,
    /// Operations in them.
    pub operations: u64,
    /// Programs that differ. Zero is the promise.
    pub differences: u64,
    /// Processes in which nothing moved for a while, which did not happen again.
    pub unconfirmed: u64,
    /// Programs whose native results differ between runs: faults of the generator, which are left
    /// out.
    pub unstable: u64,
    /// Seed of the programs.
    pub seed: u64,
    /// The first of the differences of each kind.
    pub details: Vec<Difference>,
    /// How many differences of each kind there are.
    pub kinds: Vec<(String, u64)>,
    /// It was ended by a signal.
    pub interrupted: bool,
}

impl Report {
    /// For people.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for difference in &self.details {
            out.push_str(&difference.to_text());
        }
        if self.kinds.len() > 1 {
            out.push('\n');
            for (kind, count) in &self.kinds {
                out.push_str(&format!("{count:6} x {kind}\n"));
            }
        }
        out.push_str(&format!(
            "\n{} programs, {} runs on user threads, {} operations: {} programs differ\n",
            self.programs, self.runs, self.operations, self.differences
        ));
        if self.unconfirmed != 0 {
            out.push_str(&format!(
                "{} processes stood still for a while, and did not when they were run again\n",
                self.unconfirmed
            ));
        }
        if self.unstable != 0 {
            out.push_str(&format!(
                "{} programs were left out: their native results differ between runs\n",
                self.unstable
            ));
        }
        out
    }
}
