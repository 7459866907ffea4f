//! `quaver core`: programs on the model of a core (`quaver-uarch`).

mod costs;
mod figure;
mod pipeline;
mod policies;
mod programs;
mod run;
mod system;

use std::process::ExitCode;

/// Run programs on a model of an x86-64 core with user interrupts (xUI)
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Run(run::Args),
    Figure(figure::Args),
    Programs(programs::Args),
    Costs(costs::Args),
    Policies(policies::Args),
}

/// Does what was asked for.
///
/// # Errors
///
/// The program cannot be read or run, or the result not be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Figure(args) => figure::run(args),
        Command::Programs(args) => programs::run(args),
        Command::Costs(args) => costs::run(args),
        Command::Policies(args) => policies::run(args),
    }
}
