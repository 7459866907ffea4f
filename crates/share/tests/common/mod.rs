//! Processes that the tests start, stop and kill, and a broker in this one.

mod actors;

pub use actors::{Actor, Place};
use quaver_sched::share::Membership;
use quaver_share::broker::{Broker, Options, Status};
use quaver_share::{Doors, Member};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The variable that makes this program an actor.
const ROLE: &str = "QUAVER_SHARE_ROLE";
/// And the one that names the broker's socket.
const AT: &str = "QUAVER_SHARE_AT";

/// Waits until `happened`, at most a minute.
pub fn soon(what: &str, happened: impl FnMut() -> bool) {
    actors::within(60, what, happened);
}

/// Whether this process has been started for a role; `cargo test -- --ignored` alone has not.
pub fn is_actor() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Of an actor: the broker's socket.
pub fn socket() -> PathBuf {
    std::env::var_os(AT).expect("actors have a broker").into()
}

/// Of an actor: becomes a member.
pub fn join(role: &str) -> Member {
    let at = format!("{role}@{}", socket().display());
    let membership: Membership = at.parse().expect("a role");
    Member::join(&membership, role).unwrap_or_else(|e| panic!("{e}"))
}

/// Tells the test something.
pub fn say(text: impl std::fmt::Display) {
    println!("\n{text}");
}

/// Computes for about this long on the wall, and looks at the bells meanwhile.
pub fn compute(doors: &Doors, place: usize, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        doors.look(place);
        for _ in 0..20 {
            std::hint::spin_loop();
        }
    }
}

/// Starts the role of this name.
pub fn start(name: &str, socket: &Path) -> Actor {
    let mut command = actors::role(name);
    command.env(AT, socket).env(ROLE, name);
    Actor::start(command)
}

pub fn signal(actor: &Actor, signal: i32) {
    // SAFETY: no memory is involved; the child has not been waited for.
    unsafe { libc::kill(actor.child.id() as i32, signal) };
}

/// How many files are where the socket is.
pub fn left(place: &Place) -> usize {
    std::fs::read_dir(place.socket().parent().unwrap()).expect("it is there").count()
}

/// A broker in a thread of this process; stopped when dropped.
pub struct Here {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

impl Here {
    pub fn start(options: Options) -> Self {
        let (stop, socket) = (Arc::new(AtomicBool::new(false)), options.socket.clone());
        let (told, ready) = std::sync::mpsc::channel();
        let stopped = stop.clone();
        // The broker is made where it runs: it ranks its own thread.
        let thread = std::thread::spawn(move || {
            let mut broker = Broker::bind(options).unwrap_or_else(|e| panic!("{e}"));
            told.send(()).expect("somebody waits");
            broker.run(|| stopped.load(Relaxed)).expect("serves");
        });
        ready.recv().expect("the broker has begun");
        Self { stop, thread: Some(thread), socket }
    }

    pub fn status(&self) -> Status {
        let text = quaver_share::status(&self.socket).unwrap_or_else(|e| panic!("{e}"));
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until there are so many applications.
    pub fn wait_for(&self, applications: usize) {
        soon("applications", || self.status().applications.len() == applications);
    }

    pub fn end(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the broker has panicked");
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The CPUs that this process may use.
pub fn cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).expect("a set");
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}
