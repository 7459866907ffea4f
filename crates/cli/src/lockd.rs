//! `quaver lockd`: watches preempted holders of Quaver's locks for all processes of the machine.
//!
//! One program in the kernel and one counter serve everyone; programs that use `quaver-lock` find
//! the daemon by its socket. The protocol is in that crate's documentation.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use quaver_lock::monitor::{self, Server};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::interrupt::Interrupt;
use crate::output;

/// Watch preempted lock holders for all processes (FlexGuard); needs CAP_BPF and CAP_PERFMON
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where clients find it; they look at the same variable
    #[arg(long, value_name = "PATH", env = "QUAVER_LOCKD", default_value = monitor::SOCKET)]
    socket: PathBuf,
    /// End when this process has ended
    #[arg(long, value_name = "PID", hide = true)]
    for_process: Option<i32>,
}

/// Serves until a signal asks it to stop; the socket is then removed.
///
/// # Errors
///
/// Another daemon serves the socket, it cannot be made, or the kernel does not take the program.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Before there is anything to remove.
    let interrupt = Interrupt::install()?;
    let process = args.for_process.map(Watched::new).transpose()?;
    let mut server = Server::bind(&args.socket)?;
    output::print(&format!("lockd: serving at {}\n", args.socket.display()))?;
    server
        .run(|| interrupt.raised().is_some() || process.as_ref().is_some_and(Watched::has_ended))?;
    Ok(ExitCode::SUCCESS)
}

/// A process, whatever program it becomes.
struct Watched(OwnedFd);

impl Watched {
    fn new(pid: i32) -> anyhow::Result<Self> {
        let pid = Pid::from_raw(pid).context("no process has this number")?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty()).context("the process has ended")?))
    }

    fn has_ended(&self) -> bool {
        let mut fd = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}
