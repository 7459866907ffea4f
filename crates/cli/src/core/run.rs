//! `quaver core run`: one program, on one core.
//!
//! The status is the program's own. What the model cannot run is named with its address.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use quaver_uarch::Machine;
use quaver_uarch::kernel::Output;
use serde::Serialize;

use crate::output::Target;

/// Run a static program on the model; it says how many instructions that took
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Instructions after which a program counts as an endless loop
    #[arg(long, value_name = "N", default_value_t = 10_000_000_000)]
    limit: u64,
    /// Write the counts as JSON to FILE (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    #[arg(long, value_name = "MECHANISM", hide = true)]
    mechanism: Option<String>,
    #[arg(long, value_name = "TIME", hide = true)]
    timer: Option<String>,
    /// An x86-64 program, linked with -static
    program: PathBuf,
    /// Its arguments, after `--`
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// What is known after a run.
#[derive(Serialize)]
struct Report {
    /// Which model ran: `functional` knows no time.
    model: &'static str,
    program: PathBuf,
    status: u8,
    instructions: u64,
    /// Of this machine, for the run.
    seconds: f64,
}

/// Runs it.
///
/// # Errors
///
/// The program cannot be read, or does something that the model does not know.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for (option, value) in [("--mechanism", &args.mechanism), ("--timer", &args.timer)] {
        anyhow::ensure!(
            value.is_none(),
            "{option} needs the timing model, which is not built yet: leave it out, and programs \
             run without time"
        );
    }
    args.json.as_ref().map_or(Ok(()), Target::check)?;
    let path = &args.program;
    let file = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = || path.display().to_string();
    let own = path.to_string_lossy();
    let words = std::iter::once(&*own).chain(args.arguments.iter().map(String::as_str));
    let words: Vec<&str> = words.collect();
    let mut machine = Machine::with_program(&file, &words).with_context(name)?;
    machine.kernel.output = Output::Echo;
    let begin = Instant::now();
    let status = machine.run(args.limit).with_context(name)?;
    let seconds = begin.elapsed().as_secs_f64();
    let instructions = machine.instructions();
    if let Some(target) = &args.json {
        let program = path.clone();
        target.write_json(&Report {
            model: "functional",
            program,
            status,
            instructions,
            seconds,
        })?;
    }
    eprintln!(
        "{}: status {status}, {instructions} instructions, {:.0} million a second",
        name(),
        instructions as f64 / seconds.max(1e-9) / 1e6
    );
    Ok(ExitCode::from(status))
}
