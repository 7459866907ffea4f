//! `quaver probes`: what is known about preemption probes in a program.

pub mod report;

use std::process::ExitCode;

use clap::Subcommand;

/// Look at the preemption probes of programs
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Report(report::Args),
}

/// Runs the command.
///
/// # Errors
///
/// Those of its parts.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Report(args) => report::run(args),
    }
}
