//! The monitor of preemptions: finding one, hosting one.
//!
//! A process asks lockd first: one program then sees all switches for all processes, with one
//! counter. (FlexGuard 3.2.2.) If nobody answers there, the process loads a program of its own, if
//! it may.

pub mod carriers;
mod client;
#[cfg(feature = "host")]
mod host;
#[cfg(feature = "host")]
mod maps;
mod registration;
#[cfg(feature = "host")]
mod server;
mod wire;

pub use client::{SOCKET, socket_path};
#[cfg(feature = "host")]
pub use host::{Host, SWEEP};
pub use registration::Registration;
#[cfg(feature = "host")]
pub use server::{Server, ServerError};

use crate::page::{self, State};
use crate::slice;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, Once, PoisonError};

/// Whether this build has the kernel program.
pub const fn built() -> bool {
    #[cfg(feature = "host")]
    return host::built();
    #[cfg(not(feature = "host"))]
    false
}

/// Why there is no monitor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// lockd does not answer, or says no.
    #[error("no lockd at {path}: {why} (start `quaver lockd` as root)", path = path.display())]
    Lockd {
        /// Its socket.
        path: PathBuf,
        /// What went wrong there.
        why: String,
    },
    /// The kernel program was not built.
    #[error("built without the kernel program (install clang and build again)")]
    NoClang,
    /// The crate was built without its feature `host`.
    #[error("built without the feature `host`")]
    NoHost,
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): {0}")]
    NoBtf(String),
    /// The kernel program may not be loaded.
    #[error("loading the kernel program needs CAP_BPF and CAP_PERFMON: {0}")]
    Rights(String),
    /// The kernel does not take the program.
    #[error("the kernel refuses the program: {0}")]
    Kernel(String),
    /// glibc does not say where restartable sequences are.
    #[error("glibc is older than 2.35")]
    Glibc,
    /// glibc has no restartable sequences.
    #[error("restartable sequences are off (GLIBC_TUNABLES has glibc.pthread.rseq=0?)")]
    NoRseq,
    /// The carriers of one runtime are watched already.
    #[error("another runtime of this process has the monitor")]
    Taken,
    /// The page cannot be mapped.
    #[error("cannot map the monitor's page: {0}")]
    Map(std::io::Error),
}

/// Why there is no monitor, for locks ([`attach`]) or for a runtime
/// ([`Carriers`](carriers::Carriers)). Both work without one.
#[derive(Debug, thiserror::Error)]
#[error("no preemption monitor: {first}{}",
    second.as_ref().map(|r| format!("; {r}")).unwrap_or_default())]
pub struct Absent {
    /// Why lockd is no help; or why no monitor is possible.
    pub first: Reason,
    /// Why the process hosts none itself.
    pub second: Option<Reason>,
}

/// Who hosts the monitor of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `quaver lockd`.
    Lockd,
    /// This process.
    Own,
}

static ATTACHED: Mutex<Option<Source>> = Mutex::new(None);

/// Whether a lockd accepts connections at its [socket](socket_path).
pub fn lockd_answers() -> bool {
    answers(&socket_path())
}

/// Whether a lockd accepts connections at `socket`.
pub fn answers(socket: &Path) -> bool {
    client::dial(socket).is_ok()
}

/// Finds a monitor for the locks of this process: lockd, or a program of its own.
///
/// Call it at the start, outside critical sections; later calls find a new monitor if the former
/// has ended. Takes up to two seconds if lockd hangs, and some ten milliseconds to load a program.
///
/// # Errors
///
/// There is none; locks then block early. Where the kernel has the [slice extension](crate::slice),
/// they use that.
pub fn attach() -> Result<Source, Absent> {
    let mut attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(source) = *attached
        && page::look()
    {
        return Ok(source);
    }
    note(&mut attached, find())
}

/// As [`attach`], but only asks lockd: for programs that are not ours, which may close descriptors
/// that they do not know.
///
/// # Errors
///
/// lockd does not answer, or says no; locks then block early, or use the slice extension.
pub fn attach_to_lockd() -> Result<(), Absent> {
    let mut attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = own_registration().and_then(|own| ask_lockd(&own));
    note(&mut attached, found.map(|()| Source::Lockd)).map(drop)
}

/// Locks go by what was found.
fn note(attached: &mut Option<Source>, found: Result<Source, Absent>) -> Result<Source, Absent> {
    match found {
        Ok(source) => {
            slice::use_it_no_more();
            *attached = Some(source);
        }
        // Where that is not possible either, there is nothing more to be said.
        Err(_) => drop(slice::use_it()),
    }
    found
}

/// What locks do without a monitor, to be said behind the reason for its absence.
pub fn instead() -> &'static str {
    if slice::used() { "; the kernel extends slices of holders" } else { "" }
}

/// As [`attach`]; says once on standard error if there is no monitor, and why.
pub fn attach_or_say() -> Option<Source> {
    static SAID: Once = Once::new();
    match attach() {
        Ok(source) => Some(source),
        Err(absent) => {
            let instead = instead();
            SAID.call_once(|| eprintln!("quaver-lock: locks block early: {absent}{instead}"));
            None
        }
    }
}

