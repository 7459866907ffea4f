//! `quaver share run`: this process joins as a plain best-effort application and then becomes the
//! program, which inherits CPUs and rank.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::anyhow;
use quaver_sched::share::{MAX_SHARE_WEIGHT, Membership};

use super::Place;
use crate::run::{Words, become_it, exit};

/// Run a program that knows nothing of it as a best-effort application
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Its part of what latency-critical applications leave, beside the weights of others
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHARE_WEIGHT)))]
    weight: u32,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    program: Words,
}

/// Replaces this process by the program. Returns only if that fails, which it has said.
pub(super) fn run(args: &Args) -> ExitCode {
    become_it(prepare(args))
}

fn prepare(args: &Args) -> Result<Command, (u8, anyhow::Error)> {
    let settings = |error| (exit::SETTINGS, error);
    let command = args.program.any()?;
    let path = args.place.socket.to_str();
    let path = path.ok_or_else(|| settings(anyhow!("the socket's path is not UTF-8")))?;
    let membership = Membership::best_effort(args.weight).at(path);
    let name = Path::new(command.get_program()).file_name().map(OsStr::to_string_lossy);
    // Joined last: what can be wrong with the program is known by then.
    quaver_share::join_plain(&membership, &name.unwrap_or_default())
        .map_err(|error| settings(error.into()))?;
    Ok(command)
}
