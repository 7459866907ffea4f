//! Network namespaces for tests: what fails there is a failure of the test.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quaver_bench_common::namespace::{self, Namespace};

pub use quaver_bench_common::namespace::have;

/// A thread in a network namespace of its own.
pub struct Place(Namespace);

impl Place {
    pub fn new() -> Place {
        Place(Namespace::new().unwrap())
    }

    /// Does `work` there. Threads and processes that it starts are there, too.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.0.run(work)
    }

    /// `ip` with these arguments; what it prints.
    pub fn ip(&self, arguments: &str) -> String {
        self.0.ip(arguments).unwrap()
    }

    /// A command of words; what it prints.
    pub fn command(&self, line: &str) -> String {
        self.0.command(line).unwrap()
    }
}

/// A place, an interface there, and the address that the kernel has.
pub type End<'a> = (&'a Place, &'a str, Option<&'a str>);

/// Connects two places by a pair of interfaces.
pub fn connect(a: End<'_>, b: End<'_>, options: &str) {
    namespace::connect((&a.0.0, a.1, a.2), (&b.0.0, b.1, b.2), options).unwrap();
}

/// Two places with a pair of interfaces between them: `va`, 10.0.0.1, in the first, `vb`, 10.0.0.2,
/// in the second.
#[allow(dead_code, reason = "not all tests have two places")]
pub fn pair(options: &str) -> (Place, Place) {
    let (a, b) = (Place::new(), Place::new());
    connect((&a, "va", Some("10.0.0.1/24")), (&b, "vb", Some("10.0.0.2/24")), options);
    (a, b)
}

/// One test at a time: the kernel has one queue of 1,000 frames on each CPU for all interfaces of
/// this kind, and a burst of one test would make it drop frames of others.
static ALONE: Mutex<()> = Mutex::new(());

thread_local! {
    static TURN: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Why these tests cannot run here, if they cannot; says so. Otherwise the calling test is alone
/// until its thread ends.
pub fn skipped() -> bool {
    let why = if !quaver_net::xdp::is_built() {
        "built without clang".to_owned()
    } else if let Some(missing) = ["ip", "ping"].iter().find(|command| !have(command)) {
        format!("no `{missing}` command")
    } else if let Err(why) = Namespace::new() {
        format!("no network namespaces, which need root: {why}")
    } else {
        let turn = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        TURN.set(Some(turn));
        return false;
    };
    eprintln!("skipped: {why}");
    true
}
