//! Runs programs, one after the other in one process.

use super::program::{self, Operation};
use super::record::{self, Record};
use super::ways::Way;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The interpreter, compiled with this crate.
const INTERPRETER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fuzz"));

/// Where programs are run.
pub struct Place {
    folder: tempfile::TempDir,
    quaver: PathBuf,
}

/// What one process has done.
#[derive(Debug)]
pub struct Trace {
    /// The records of all programs, those that were not reached included.
    pub programs: Vec<Vec<Record>>,
    /// How it ended, if not as it should.
    pub trouble: Option<Trouble>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing moved any more.
    Hangs,
    /// Its status, and its last words.
    Ended(String),
}

/// Between two looks whether something moves.
const LOOK: Duration = Duration::from_millis(100);

impl Place {
    /// Puts the interpreter into a folder of its own; `quaver` is the program to run it by.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn new(quaver: &Path) -> std::io::Result<Place> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("fuzz");
        std::fs::write(&path, INTERPRETER)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(Place { folder, quaver: quaver.into() })
    }

    fn command(&self, way: Way) -> Command {
        let interpreter = self.folder.path().join("fuzz");
        match way {
            Way::Native => Command::new(interpreter),
            Way::Shim { quantum, workers } => {
                let mut command = Command::new(&self.quaver);
                command.args(["run", "--quantum", quantum, "--workers", &workers.to_string()]);
                // The spinning clock would take a CPU from whatever else runs here.
                command.args(["--clock", "timer-thread"]).arg("--").arg(interpreter);
                if quantum == "off" {
                    // Who computes there keeps its worker, by design.
                    command.env("FUZZ_POLITE", "1");
                }
                command
            }
        }
    }

    /// Runs programs, from number `first` on. One in which nothing moves for `patience` is killed.
    ///
    /// # Errors
    ///
    /// Files cannot be written, or processes not started.
    pub fn run(
        &self,
        programs: &[Vec<Operation>],
        first: usize,
        way: Way,
        patience: Duration,
    ) -> std::io::Result<Trace> {
        let folder = tempfile::tempdir_in(self.folder.path())?;
        let [input, trace, words] = ["programs", "trace", "words"].map(|n| folder.path().join(n));
        std::fs::write(&input, program::text(programs))?;
        let records: usize = programs.iter().map(Vec::len).sum();
        File::create(&trace)?.set_len(((records + 1) * record::SIZE) as u64)?;
        let mut command = self.command(way);
        command.arg(&input).arg(&trace).arg(first.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&words)?);
        crate::torture::shimmed::launch::end_with_parent(&mut command);
        command.process_group(0);
        let mut child = command.spawn()?;
        let status = watch(&mut child, &trace, patience);
        // Also what it has started.
        // SAFETY: no memory; the group of a child that was ours alone.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        let trouble = match status? {
            None => Some(Trouble::Hangs),
            Some(status) if status.success() => None,
            Some(status) => {
                let words = std::fs::read_to_string(&words).unwrap_or_default();
                let last = words.lines().last().unwrap_or_default();
                Some(Trouble::Ended(format!("{status} {last}").trim().into()))
            }
        };
        let mut all = record::read(&trace)?.into_iter();
        let programs = programs.iter().map(|p| all.by_ref().take(p.len()).collect()).collect();
        Ok(Trace { programs, trouble })
    }
}

/// Waits for its end; none: it was killed, since nothing moved.
fn watch(
    child: &mut Child,
    trace: &Path,
    patience: Duration,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    let (mut before, mut moved, mut looked) = (Vec::new(), Instant::now(), Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(2));
        if looked.elapsed() < LOOK {
            continue;
        }
        looked = Instant::now();
        let now = std::fs::read(trace)?;
        if now != before {
            before = now;
            moved = Instant::now();
        } else if moved.elapsed() >= patience {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
    }
}
