//! `quaver core programs`: the programs of the figures, as files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use quaver_uarch::workload::{self, Points, Size};

use crate::output;

/// Build the programs of the figures into a folder
///
/// They are static, need no library, and run on any x86-64 CPU: `./fib`. On the model,
/// `quaver core run fib -- 10000` interrupts one every 10000 cycles.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What they take: about 0.2 ms at 2 GHz, not about 3 ms
    #[arg(long)]
    quick: bool,
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The forms of a program: what its name ends with, and what the bodies of its loops end with.
const FORMS: [(&str, Points); 3] =
    [("", Points::Nothing), ("-poll", Points::Poll), ("-safepoint", Points::Safepoint)];

/// Builds them.
///
/// # Errors
///
/// There is no compiler, or no room.
pub fn run(args: &Args) -> Result<ExitCode> {
    let size = if args.quick { Size::Quick } else { Size::Full };
    let cache = workload_cache();
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    for program in &workload::ALL {
        for (ending, points) in FORMS {
            let built = program.build(size, points, &cache)?;
            let path = args.folder.join(format!("{}{ending}", program.name));
            std::fs::copy(&built, &path)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        output::print(&format!("{:10} {}\n", program.name, program.about))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the programs are kept that were built.
pub fn workload_cache() -> PathBuf {
    crate::cache::folder().join("core")
}
