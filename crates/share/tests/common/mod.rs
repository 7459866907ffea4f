//! Processes that the tests start, stop and kill: the test program itself, as one of its ignored
//! tests.

use quaver_sched::share::Membership;
use quaver_share::broker::{Broker, Options, Status};
use quaver_share::{Doors, Member};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The variable that makes this program an actor.
const ROLE: &str = "QUAVER_SHARE_ROLE";
/// And the one that names the broker's socket.
const AT: &str = "QUAVER_SHARE_AT";

/// A process with a role; killed when dropped.
pub struct Actor {
    pub child: Child,
    out: BufReader<ChildStdout>,
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

impl Actor {
    /// Starts the role of this name: an ignored test.
    pub fn start(name: &str, socket: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", name]);
        command.env(AT, socket).env(ROLE, name);
        // SAFETY: one system call between fork and exec. Should we be killed, so is it.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, out }
    }

    /// Waits for a line with `prefix` and returns the rest of it; `None` if the output ends.
    pub fn line(&mut self, prefix: &str) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.out.read_line(&mut line).expect("text") == 0 {
                return None;
            }
            if let Some(at) = line.find(prefix) {
                return Some(line[at + prefix.len()..].trim().to_owned());
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: no memory is involved; the child has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A path for a socket in a directory of its own, which is removed.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("quaver-share-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for temporary files");
        Self(dir)
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("share.sock")
    }

    /// What is in the directory.
    pub fn left(&self) -> usize {
        std::fs::read_dir(&self.0).expect("it is there").count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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

/// Waits until `happened`, at most twenty seconds.
pub fn soon(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not after 20 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The CPUs that this process may use.
pub fn cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).expect("a set");
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}
