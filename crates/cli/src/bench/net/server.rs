//! The process of a server under test.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use quaver_bench_common::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::process::{self, Crash};

/// How long a server may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a server is spoken to by whoever starts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manner {
    /// It prints `listening ADDRESS`, and ends with its standard input.
    Peer,
    /// It prints `listening ADDRESS`, and ends by SIGTERM, as `quaver serve` does.
    Serve,
    /// It listens at the port that takes the place of [`PORT`] in its arguments, says nothing, and
    /// ends by SIGTERM.
    Foreign,
}

/// In the arguments of a [foreign](Manner::Foreign) server: its port.
pub const PORT: &str = "{port}";

/// A server that listens.
pub struct Server {
    /// `None`: it has been waited for.
    child: Option<Child>,
    manner: Manner,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server on these CPUs. The inner error is what it says instead of an address.
    ///
    /// # Errors
    ///
    /// It cannot be started, or ends.
    pub fn start(
        command: &[String],
        cpus: &[usize],
        manner: Manner,
    ) -> anyhow::Result<Result<Server, Outcome>> {
        if manner == Manner::Foreign {
            let at = |address: SocketAddr| {
                let port = address.port().to_string();
                Ok(command.iter().map(|word| word.replace(PORT, &port)).collect())
            };
            return Server::start_foreign(at, cpus).map(Ok);
        }
        let mut child = spawn(command, cpus, Stdio::piped())?;
        let mut line = String::new();
        let out = child.stdout.take().expect("it was piped");
        BufReader::new(out).read_line(&mut line)?;
        if let Some(address) = line.strip_prefix("listening ") {
            let address = address.trim().parse().context("where does the server listen?")?;
            return Ok(Ok(Server { child: Some(child), manner, address }));
        }
        match process::wait(child, PATIENCE)? {
            Some(status) if status.success() => match Outcome::parse(&line) {
                Ok(outcome) => Ok(Err(outcome)),
                Err(error) => bail!("the server does not say where it listens: {error}"),
            },
            Some(status) => bail!(Crash::new(format!("the server has not started: {status}"))),
            None => bail!("the server does not say where it listens"),
        }
    }

