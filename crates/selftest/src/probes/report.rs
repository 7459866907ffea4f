//! What was found.

use serde::Serialize;
use std::path::PathBuf;

/// A build whose result is not that of the plain one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The program.
    pub program: String,
    /// By which compiler.
    pub compiler: String,
    /// What it was told.
    pub flags: String,
    /// How it was built: `reassembled`, `control` or `probes`.
    pub variant: String,
    /// The first line that differs, or what went wrong.
    pub what: String,
    /// Where source and programs are kept.
    pub files: PathBuf,
    /// A command line that does it again.
    pub reproducer: String,
}

impl Difference {
    /// For people.
    pub fn to_text(&self) -> String {
        let Difference { program, compiler, flags, variant, what, files, reproducer } = self;
        format!(
            "{program} by {compiler} {flags}, {variant}: {what}\n  kept in {}\n  again: \
             {reproducer}\n",
            files.display()
        )
    }
}

/// What came of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Probes that hit, of all builds.
    pub hits: u64,
    /// Builds that were compared.
    pub programs: u64,
    /// Builds that differ. Zero is the promise.
    pub differences: u64,
    /// Random programs left out: built plainly, they do not come to their end in time.
    pub skipped: u64,
    /// By which compilers.
    pub compilers: Vec<String>,
    /// Chooses random programs.
    pub seed: u64,
    /// The differences.
    pub details: Vec<Difference>,
    /// It was ended by a signal.
    pub interrupted: bool,
}

impl Report {
    /// For people.
    pub fn to_text(&self) -> String {
        let mut text: String = self.details.iter().map(Difference::to_text).collect();
        text.push_str(&format!(
            "{} programs by {}, {} hits: {} differ\n",
            self.programs,
            self.compilers.join(", "),
            self.hits,
            self.differences
        ));
        if self.skipped != 0 {
            text.push_str(&format!("{} random programs left out: no end in time\n", self.skipped));
        }
        text
    }
}
