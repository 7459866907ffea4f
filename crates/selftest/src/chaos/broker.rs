//! `quaver share`, as a user starts it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One that serves. Killed when it is dropped.
#[derive(Debug)]
pub(super) struct Broker(Child);

impl Broker {
    /// Starts one for these CPUs, with a run queue of this policy.
    ///
    /// # Errors
    ///
    /// It cannot be started, or does not serve, which the error explains in its words.
    pub(super) fn start(
        quaver: &Path,
        cpus: &str,
        socket: &Path,
        queue: Option<&str>,
    ) -> io::Result<Broker> {
        let words = socket.with_extension("words");
        let mut command = Command::new(quaver);
        command.args(["share", "--cpus", cpus, "--socket"]).arg(socket);
        if let Some(policy) = queue {
            command.args(["--queue", policy]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&words)?);
        crate::torture::shimmed::launch::end_with_parent(&mut command);
        let mut broker = Broker(command.spawn()?);
        let mut line = String::new();
        if let Some(said) = broker.0.stdout.take() {
            BufReader::new(said).read_line(&mut line)?;
        }
        if !line.contains("serving at") {
            let words = std::fs::read_to_string(&words).unwrap_or_default();
            return Err(io::Error::other(format!("the broker does not serve: {}", words.trim())));
        }
        Ok(broker)
    }

    /// As `kill -9` does; the inner error: it has ended before.
    ///
    /// # Errors
    ///
    /// The kernel says so.
    pub(super) fn kill(mut self) -> io::Result<Result<(), String>> {
        let ended = self.0.try_wait()?;
        Ok(ended.map_or(Ok(()), |status| Err(format!("it has ended: {status}"))))
    }

    /// As SIGTERM does; the inner error: it does not end as it should.
    ///
    /// # Errors
    ///
    /// The kernel says so.
    pub(super) fn end(mut self, patience: Duration) -> io::Result<Result<(), String>> {
        // SAFETY: no memory; a child that has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if let Some(status) = self.0.try_wait()? {
                let well = status.success();
                return Ok(if well { Ok(()) } else { Err(format!("it ended: {status}")) });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(Err(format!("it has not ended {patience:?} after SIGTERM")))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
