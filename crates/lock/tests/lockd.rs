//! lockd and its clients: killed, forked, replaced, refused.
//!
//! They need root, clang and BTF, and are skipped with a line where one is missing.
#![cfg(feature = "host")]

mod common;

use common::{Actor, Place, is_actor, role, soon};
use quaver_lock::monitor::{self, Reason, Server, ServerError, Source, counts};
use quaver_lock::{Lock, Mutex};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket,
};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A server in a thread of this process; stopped when dropped.
struct Here {
    stop: &'static AtomicBool,
    thread: Option<std::thread::JoinHandle<Server>>,
}

impl Here {
    /// None, with a line, if this machine does not let us.
    fn start(path: &Path) -> Option<Self> {
        let mut server = match Server::bind(path) {
            Ok(server) => server,
            Err(ServerError::Monitor(
                e @ (Reason::Rights(_) | Reason::NoBtf(_) | Reason::NoClang),
            )) => {
                eprintln!("skipped: {e}");
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let stop: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let thread = std::thread::spawn(move || {
            server.run(|| stop.load(Relaxed)).expect("serves");
            server
        });
        Some(Self { stop, thread: Some(thread) })
    }

    /// Ends the server; the processes that it watched.
    fn end(mut self) -> Vec<u32> {
        self.stop.store(true, Relaxed);
        let server = self.thread.take().expect("once").join().expect("no panic");
        server.processes()
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Makes this process a client of the lockd at `path`.
fn observe(path: &Path) {
    // SAFETY: tests of this program run one at a time (`serial`), and nothing else reads it.
    unsafe { std::env::set_var("QUAVER_LOCKD", path) };
    monitor::detach();
    assert_eq!(monitor::attach().expect("lockd is here"), Source::Lockd);
}

/// One test at a time: they share the environment and what this process is attached to.
fn serial() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn count() -> i64 {
    counts().expect("the monitor is here").preempted_now
}

/// Threads that contend for a lock for so long; more than there are CPUs.
fn hammer(time: Duration) {
    let mutex = Mutex::new([0u64; 2]);
    let sums: u64 = std::thread::scope(|s| {
        let one = || {
            let (begun, mut n) = (Instant::now(), 0);
            while begun.elapsed() < time {
                let mut both = mutex.lock();
                both[0] += 1;
                for _ in 0..500 {
                    std::hint::spin_loop();
                }
                both[1] += 1;
                n += 1;
            }
            n
        };
        let threads: Vec<_> = (0..6).map(|_| s.spawn(one)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(*mutex.lock(), [sums; 2]);
}

#[test]
#[ignore = "a role"]
fn role_hammer() {
    if is_actor() {
        println!("\nattached {:?}", monitor::attach().map_err(|e| e.to_string()));
        hammer(Duration::from_secs(60));
    }
}

/// Contends; after its first second it reports whether there is a monitor, again and again.
#[test]
#[ignore = "a role"]
fn role_survivor() {
    if is_actor() {
        println!("\nattached {:?}", monitor::attach().map_err(|e| e.to_string()));
        loop {
            hammer(Duration::from_millis(100));
            println!("\nmonitored {}", counts().is_some());
            let _ = monitor::attach();
        }
    }
}

#[test]
#[ignore = "a role"]
fn role_lockd() {
    if is_actor() {
        let mut server = Server::bind(&monitor::socket_path()).expect("as root");
        println!("\nserving");
        server.run(|| false).expect("serves");
    }
}

#[test]
#[ignore = "a role"]
fn role_without_rights() {
    if is_actor() {
        // SAFETY: an unprivileged user; this process has no other use.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
        let said = monitor::attach().expect_err("no rights").to_string();
        println!("\nsaid {said}");
        assert_eq!(monitor::attach_or_say(), None);
        assert_eq!(monitor::attach_or_say(), None);
        hammer(Duration::from_millis(200));
        println!("\nworks");
    }
}

/// A child of this process, which must have one thread, that registers itself and stops.
fn registered_child() -> libc::pid_t {
    // SAFETY: only this thread uses locks or allocates.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a number. Should the parent be killed, so are we.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let fine = monitor::attach().is_ok_and(|s| s == Source::Lockd);
        // SAFETY: waits to be killed, or ends.
        unsafe {
            if fine {
                libc::raise(libc::SIGSTOP);
            }
            libc::_exit(1)
        }
    }
    child
}

/// More children than a thousand.
#[test]
#[ignore = "a role"]
fn role_crowd() {
    if is_actor() {
        // At most 50 at a time: a loaded machine must not make lockd look dead.
        let mut children = Vec::new();
        let mut stopped = 0;
        for _ in 0..22 {
            let some: Vec<_> = (0..50).map(|_| registered_child()).collect();
            for &child in &some {
                let mut status = 0;
                // SAFETY: our child.
                unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
                stopped += u32::from(libc::WIFSTOPPED(status));
            }
            children.extend(some);
        }
        println!("\nstand {stopped}");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("a line, or the end");
        for &child in &children {
            // SAFETY: our child.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut 0, 0);
            }
        }
    }
}

#[test]
fn killed_holders_and_waiters_leave_nothing() {
    let _turn = serial();
    let place = Place::new("lock-kill", "lockd.sock");
    let Some(here) = Here::start(&place.socket()) else { return };
    observe(&place.socket());
    let before = counts().unwrap().preempted;
    for round in 0..12 {
        let mut actors = [0, 1].map(|_| {
            let mut actor = Actor::start(role("role_hammer", &place.socket()));
            assert_eq!(actor.line("attached ").as_deref(), Some("Ok(Lockd)"));
            actor
        });
        std::thread::sleep(Duration::from_millis(50 + 7 * round));
        for actor in &mut actors {
            actor.kill();
        }
        soon("the counter is zero", || count() == 0);
    }
    let seen = counts().unwrap().preempted - before;
    assert!(seen > 0, "no holder was ever preempted");
    assert_eq!(here.end(), [std::process::id()]);
    assert!(!place.socket().exists());
}

#[test]
fn clients_outlive_a_killed_lockd_and_find_the_next() {
    let _turn = serial();
    let place = Place::new("lock-survive", "lockd.sock");
    let Some(here) = Here::start(&place.socket()) else { return };
    drop(here.end());
    let start = || {
        let mut lockd = Actor::start(role("role_lockd", &place.socket()));
        assert!(lockd.line("serving").is_some());
        lockd
    };
    let mut lockd = start();
    let mut command = role("role_survivor", &place.socket());
    // It must not host a monitor itself when lockd is gone.
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if libc::setresuid(65534, 65534, 65534) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    let mut client = Actor::start(command);
    assert_eq!(client.line("attached ").as_deref(), Some("Ok(Lockd)"));
    assert_eq!(client.line("monitored ").as_deref(), Some("true"));
    lockd.kill();
    assert!(place.socket().exists(), "a killed one leaves its socket");
    while client.line("monitored ").expect("it lives") == "true" {}
    // Without a monitor it goes on.
    assert_eq!(client.line("monitored ").as_deref(), Some("false"));
    let _next = start();
    while client.line("monitored ").expect("it lives") == "false" {}
}

#[test]
fn one_lockd_serves_a_socket() {
    let _turn = serial();
    let place = Place::new("lock-one", "lockd.sock");
    let Some(here) = Here::start(&place.socket()) else { return };
    let second = Server::bind(&place.socket());
    assert!(matches!(second, Err(ServerError::Running(_))), "{second:?}");
    assert!(place.socket().exists());
    drop(here.end());
    std::fs::write(place.socket(), "precious").unwrap();
    let third = Server::bind(&place.socket());
    assert!(matches!(third, Err(ServerError::Socket { .. })), "{third:?}");
    assert_eq!(std::fs::read_to_string(place.socket()).unwrap(), "precious");
}

fn dial(path: &Path) -> OwnedFd {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

#[test]
fn bad_and_silent_clients_harm_nobody() {
    let _turn = serial();
    let place = Place::new("lock-bad", "lockd.sock");
    let Some(here) = Here::start(&place.socket()) else { return };
    for message in [&b"x"[..], &[0; 176], &[255; 176], &[1; 4000]] {
        let socket = dial(&place.socket());
        send(&socket, message, SendFlags::empty()).unwrap();
        let mut answer = [0; 512];
        let (length, _) = recv(&socket, &mut answer, RecvFlags::empty()).unwrap();
        assert!(length > 16, "an answer with a reason");
        assert_ne!(answer[8], 0, "it says no");
    }
    // More than may wait say nothing; one that does is served.
    let silent: Vec<_> = (0..150).map(|_| dial(&place.socket())).collect();
    observe(&place.socket());
    drop(silent);
    assert_eq!(here.end(), [std::process::id()]);
}

#[test]
fn a_thousand_processes_register_and_go() {
    let _turn = serial();
    let place = Place::new("lock-crowd", "lockd.sock");
    let Some(here) = Here::start(&place.socket()) else { return };
    let mut command = role("role_crowd", &place.socket());
    command.stdin(std::process::Stdio::piped());
    let mut crowd = Actor::start(command);
    assert_eq!(crowd.line("stand ").as_deref(), Some("1100"));
    observe(&place.socket());
    drop(crowd.child.stdin.take());
    crowd.child.wait().unwrap();
    assert_eq!(count(), 0);
    assert_eq!(here.end(), [std::process::id()]);
}

/// The child of `fork` is watched, and the program after `exec` is not.
#[test]
fn fork_and_exec() {
    let _turn = serial();
    let place = Place::new("lock-fork", "lockd.sock");
    let Some(here) = Here::start(&place.socket()) else { return };
    observe(&place.socket());
    let before = counts().unwrap().preempted;
    // SAFETY: the child uses a lock of its own, which no other thread holds, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let lock = Lock::new();
        lock.lock();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            std::thread::yield_now();
        }
        // SAFETY: ends the child, with the lock held.
        unsafe { libc::_exit(0) };
    }
    // With another on the same CPU, the holder that yields is switched out.
    let mut others: Vec<_> = (0..4).map(|_| busy()).collect();
    let mut status = 0;
    // SAFETY: our child.
    unsafe { libc::waitpid(child, &mut status, 0) };
    others.iter_mut().for_each(|o| o.kill().unwrap());
    others.iter_mut().for_each(|o| drop(o.wait()));
    assert_eq!(status, 0);
    assert!(counts().unwrap().preempted > before, "the child was not watched");
    soon("the counter is zero", || count() == 0);
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let left = here.end();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(left, [std::process::id()], "after exec a process is not watched");
}

/// A process that computes.
fn busy() -> std::process::Child {
    std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
}

#[test]
fn without_rights_locks_work_and_say_so_once() {
    let _turn = serial();
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root can give up rights");
    }
    let place = Place::new("lock-rights", "lockd.sock");
    let mut command = role("role_without_rights", &place.socket());
    let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("works"), "{out}\n{err}");
    assert!(out.contains("no lockd at"), "{out}");
    let why = ["CAP_BPF", "without the kernel program", "no BTF"];
    assert!(why.iter().any(|w| out.contains(w)), "{out}");
    assert_eq!(
        err.matches("quaver-lock: locks block early: no preemption monitor").count(),
        1,
        "{err}"
    );
}

/// A client in a PID namespace of its own is watched under its number in lockd's.
#[test]
fn clients_in_other_pid_namespaces() {
    let _turn = serial();
    let place = Place::new("lock-pidns", "lockd.sock");
    let Some(here) = Here::start(&place.socket()) else { return };
    observe(&place.socket());
    let inner = role("role_hammer", &place.socket());
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(inner.get_program());
    command.args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let before = counts().unwrap().preempted;
    let mut client = Actor::start(command);
    assert_eq!(client.line("attached ").as_deref(), Some("Ok(Lockd)"));
    soon("its holders are seen", || counts().unwrap().preempted > before);
    client.kill();
    soon("the counter is zero", || count() == 0);
    soon("it is gone", || {
        // The namespace's first process dies after `unshare`.
        std::thread::sleep(Duration::from_millis(100));
        true
    });
    assert_eq!(here.end(), [std::process::id()]);
}
