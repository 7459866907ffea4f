//! `quaver lockd`: watches preempted holders of Quaver's locks for all processes of the machine.
//!
//! One program in the kernel and one counter serve everyone; programs that use `quaver-lock` find
//! the daemon by its socket. The protocol is in that crate's documentation.

use std::path::PathBuf;
use std::process::ExitCode;

use quaver_lock::monitor::{self, Server};

use crate::interrupt::Interrupt;
use crate::output;

/// Watch preempted lock holders for all processes (FlexGuard); needs CAP_BPF and CAP_PERFMON
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where clients find it; they look at the same variable
    #[arg(long, value_name = "PATH", env = "QUAVER_LOCKD", default_value = monitor::SOCKET)]
    socket: PathBuf,
}

/// Serves until a signal asks it to stop; the socket is then removed.
///
/// # Errors
///
/// Another daemon serves the socket, it cannot be made, or the kernel does not take the program.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Before there is anything to remove.
    let interrupt = Interrupt::install()?;
    let mut server = Server::bind(&args.socket)?;
    output::print(&format!("lockd: serving at {}\n", args.socket.display()))?;
    server.run(|| interrupt.raised().is_some())?;
    Ok(ExitCode::SUCCESS)
}
