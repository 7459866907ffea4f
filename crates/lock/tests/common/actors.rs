//! Processes that tests start, stop and kill: a test program itself, as one of its ignored tests.
//! Used by the tests of other packages, too.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A process with a role; killed when dropped.
pub struct Actor {
    pub child: Child,
    out: BufReader<ChildStdout>,
}

/// The command that runs the role of this name: an ignored test of this program.
pub fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", name]);
    command
}

impl Actor {
    pub fn start(mut command: Command) -> Self {
        // SAFETY: one system call between fork and exec. Should we be killed, so is it.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, out }
    }

    /// Sends it an empty line.
    #[allow(dead_code, reason = "not every program asks")]
    pub fn ask(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it goes on");
    }

    /// Waits for a line with `prefix` and returns the rest of it; `None` if the output ends.
    pub fn line(&mut self, prefix: &str) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.out.read_line(&mut line).expect("text") == 0 {
                return None;
            }
            // The first line of a test has its name in front.
            if let Some(at) = line.find(prefix) {
                return Some(line[at + prefix.len()..].trim().to_owned());
            }
        }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A path for a socket in a directory of its own, which is removed.
pub struct Place {
    dir: PathBuf,
    socket: &'static str,
}

impl Place {
    pub fn new(name: &str, socket: &'static str) -> Self {
        let dir = std::env::temp_dir().join(format!("quaver-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for temporary files");
        Self { dir, socket }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join(self.socket)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Waits until `happened`, at most twenty seconds.
#[allow(dead_code, reason = "not every program waits so long only")]
pub fn soon(what: &str, happened: impl FnMut() -> bool) {
    within(20, what, happened);
}

/// Waits until `happened`, at most so many seconds.
pub fn within(seconds: u64, what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(seconds), "not after {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
