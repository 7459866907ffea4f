//! How a program is started: natively, or with its threads as user threads.

use core::cell::{Cell, RefCell};
use core::fmt;
use quaver::Clock;
use serde::Deserialize;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How `quaver run` is called.
#[derive(Clone, Debug)]
pub struct UserThreads {
    /// The program `quaver`.
    pub quaver: PathBuf,
    /// `--workers`.
    pub workers: usize,
    /// `--cpus`; none: not pinned.
    pub cpus: Vec<usize>,
    /// `--quantum`; none: `off`.
    pub quantum: Option<Duration>,
    /// `--clock`.
    pub clock: Clock,
    /// `--policy`.
    pub policy: String,
    /// `QUAVER_MAX_DEFERRAL`; none: `off`.
    pub max_deferral: Option<Duration>,
}

impl fmt::Display for UserThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--workers {} --quantum {} ", self.workers, text(self.quantum))?;
        write!(f, "--clock {} --policy {}", self.clock, self.policy)
    }
}

fn text(span: Option<Duration>) -> String {
    span.map_or_else(|| "off".into(), |span| format!("{}us", span.as_micros()))
}

/// What a runtime has counted, as `quaver run --stats-json` writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counters {
    /// See [`quaver::Stats`], as for the others.
    pub preempt_useful: u64,
    /// See there.
    pub preempt_migrated: u64,
    /// See there.
    pub preempt_deferred: u64,
    /// See there.
    pub handovers: u64,
}

impl Counters {
    fn add(&mut self, other: &Counters) {
        self.preempt_useful += other.preempt_useful;
        self.preempt_migrated += other.preempt_migrated;
        self.preempt_deferred += other.preempt_deferred;
        self.handovers += other.handovers;
    }
}

/// Starts programs in one way, and adds up what their runtimes have counted.
#[derive(Debug)]
pub struct Launcher {
    how: Option<UserThreads>,
    directory: PathBuf,
    limit: Duration,
    counters: RefCell<Counters>,
    took: Cell<Option<Duration>>,
}

/// Is there an executable of this name in `PATH`?
pub(super) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

impl Launcher {
    /// Natively if `how` is none. `directory` is for files; a program that takes longer than
    /// `limit` is killed.
    pub fn new(how: Option<UserThreads>, directory: &Path, limit: Duration) -> Launcher {
        let directory = directory.into();
        Launcher { how, directory, limit, counters: RefCell::default(), took: Cell::new(None) }
    }

    /// What the runtimes of all programs that have ended have counted.
    pub fn counters(&self) -> Counters {
        *self.counters.borrow()
    }

    /// How long the work took, where that is not the time from the start of the first program to
    /// the end of the last.
    pub(super) fn work_took(&self, span: Duration) {
        self.took.set(Some(span));
    }

    /// What [`work_took`](Self::work_took) was told.
    pub(super) fn took(&self) -> Option<Duration> {
        self.took.get()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command;
        if let Some(how) = &self.how {
            command = Command::new(&how.quaver);
            command.args(["run", "--workers", &how.workers.to_string()]);
            if !how.cpus.is_empty() {
                let cpus: Vec<_> = how.cpus.iter().map(usize::to_string).collect();
                command.args(["--cpus", &cpus.join(",")]);
            }
            command.args(["--quantum", &text(how.quantum), "--clock", &how.clock.to_string()]);
            command.args(["--policy", &how.policy, "--stats-json"]).arg(self.file("stats"));
            command.env("QUAVER_MAX_DEFERRAL", text(how.max_deferral)).args(["--", program]);
        } else {
            command = Command::new(program);
        }
        command.args(arguments);
        command
    }

    /// Runs a program to its end and returns what it has written to standard output.
    ///
    /// # Errors
    ///
    /// It cannot be started, fails or takes too long; with the last words of its standard error.
    pub(super) fn run(
        &self,
        program: &str,
        arguments: &[&str],
        input: Option<&Path>,
    ) -> Result<Vec<u8>, String> {
        self.start(program, arguments, input)?.finish()
    }

    /// Starts a program that runs until it is told to end.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(super) fn start(
        &self,
        program: &str,
        arguments: &[&str],
        input: Option<&Path>,
    ) -> Result<Running<'_>, String> {
        let start = || -> std::io::Result<Child> {
            let mut command = self.command(program, arguments);
            let input =
                input.map_or_else(|| Ok(Stdio::null()), |p| File::open(p).map(Stdio::from))?;
            command.stdin(input);
            command.stdout(File::create(self.file("out"))?);
            command.stderr(File::create(self.file("err"))?);
            end_with_parent(&mut command);
            command.spawn()
        };
        match start() {
            Ok(child) => Ok(Running { child, launcher: self, name: program.into(), over: false }),
            Err(e) => Err(format!("cannot start {program}: {e}")),
        }
    }

    fn read_counters(&self) -> Result<(), String> {
        if self.how.is_none() {
            return Ok(());
        }
        let path = self.file("stats");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("no statistics: {e}"))?;
        for line in text.lines() {
            let counted = serde_json::from_str(line).map_err(|e| format!("statistics: {e}"))?;
            self.counters.borrow_mut().add(&counted);
        }
        Ok(())
    }
}

/// Nothing may go on computing when the parent has been killed.
pub(crate) fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        // SAFETY: no memory.
        let alone = unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0
                || libc::getppid() as u32 != parent
        };
        if alone { Err(Error::from(ErrorKind::NotFound)) } else { Ok(()) }
    };
    // SAFETY: system calls only, and errors that allocate nothing.
    unsafe { command.pre_exec(prepare) };
}

/// A program that is running; killed when it is dropped before its end.
#[derive(Debug)]
pub(super) struct Running<'a> {
    child: Child,
    launcher: &'a Launcher,
    name: String,
    over: bool,
}

impl Running<'_> {
    /// Has it ended already?
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits.
    ///
    /// # Errors
    ///
    /// As [`Launcher::run`]; but it may end by the signal.
    pub(super) fn terminate(self) -> Result<Vec<u8>, String> {
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        self.finish()
    }

    fn finish(mut self) -> Result<Vec<u8>, String> {
        let status = self.wait();
        let (out, err) = (self.launcher.file("out"), self.launcher.file("err"));
        let complaint = std::fs::read(err).unwrap_or_default();
        let complaint = String::from_utf8_lossy(&complaint).into_owned();
        let last: Vec<_> = complaint.lines().rev().take(3).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        let name = &self.name;
        match status {
            Err(e) => Err(format!("{name}: {e}")),
            Ok(None) => {
                Err(format!("{name} hangs: not ended within {:?}; {last}", self.launcher.limit))
            }
            Ok(Some(status)) if status.success() || status.signal() == Some(libc::SIGTERM) => {
                self.launcher.read_counters().map_err(|e| format!("{name}: {e}; {last}"))?;
                std::fs::read(out).map_err(|e| format!("{name}: {e}"))
            }
            Ok(Some(status)) => Err(format!("{name}: {status}; {last}")),
        }
    }

    /// None: it took too long, and was killed.
    fn wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let end = Instant::now() + self.launcher.limit;
        // SAFETY: a child that has not been waited for; the descriptor is nobody else's.
        let handle = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, self.child.id(), 0);
            if fd < 0 {
                return Err(Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        loop {
            let left = end.saturating_duration_since(Instant::now()).as_millis() as i32;
            let mut poll =
                libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry.
            match unsafe { libc::poll(&mut poll, 1, left) } {
                0 => return Ok(None),
                1 => {
                    self.over = true;
                    return self.child.wait().map(Some);
                }
                _ => {}
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.over {
            // It may have ended by itself.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
