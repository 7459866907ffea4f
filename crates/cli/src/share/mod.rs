//! `quaver share`: several applications on the same cores. (Skyloft 3.3, on stock Linux.)
//!
//! * alone: the broker, in the foreground; after it nothing is left.
//! * `status`: who has which core, live.
//! * `run`: a program that knows nothing of it, as a best-effort application.
//!
//! What the broker does is documented in `quaver-share`.

mod broker;
mod program;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

/// Share cores between latency-critical and best-effort applications: start the broker
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    broker: broker::BrokerArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    Status(status::Args),
    Run(program::Args),
}

/// Where the broker is.
#[derive(clap::Args, Debug)]
struct Place {
    /// The broker's socket; programs look at the same variable
    #[arg(
        long,
        value_name = "PATH",
        env = "QUAVER_SHARE_SOCKET",
        default_value = quaver_share::SOCKET
    )]
    socket: PathBuf,
}

/// Serves, shows, or becomes a program.
///
/// # Errors
///
/// There is a broker where there must be none, none where there must be one, or it cannot work
/// with these options.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => broker::run(&args.broker),
        Some(Command::Status(args)) => status::run(args),
        Some(Command::Run(args)) => Ok(program::run(args)),
    }
}