fn find() -> Result<Source, Absent> {
    let own = own_registration()?;
    match ask_lockd(&own) {
        Ok(()) => Ok(Source::Lockd),
        Err(absent) => match host_here(&own) {
            Ok(()) => Ok(Source::Own),
            Err(second) => Err(Absent { second: Some(second), ..absent }),
        },
    }
}

fn own_registration() -> Result<Registration, Absent> {
    Registration::own().map_err(|first| Absent { first, second: None })
}

/// Registers with lockd, and uses its page.
fn ask_lockd(own: &Registration) -> Result<(), Absent> {
    let none = |first| Absent { first, second: None };
    let page = client::register(&socket_path(), own).map_err(none)?;
    page::set(map(page).map_err(none)?);
    Ok(())
}

#[cfg(not(feature = "host"))]
fn host_here(_: &Registration) -> Result<(), Reason> {
    Err(Reason::NoHost)
}

/// The program that this process has loaded, if it has.
#[cfg(feature = "host")]
static OWN: Mutex<Option<Host>> = Mutex::new(None);

/// Does something with the program of this process. The first time loads it, and starts a thread
/// that sweeps.
#[cfg(feature = "host")]
fn with_own<T>(what: impl FnOnce(&mut Host) -> std::io::Result<T>) -> Result<T, Reason> {
    let failed = |e: std::io::Error| Reason::Kernel(e.to_string());
    let own = || OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut host = own();
    if host.is_none() {
        let loaded = Host::load()?;
        std::thread::Builder::new()
            .name("quaver-lock".into())
            .spawn(move || {
                // If a sweep fails, the heartbeat stops and locks block early; the next one who
                // asks loads the program anew.
                while own().as_mut().is_some_and(|host| host.sweep().is_ok()) {
                    std::thread::sleep(SWEEP);
                }
                *own() = None;
            })
            .map_err(failed)?;
        *host = Some(loaded);
    }
    what(host.as_mut().expect("loaded")).map_err(failed)
}

/// Watches this process by a program of its own.
#[cfg(feature = "host")]
fn host_here(own: &Registration) -> Result<(), Reason> {
    let page = with_own(|host| {
        host.register(std::process::id(), own)?;
        host.page().try_clone_to_owned()
    })?;
    page::set(map(page)?);
    Ok(())
}

/// The page and the bell of this process's carriers, by a program of its own.
#[cfg(feature = "host")]
fn carriers_here() -> Result<[std::os::fd::OwnedFd; 2], Reason> {
    with_own(|host| host.watch_carriers(std::process::id()))
}

#[cfg(not(feature = "host"))]
fn carriers_here() -> Result<[std::os::fd::OwnedFd; 2], Reason> {
    Err(Reason::NoHost)
}

/// Maps the page of a counter, for good.
fn map(page: impl AsFd) -> Result<&'static State, Reason> {
    let flags = MapFlags::SHARED;
    // SAFETY: a new mapping; the page has the layout of `State`, zeros or numbers.
    let at = unsafe { mmap(null_mut(), 4096, ProtFlags::READ, flags, page, 0) }
        .map_err(|e| Reason::Map(e.into()))?;
    // SAFETY: mapped above, never removed. Atomic loads of read-only memory are allowed.
    Ok(unsafe { &*at.cast::<State>() })
}

/// Which preempted threads make a waiter block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// All in the system: the default.
    System,
    /// Those that hold the waiter's own lock, or stand in its queue. A thread that holds several
    /// locks counts for the one that it took last.
    EachLock,
}

/// Chooses whom this process's waiters look at, from their next wait on; for measurements.
/// Condition variables, read-write locks and barriers look at the whole system. (FlexGuard 3.2.2.)
pub fn count(counting: Counting) {
    page::count_each(counting == Counting::EachLock);
}

/// What the monitor has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Preempted threads that hold a lock or stand in a queue, now.
    pub preempted_now: i64,
    /// How often threads were preempted there, ever.
    pub preempted: u64,
    /// How many flags were wrong, and corrected, ever.
    pub corrected: u64,
}

/// The counts of this process's monitor; `None` if there is none or it has ended.
pub fn counts() -> Option<Counts> {
    page::look().then(|| {
        let state = page::state();
        Counts {
            preempted_now: state.count.load(Relaxed),
            preempted: state.preempted.load(Relaxed),
            corrected: state.corrected.load(Relaxed),
        }
    })
}

/// In a test that cannot load the program: says so, if that is the machine's fault.
#[cfg(all(test, feature = "host", not(loom)))]
pub(crate) fn skip_without<T>(reason: &Reason) -> Option<T> {
    match reason {
        Reason::Rights(_) | Reason::NoBtf(_) | Reason::NoClang => eprintln!("skipped: {reason}"),
        _ => panic!("{reason}"),
    }
    None
}

/// Uses no monitor from now on, for measurements; [`attach`] finds it again.
pub fn detach() {
    *ATTACHED.lock().unwrap_or_else(PoisonError::into_inner) = None;
    page::unset();
}
