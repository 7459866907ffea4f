//! gdb in batch mode.

use super::child;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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

    /// Kills it with SIGSEGV and finds the core file, which the kernel writes into `folder`, the
    /// process's own, or wherever it has been told to. None: there is none.
    pub fn kill_with_core(mut self, folder: &Path) -> Option<Core> {
        // Rust's own handler takes the first one for a fault that will come again, and gives way.
        let status = loop {
            // SAFETY: a child that has not been waited for.
            assert_eq!(unsafe { libc::kill(self.0.id() as i32, libc::SIGSEGV) }, 0);
            std::thread::sleep(Duration::from_millis(10));
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
        };
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").ok()?;
        if !status.core_dumped() || pattern.starts_with('|') {
            return None;
        }
        let own = self.0.id().to_string();
        let written = fs::read_dir(folder.join(Path::new(&pattern).parent()?)).ok()?;
        let mut names = written.filter_map(|entry| Some(entry.ok()?.path()));
        let is_core = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name == "core" || name.to_string_lossy().contains(&own))
        };
        names.find(is_core).map(Core)
    }
}

/// Lets the kernel write a core file of the process to be started.
pub fn allow_cores(command: &mut Command) {
    let raise = || {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads and writes `limit`.
        unsafe {
            libc::getrlimit(libc::RLIMIT_CORE, &mut limit);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_CORE, &limit);
        }
        Ok(())
    };
    // SAFETY: two system calls.
    unsafe { command.pre_exec(raise) };
}

/// A core file, removed at the end.
pub struct Core(pub PathBuf);

impl Drop for Core {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
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
