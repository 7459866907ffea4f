//! A `quaver lockd` beside a group of locks, as on a machine that uses them.
//!
//! Without one each process loads a monitor of its own. That takes the kernel some time, and the
//! threads begin elsewhere: beside computing threads one that has a lock for itself is then 7 %
//! slower, in half a second, than one whose process finds a monitor.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quaver_lock::monitor;
use rustix::process::{Pid, Signal, kill_process};

use crate::process;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A daemon of ours; it ends when this is dropped.
pub struct Server(Child);

impl Server {
    /// Starts one on `cpus`. `None`: one runs already, or none can; then processes look for
    /// themselves, and say why.
    pub fn start(cpus: &[usize]) -> Option<Server> {
        if !monitor::built() || monitor::lockd_answers() {
            return None;
        }
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("lockd");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Server(process::spawn(&mut command, cpus).ok()?);
        let begun = Instant::now();
        while !monitor::lockd_answers() {
            if server.0.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < PATIENCE
            {
                std::thread::sleep(Duration::from_millis(2));
            } else {
                return None;
            }
        }
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Who has been waited for has no number any more.
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            // It removes its socket.
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
            let _ = self.0.wait();
        }
    }
}
