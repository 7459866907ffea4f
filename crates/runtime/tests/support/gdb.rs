//! gdb in batch mode.

use super::child;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Says so if there is no gdb.
pub fn is_missing() -> bool {
    let found = Command::new("gdb").arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: gdb is not installed");
    }
    !found
}

/// A process to look at, killed at the end.
pub struct Target(Child);

impl Target {
    /// Starts a process and waits until it says that it is ready.
    pub fn start(mut command: Command) -> Target {
        let mut target = Target(command.spawn().unwrap());
        child::wait_for_line(&mut target.0, "ready");
        target
    }

    /// Starts a process that says nothing.
    pub fn start_silent(mut command: Command) -> Target {
        Target(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What gdb is to look at: each run is a gdb of its own, which leaves a process as it found it.
pub struct Session(Vec<String>);

impl Session {
    /// A process.
    pub fn attached(target: &Target) -> Session {
        Session(vec!["-p".into(), target.0.id().to_string()])
    }

    /// A core file.
    pub fn with_core(program: &Path, core: &Path) -> Session {
        Session(vec![program.display().to_string(), core.display().to_string()])
    }

    /// A program that does not run.
    pub fn of_program(program: &Path) -> Session {
        Session(vec![program.display().to_string()])
    }

    /// Executes commands and returns what each prints, errors included.
    ///
    /// The programs of the tests are trusted, so that gdb loads what is embedded in them.
    pub fn run(&self, commands: &[&str]) -> Vec<String> {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-q", "-batch", "-iex", "set debuginfod enabled off"]);
        gdb.args(["-iex", "set width 0", "-iex", "set auto-load safe-path /"]).args(&self.0);
        for command in commands {
            gdb.args(["-ex", "echo >>>>\\n", "-ex", command]);
        }
        let (mut output, input) = std::io::pipe().unwrap();
        gdb.stdin(Stdio::null()).stdout(input.try_clone().unwrap()).stderr(input);
        let mut running = gdb.spawn().unwrap();
        // Closes this process's end.
        drop(gdb);
        let mut text = Vec::new();
        output.read_to_end(&mut text).unwrap();
        running.wait().unwrap();
        let text = String::from_utf8_lossy(&text);
        let texts: Vec<String> = text.split(">>>>\n").skip(1).map(str::to_owned).collect();
        assert_eq!(texts.len(), commands.len(), "{text}");
        texts
    }
}

/// The frames of a backtrace by gdb, innermost first.
pub fn frames(text: &str) -> Vec<&str> {
    text.lines().filter(|l| l.starts_with('#')).collect()
}

/// Where in `frames` the first is that mentions `name`.
pub fn position(frames: &[&str], name: &str) -> usize {
    frames
        .iter()
        .position(|f| f.contains(name))
        .unwrap_or_else(|| panic!("no {name} in {frames:#?}"))
}
