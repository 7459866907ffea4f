//! Network namespaces without names: they and their interfaces go with the threads that are in
//! them, so with the process, however it ends.

use std::fs;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own.
pub struct Place {
    work: Sender<Work>,
    thread: i32,
}

impl Place {
    /// A new one, whose loopback is up.
    pub fn new() -> Place {
        let (work, todo): (Sender<Work>, Receiver<Work>) = channel();
        let (tell, told) = channel();
        thread::spawn(move || {
            // SAFETY: it changes this thread only.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare");
            // SAFETY: no memory is involved.
            tell.send(unsafe { libc::gettid() }).unwrap();
            for work in todo {
                work();
            }
        });
        let place = Place { work, thread: told.recv().unwrap() };
        place.ip("link set lo up");
        place
    }

    /// Does `work` there. Threads and processes that it starts are there, too.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        self.work.send(Box::new(move || drop(tell.send(work())))).unwrap();
        told.recv().expect("the work there has panicked")
    }

    /// `ip` with these arguments; what it prints.
    pub fn ip(&self, arguments: &str) -> String {
        self.command(&format!("ip {arguments}"))
    }

    /// A command of words; what it prints.
    pub fn command(&self, line: &str) -> String {
        let line = line.to_owned();
        self.run(move || {
            let mut words = line.split_whitespace();
            let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            assert!(output.status.success(), "{line}: {}", text(&output.stderr));
            text(&output.stdout)
        })
    }
}

/// Two places with a pair of interfaces between them: `va`, 10.0.0.1, in the first, `vb`, 10.0.0.2,
/// in the second.
#[allow(dead_code, reason = "not all tests have two places")]
pub fn pair(options: &str) -> (Place, Place) {
    let (a, b) = (Place::new(), Place::new());
    connect((&a, "va", Some("10.0.0.1/24")), (&b, "vb", Some("10.0.0.2/24")), options);
    (a, b)
}

/// A place, an interface there, and the address that the kernel has.
pub type End<'a> = (&'a Place, &'a str, Option<&'a str>);

/// Connects two places by a pair of interfaces.
pub fn connect(a: End<'_>, b: End<'_>, options: &str) {
    let ((from, name, _), (to, peer, _)) = (a, b);
    let to = to.thread;
    from.ip(&format!("link add {name} {options} type veth peer name {peer} {options} netns {to}"));
    for (place, name, address) in [a, b] {
        // Nothing is sent but what the tests send.
        let quiet = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        // A kernel without IPv6 has no such file.
        place.run(move || drop(fs::write(quiet, "1")));
        if let Some(address) = address {
            place.ip(&format!("addr add {address} dev {name}"));
        }
        place.ip(&format!("link set {name} up"));
    }
}

/// Why these tests cannot run here, if they cannot; says so.
pub fn skipped() -> bool {
    let why = if cfg!(not(xdp_program)) {
        "built without clang"
    } else if !have("ip") {
        "no `ip` command"
    // SAFETY: no memory is involved.
    } else if unsafe { libc::geteuid() } != 0 || !may_unshare() {
        "needs root"
    } else {
        return false;
    };
    eprintln!("skipped: {why}");
    true
}

/// Is this command here?
pub fn have(command: &str) -> bool {
    Command::new(command).arg("-V").output().is_ok()
}

fn may_unshare() -> bool {
    // SAFETY: it changes that thread only.
    thread::spawn(|| unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0).join().unwrap()
}
