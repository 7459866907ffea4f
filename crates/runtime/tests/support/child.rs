//! Running a part of a test in a process of its own.
//!
//! The test program executes itself with [`ROLE`] set. Each program that has children has a test
//! called `the_child`, which does nothing in the parent and plays its [`role`] in a child.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The environment variable that makes a process a child.
const ROLE: &str = "QUAVER_TEST_ROLE";

/// What this process is to do, if it is a child.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// What came of a child.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The signal that killed the child.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Panics with all output if the child failed.
    pub fn expect_success(&self) {
        assert!(self.status.success(), "{self:#?}");
    }
}

/// A command that plays `role`.
pub fn command(role: &str) -> Command {
    command_of(&std::env::current_exe().unwrap(), role)
}

/// A command by which a copy of this program plays `role`.
pub fn command_of(program: &Path, role: &str) -> Command {
    let mut c = Command::new(program);
    c.args(["--exact", "the_child", "--nocapture"]).env(ROLE, role);
    c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    c
}

/// Plays `role` to its end.
pub fn run(role: &str) -> Outcome {
    finish(command(role).spawn().unwrap())
}

/// Runs all tests of this program that `skip` does not match in a child with `variable` set.
pub fn all_tests_with(variable: (&str, &str), skip: &str) {
    let mut c = Command::new(std::env::current_exe().unwrap());
    c.args(["--skip", skip]).env(variable.0, variable.1);
    c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(c.spawn().unwrap()).expect_success();
}

/// Reads the child's output up to the first line that ends with `end`, and returns that. The pipe
/// stays open: after a minute the child's test harness says that its test still runs, and would end
/// where nobody can read that.
///
/// # Panics
///
/// If the output ends before.
pub fn wait_for_line(child: &mut Child, end: &str) -> String {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let found = output.by_ref().lines().map(|line| line.unwrap()).find(|line| line.ends_with(end));
    child.stdout = Some(output.into_inner());
    found.unwrap_or_else(|| panic!("the child ended without {end:?}"))
}

/// Waits for the child and collects its output. A child that hangs is killed, which fails the test.
pub fn finish(mut child: Child) -> Outcome {
    let read = |from: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut from) = from {
                let _ = from.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|x| Box::new(x) as _));
    let err = read(child.stderr.take().map(|x| Box::new(x) as _));
    let patience = Instant::now() + Duration::from_secs(300);
    let mut hung = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > patience && !hung {
            hung = true;
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let outcome = Outcome { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() };
    assert!(!hung, "the child hung: {outcome:#?}");
    outcome
}
