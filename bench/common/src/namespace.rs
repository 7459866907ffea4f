//! Network namespaces without names: they and their interfaces go with the threads that are in
//! them, so with the process, however it ends. Needs root and the command `ip`.

use std::fs;
use std::io;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::thread::{Pid, UnshareFlags, gettid, unshare_unsafe};

type Work = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own.
#[derive(Debug)]
pub struct Namespace {
    work: Sender<Work>,
    thread: Pid,
}

/// A namespace, an interface there, and the kernel's address on it, as `10.0.0.1/24`.
pub type End<'a> = (&'a Namespace, &'a str, Option<&'a str>);

impl Namespace {
    /// A new one, whose loopback is up.
    ///
    /// # Errors
    ///
    /// Without root's rights; or there is no `ip`.
    pub fn new() -> io::Result<Namespace> {
        let (work, todo): (Sender<Work>, Receiver<Work>) = channel();
        let (tell, told) = channel();
        thread::spawn(move || {
            // SAFETY: a thread that has its own network shares memory and files as before.
            let entered = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
            if tell.send(entered.map(|()| gettid())).is_ok() && entered.is_ok() {
                todo.into_iter().for_each(|work| work());
            }
        });
        let thread = told.recv().map_err(io::Error::other)??;
        let namespace = Namespace { work, thread };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Does `work` there. Threads and processes that it starts are there, too.
    ///
    /// # Panics
    ///
    /// `work` has panicked, then or before.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        let work = Box::new(move || drop(tell.send(work())));
        self.work.send(work).expect("work there has panicked");
        told.recv().expect("the work there has panicked")
    }

    /// Runs `ip` with these words; what it prints.
    ///
    /// # Errors
    ///
    /// As [`command`](Self::command).
    pub fn ip(&self, arguments: &str) -> io::Result<String> {
        self.command(&format!("ip {arguments}"))
    }

    /// Runs a command of words; what it prints.
    ///
    /// # Errors
    ///
    /// It cannot be started, or fails: what it has said.
    pub fn command(&self, line: &str) -> io::Result<String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments);
        let output = self.run(move || command.output());
        let output = output.map_err(|why| io::Error::new(why.kind(), format!("{line}: {why}")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{line}: {}", said.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Connects two namespaces by a pair of interfaces, which are up; `options` are those of `ip link
/// add`. The kernels send nothing by themselves but ARP.
///
/// # Errors
///
/// As [`Namespace::command`].
pub fn connect(a: End<'_>, b: End<'_>, options: &str) -> io::Result<()> {
    let ((from, name, _), (to, peer, _)) = (a, b);
    let to = to.thread.as_raw_nonzero();
    let pair = format!("{name} {options} type veth peer name {peer} {options} netns {to}");
    from.ip(&format!("link add {pair}"))?;
    for (namespace, name, address) in [a, b] {
        let quiet = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        // A kernel without IPv6 has no such file.
        namespace.run(move || drop(fs::write(quiet, "1")));
        if let Some(address) = address {
            namespace.ip(&format!("addr add {address} dev {name}"))?;
        }
        namespace.ip(&format!("link set {name} up"))?;
    }
    Ok(())
}

/// Is this command here?
pub fn have(command: &str) -> bool {
    Command::new(command).arg("-V").output().is_ok()
}
