//! `quaver lock`: an unmodified pthread program with the locks of `quaver-lock`.
//!
//! The program is started with `libquaver_lock_preload.so` (`crates/lock-preload`) in `LD_PRELOAD`,
//! which the programs that it starts inherit. Who counts preempted holders for it: a `quaver lockd`
//! that runs already, or else one that is started here and ends with the program (`company`).

mod company;

use crate::companion::LOCK_PRELOAD;
use crate::run::{Words, become_it, exit, preload};
use anyhow::Context;
use quaver_lock::{monitor, slice};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Run an unmodified pthread program with locks that know when their holder is preempted
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Do without the monitor of preemptions: locks block early
    #[arg(long)]
    no_monitor: bool,
    #[command(flatten)]
    program: Words,
}

/// Replaces this process by the program. Returns only if that fails, which it has said.
pub fn run(args: &Args) -> ExitCode {
    become_it(prepare(args))
}

/// The command that becomes of this process; or why not, and the exit code.
fn prepare(args: &Args) -> Result<Command, (u8, anyhow::Error)> {
    let library = library().map_err(|error| (exit::SETTINGS, error))?;
    let mut command = args.program.command("cannot be given other locks")?;
    preload(&mut command, library);
    // What the library looks at: crates/lock-preload/src/start.rs.
    command.env("QUAVER_LOCK_MONITOR", if args.no_monitor { "none" } else { "lockd" });
    command.env("QUAVER_LOCK_PID", std::process::id().to_string());
    if !args.no_monitor {
        monitored(&mut command);
    }
    Ok(command)
}

/// The library, as the dynamic loader can be told of it.
///
/// # Errors
///
/// It is nowhere, or in a place whose name the loader would take for several.
pub fn library() -> anyhow::Result<PathBuf> {
    crate::run::loadable(LOCK_PRELOAD.find()?)
}

/// Sees to it that a lockd serves the program; says once why none can.
fn monitored(command: &mut Command) {
    if monitor::lockd_answers() {
        return;
    }
    match company::start().context("the locks of this program block early") {
        Ok(socket) => command.env("QUAVER_LOCKD", socket),
        Err(why) => {
            let _ = slice::use_it();
            eprintln!("quaver: {why:#}{}", monitor::instead());
            command.env("QUAVER_LOCK_MONITOR", "none")
        }
    };
}
