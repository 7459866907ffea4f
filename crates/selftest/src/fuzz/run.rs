//! Runs programs, one after the other in one process.

use super::program::{self, Operation};
use super::record::{self, Record};
use super::ways::Way;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
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

/// A panic's place and message, without what explains them; else the last line.
fn last_words(words: &str) -> String {
    let panic = words.lines().skip_while(|line| !line.contains("panicked at")).take(2);
    let panic = panic.collect::<Vec<_>>().join(" ");
    if panic.is_empty() { words.lines().last().unwrap_or_default().into() } else { panic }
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
            Way::Shared { role } => {
                let role = format!("{role}@{}", self.socket().display());
                let mut command = Command::new(&self.quaver);
                command.args(["run", "--share", &role]).arg("--").arg(interpreter);
                command
            }
        }
    }

    /// Where the broker of programs that share cores is to listen.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("share.sock")
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
        self.start(programs, first, way)?.end(patience, |_| {})
    }

    /// The same, of a process that is then waited for.
    ///
    /// # Errors
    ///
    /// Files cannot be written, or the process not started.
    pub fn start(
        &self,
        programs: &[Vec<Operation>],
        first: usize,
        way: Way,
    ) -> std::io::Result<Running> {
        let folder = tempfile::tempdir_in(self.folder.path())?;
        let [input, trace, words] = ["programs", "trace", "words"].map(|n| folder.path().join(n));
        std::fs::write(&input, program::text(programs))?;
        let sizes: Vec<usize> = programs.iter().map(Vec::len).collect();
        let records: usize = sizes.iter().sum();
        File::create(&trace)?.set_len(((records + 1) * record::SIZE) as u64)?;
        let mut command = self.command(way);
        command.arg(&input).arg(&trace).arg(first.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&words)?);
        // What killed programs leave goes with it.
        command.current_dir(folder.path());
        crate::torture::shimmed::launch::end_with_parent(&mut command);
        command.process_group(0);
        Ok(Running { child: command.spawn()?, folder, sizes })
    }
}

/// A process that runs programs, and a group of its own.
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: tempfile::TempDir,
    /// Operations of each program.
    sizes: Vec<usize>,
}

impl Running {
    /// Sends a signal to it and what it has started.
    ///
    /// # Errors
    ///
    /// It has ended, and all that it has started, too.
    pub fn signal(&self, signal: i32) -> std::io::Result<()> {
        // SAFETY: no memory; the group of a child that is or was ours alone.
        let sent = unsafe { libc::kill(-(self.child.id() as i32), signal) };
        if sent == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    /// Waits for its end, and calls `meanwhile` each few milliseconds. If nothing moves in it for
    /// `patience`, it is killed.
    ///
    /// # Errors
    ///
    /// Files cannot be read.
    pub fn end(
        mut self,
        patience: Duration,
        meanwhile: impl FnMut(&Running),
    ) -> std::io::Result<Trace> {
        let status = self.watch(patience, meanwhile);
        // Also what it has started.
        let _ = self.signal(libc::SIGKILL);
        let trouble = match status? {
            None => Some(Trouble::Hangs),
            Some(status) if status.success() => None,
            Some(status) => {
                let words = self.folder.path().join("words");
                let words = std::fs::read_to_string(words).unwrap_or_default();
                Some(Trouble::Ended(format!("{status} {}", last_words(&words)).trim().into()))
            }
        };
        let mut all = record::read(&self.trace())?.into_iter();
        let programs = self.sizes.iter().map(|&n| all.by_ref().take(n).collect()).collect();
        Ok(Trace { programs, trouble })
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    /// None: it was killed, since nothing moved.
    fn watch(
        &mut self,
        patience: Duration,
        mut meanwhile: impl FnMut(&Running),
    ) -> std::io::Result<Option<ExitStatus>> {
        let (mut before, mut moved, mut looked) = (Vec::new(), Instant::now(), Instant::now());
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            meanwhile(self);
            std::thread::sleep(Duration::from_millis(2));
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            let now = std::fs::read(self.trace())?;
            if now != before {
                before = now;
                moved = Instant::now();
            } else if moved.elapsed() >= patience {
                self.child.kill()?;
                self.child.wait()?;
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn the_last_words_say_what_happened() {
        assert_eq!(last_words(""), "");
        assert_eq!(last_words("hello\nquaver: no such policy"), "quaver: no such policy");
        let panic =
            "hello\nthread 'main' panicked at a.rs:1:2:\nno room\nstack:\n 0: f\nnote: more";
        assert_eq!(last_words(panic), "thread 'main' panicked at a.rs:1:2: no room");
    }
}