    /// Starts a [foreign](Manner::Foreign) server by the command that `command` makes for an
    /// address which nobody had a moment ago, and waits until it answers there.
    ///
    /// # Errors
    ///
    /// It ends, or does not answer; or those of `command`.
    pub fn start_foreign(
        command: impl FnOnce(SocketAddr) -> anyhow::Result<Vec<String>>,
        cpus: &[usize],
    ) -> anyhow::Result<Server> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        let address = free.local_addr()?;
        drop(free);
        let command = command(address)?;
        let child = spawn(&command, cpus, Stdio::null())?;
        let mut server = Server { child: Some(child), manner: Manner::Foreign, address };
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            let child = server.child.as_mut().expect("it was not waited for");
            if let Some(status) = child.try_wait()? {
                bail!("{} has not started: {status}", command[0]);
            }
            ensure!(Instant::now() < until, "{} does not answer", command[0]);
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// CPU time that it has used, in ns: all its threads, also those that have ended.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn cpu_ns(&self) -> anyhow::Result<u64> {
        let child = self.child.as_ref().context("the server has been stopped")?;
        let mut clock = 0;
        // SAFETY: `clock` is written to.
        let error = unsafe { libc::clock_getcpuclockid(child.id() as i32, &raw mut clock) };
        ensure!(error == 0, "the server has no clock: error {error}");
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is written to.
        let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
        ensure!(result == 0, "the server's clock: {}", std::io::Error::last_os_error());
        Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Lets it end.
    ///
    /// # Errors
    ///
    /// A [`Crash`] when it ends badly; or it does not end.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("the server has been stopped")?;
        drop(child.stdin.take());
        if self.manner != Manner::Peer {
            kill_process(Pid::from_child(&child), Signal::TERM)
                .context("cannot stop the server")?;
        }
        match process::wait(child, PATIENCE)? {
            Some(status) if self.is_end(status) => Ok(()),
            Some(status) => bail!(Crash::new(format!("the server ended badly: {status}"))),
            None => bail!("the server did not end within {PATIENCE:?} and was killed"),
        }
    }

    /// Is this how it ends when it is asked to? What handles no signals dies by them.
    fn is_end(&self, status: ExitStatus) -> bool {
        let killed = status.signal() == Some(Signal::TERM.as_raw());
        status.success() || self.manner == Manner::Foreign && killed
    }

    /// The reason for `error`, which its client saw: a [`Crash`] if the server has died.
    pub fn blamed(self, error: anyhow::Error) -> anyhow::Error {
        match self.stop() {
            Ok(()) => error,
            Err(why) if why.is::<Crash>() => Crash::new(format!("{error:#}; {why:#}")).into(),
            Err(why) => error.context(why),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // An error has happened already; there is nobody to tell of another.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(command: &[String], cpus: &[usize], out: Stdio) -> anyhow::Result<Child> {
    let (program, arguments) = command.split_first().context("no server")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(out);
    process::spawn(&mut command, cpus).with_context(|| format!("cannot start {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::detect::cpus::allowed;

    fn start(script: &str) -> anyhow::Result<Result<Server, Outcome>> {
        let command = ["sh", "-c", script].map(String::from);
        Server::start(&command, &allowed(), Manner::Peer)
    }

    fn listening(then: &str) -> Server {
        start(&format!("echo listening 127.0.0.1:9; {then}")).unwrap().map_err(|_| ()).unwrap()
    }

    #[test]
    fn a_server_says_where_it_listens_and_ends_with_its_input() {
        let server = listening("cat");
        assert_eq!(server.address.port(), 9);
        server.stop().unwrap();
    }

    #[test]
    fn one_that_ends_by_a_signal_gets_one() {
        for (manner, script) in [
            (
                Manner::Serve,
                "trap 'exit 0' TERM; echo listening 127.0.0.1:9; while :; do sleep 0.01; done",
            ),
            (Manner::Foreign, "exec python3 -m http.server --bind 127.0.0.1 {port} 2>/dev/null"),
        ] {
            if manner == Manner::Foreign && Command::new("python3").arg("-V").output().is_err() {
                continue;
            }
            let command = ["sh", "-c", script].map(String::from);
            let server = Server::start(&command, &allowed(), manner).unwrap();
            let server = server.map_err(|_| ()).unwrap();
            assert_ne!(server.address.port(), 0);
            server.stop().unwrap();
        }
        let command = ["sh", "-c", "exit 3"].map(String::from);
        let error = Server::start(&command, &allowed(), Manner::Foreign).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }

    #[test]
    fn its_cpu_time_grows() {
        let server = listening("while :; do :; done");
        let before = server.cpu_ns().unwrap();
        while server.cpu_ns().unwrap() < before + 1_000_000 {}
    }

    #[test]
    fn what_it_says_instead_is_passed_on() {
        let said = start(r#"echo '{"unsupported":"no sockets"}'"#).unwrap();
        assert_eq!(said.err(), Some(Outcome::unsupported("no sockets")));
        for (script, part) in [("echo hello", "hello"), (":", "nothing")] {
            let error = format!("{:#}", start(script).map(|_| ()).unwrap_err());
            assert!(error.contains("where it listens") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_crash_is_told_from_other_failures() {
        let error = start("kill -SEGV $$").map(|_| ()).unwrap_err();
        assert!(error.is::<Crash>() && error.to_string().contains("signal: 11"), "{error}");
        let error = listening("cat; exit 3").stop().unwrap_err();
        assert!(error.is::<Crash>() && error.to_string().contains('3'), "{error}");
        let seen = || anyhow::anyhow!("the server has closed a connection");
        let error = listening("kill -SEGV $$").blamed(seen());
        assert!(error.is::<Crash>(), "{error}");
        for part in ["closed a connection", "signal: 11"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = listening("cat").blamed(seen());
        assert!(!error.is::<Crash>(), "{error}");
    }
}
