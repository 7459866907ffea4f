//! One child process: pinned, limited in time, gone when its parent is gone.

use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quaver_bench_common::Outcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Where the shim is changes nothing.
const HARMLESS: &str = "QUAVER_SHIM";

/// Environment variables that would change what a child measures.
const UNWANTED: [&str; 6] =
    ["GOMAXPROCS", "GODEBUG", "GOGC", "GOMEMLIMIT", "TOKIO_WORKER_THREADS", "RUST_BACKTRACE"];

/// A child has ended without an answer: by a signal, or with another exit code than 0.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Crash(String);

impl Crash {
    /// Of a process that is not the child itself.
    pub fn new(how: impl Into<String>) -> Crash {
        Crash(how.into())
    }
}

/// Runs `command` on `cpus` only and returns its answer.
///
/// The child is killed after `limit`, and by the kernel when this process ends for whatever reason,
/// so that nothing goes on computing after Ctrl-C. Call this from the main thread: the kernel
/// watches the thread that started the child.
///
/// # Errors
///
/// When the child cannot be started, takes too long, dies (a [`Crash`]) or answers something that
/// is no outcome. The message ends with the last line of the child's standard error.
pub fn run(mut command: Command, cpus: &[usize], limit: Duration) -> anyhow::Result<Outcome> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let program = command.get_program().to_string_lossy().into_owned();
    let child = spawn(&mut command, cpus).with_context(|| format!("cannot start {program}"))?;
    let status = wait(child, limit)?;
    let (mut answer, mut complaint) = (String::new(), String::new());
    for (file, text) in [(&mut out, &mut answer), (&mut err, &mut complaint)] {
        file.rewind()?;
        file.read_to_string(text)?;
    }
    let last_words = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    match status {
        None => bail!("no answer within {limit:?}, killed; {last_words}"),
        Some(status) if !status.success() => bail!(Crash(format!("{status}; {last_words}"))),
        Some(_) => Outcome::parse(&answer).map_err(anyhow::Error::msg),
    }
}

/// Starts `command` on `cpus` only, in an environment without variables that would change what it
/// measures; it dies with the calling thread.
pub fn spawn(command: &mut Command, cpus: &[usize]) -> std::io::Result<Child> {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("QUAVER_") && text != HARMLESS || UNWANTED.contains(&&*text) {
            command.env_remove(name);
        }
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    let parent = rustix::process::getpid();
    let prepare = move || {
        sched_setaffinity(None, &set)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        if rustix::process::getppid() != Some(parent) {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made: rustix makes them without libc, and
    // neither an error with a system code nor one of a simple kind allocates.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Waits for the end of `child`; after `limit` kills it and answers `None`.
pub fn wait(mut child: Child, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("a time limit beyond all reason")?;
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            Ok(_) => return Ok(Some(child.wait()?)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::detect::cpus::allowed;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, limit: Duration) -> anyhow::Result<Outcome> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, &allowed(), limit)
    }

    #[test]
    fn an_answer_is_read() {
        let outcome = shell(r#"echo noise; echo '{"unsupported":"today"}'"#, LONG).unwrap();
        assert_eq!(outcome, Outcome::unsupported("today"));
    }

    #[test]
    fn a_failure_tells_status_and_last_words() {
        let error = shell("echo first >&2; echo 'the disk is on fire' >&2; exit 3", LONG);
        let error = error.unwrap_err().to_string();
        assert!(error.contains('3') && error.contains("the disk is on fire"), "{error}");
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let error = shell("echo going >&2; exec sleep 1000", Duration::from_millis(50));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("killed") && error.contains("going"), "{error}");
    }

    #[test]
    fn more_output_than_a_pipe_holds_does_not_hang() {
        let outcome =
            shell(r#"head -c 1000000 /dev/zero >&2; echo '{"error":"late"}'"#, LONG).unwrap();
        assert_eq!(outcome, Outcome::failed("late"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(Command::new("/nonexistent/program"), &allowed(), LONG).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/program"), "{error}");
    }

    #[test]
    fn a_child_is_pinned() {
        let cpu = allowed()[0];
        let mut command = Command::new("sh");
        let script = r#"grep Cpus_allowed_list /proc/self/status >&2; exit 1"#;
        command.args(["-c", script]);
        let error = run(command, &[cpu], LONG).unwrap_err().to_string();
        assert_eq!(error.rsplit_once('\t').map(|(_, cpus)| cpus), Some(&*cpu.to_string()));
    }
}
