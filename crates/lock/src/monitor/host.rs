//! The kernel program, loaded by this process.

use super::maps::{Watched, freeze};
use super::{Reason, Registration};
use aya::maps::{HashMap, Map, MapData};
use aya::programs::{BtfTracePoint, Iter};
use aya::{Btf, Ebpf, EbpfLoader};
use std::error::Error;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

static PROGRAM: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/monitor.o"));

/// Whether there was a clang when this was built.
pub(super) const fn built() -> bool {
    !PROGRAM.is_empty()
}

/// How often [`Host::sweep`] must be called for locks to believe in the monitor.
pub const SWEEP: Duration = Duration::from_millis(250);

// SAFETY: whole words and no padding; any bits are a value.
unsafe impl aya::Pod for Registration {}

/// The loaded program. It is gone when this is dropped, and when the process ends.
pub struct Host {
    ebpf: Ebpf,
    page: MapData,
    processes: HashMap<MapData, u32, Registration>,
    carriers: Watched,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

impl Host {
    /// Loads the program and lets it see all switches from now on. Takes some ten milliseconds.
    ///
    /// # Errors
    ///
    /// The build had no clang; the kernel has no BTF; missing rights; or what else the kernel said.
    pub fn load() -> Result<Self, Reason> {
        if !built() {
            return Err(Reason::NoClang);
        }
        let btf = Btf::from_sys_fs().map_err(|e| Reason::NoBtf(e.to_string()))?;
        let mut ebpf = EbpfLoader::new().btf(Some(&btf)).load(PROGRAM).map_err(reason)?;
        let sweep: &mut Iter = program(&mut ebpf, "sweep");
        sweep.load("task", &btf).map_err(reason)?;
        let Some(Map::Array(page)) = ebpf.take_map("page") else { unreachable!("as declared") };
        freeze(page.fd().as_fd()).map_err(reason)?;
        let processes = ebpf.take_map("processes").expect("as declared");
        let processes = HashMap::try_from(processes).map_err(reason)?;
        let carriers = Watched::new(&mut ebpf).map_err(reason)?;
        let mut host = Self { ebpf, page, processes, carriers };
        // The first sweep learns the host's PID namespace.
        host.sweep().map_err(reason)?;
        for (name, point) in [
            ("on_exit", "sched_process_exit"),
            ("on_exec", "sched_process_exec"),
            ("on_fork", "sched_process_fork"),
            ("on_switch", "sched_switch"),
        ] {
            let at: &mut BtfTracePoint = program(&mut host.ebpf, name);
            at.load(point, &btf).map_err(reason)?;
            at.attach().map_err(reason)?;
        }
        Ok(host)
    }

    /// Corrects what a missed switch has left, and writes the heartbeat. Looks at each task of the
    /// system once.
    pub fn sweep(&mut self) -> io::Result<()> {
        let sweep: &mut Iter = program(&mut self.ebpf, "sweep");
        let link = sweep.attach().map_err(io::Error::other)?;
        let link = sweep.take_link(link).map_err(io::Error::other)?;
        let mut tasks = link.into_file().map_err(io::Error::other)?;
        // The program writes nothing, so one call is enough; it is repeated if interrupted.
        let mut nothing = [0; 64];
        while tasks.read(&mut nothing)? > 0 {}
        Ok(())
    }

    /// Watches a process, by its number in the caller's PID namespace.
    pub fn register(&mut self, process: u32, registration: &Registration) -> io::Result<()> {
        self.processes.insert(process, registration, 0).map_err(io::Error::other)
    }

    /// Watches a process no more. Not an error if it was not watched.
    pub fn forget(&mut self, process: u32) {
        let _ = self.processes.remove(&process);
        self.carriers.forget(process);
    }

    /// Watches the carriers of a process, by its number in the caller's PID namespace: returns
    /// their page, and the bell. What it had before says nothing any more.
    pub fn watch_carriers(&mut self, process: u32) -> io::Result<[OwnedFd; 2]> {
        self.carriers.watch(process)
    }

    /// The processes that are watched.
    pub fn processes(&self) -> Vec<u32> {
        self.processes.keys().filter_map(Result::ok).collect()
    }

    /// Forgets processes that are gone, should their end have been missed.
    pub fn forget_dead(&mut self) {
        for process in self.processes().into_iter().chain(self.carriers.processes()) {
            let pid = rustix::process::Pid::from_raw(process as i32);
            let gone =
                |pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
            if pid.is_none_or(gone) {
                self.forget(process);
            }
        }
    }

    /// The page of the counter: nobody can write through this descriptor.
    pub fn page(&self) -> BorrowedFd<'_> {
        self.page.fd().as_fd()
    }
}

/// The program of this name, which the object has.
fn program<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut P
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error: std::fmt::Debug>,
{
    ebpf.program_mut(name).expect("as declared").try_into().expect("of this kind")
}

/// What kept the kernel from taking the program.
fn reason(error: impl Error + 'static) -> Reason {
    let mut text = error.to_string();
    let mut refused = false;
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            // The verifier says EACCES of a program that it does not like.
            refused |= io.raw_os_error() == Some(libc::EPERM);
        }
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    // A verifier's log is long, and for those who change the program.
    let text = text.lines().next().unwrap_or_default().to_owned();
    if refused { Reason::Rights(text) } else { Reason::Kernel(text) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::futex;
    use crate::monitor::{map, skip_without};
    use crate::page::State;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::mpsc;

    /// When a flag went up, the last sweep that saw its thread, and for which lock it is.
    type Flag = [u64; 3];

    /// A host whose counter nobody else changes: it watches no process.
    fn alone() -> Option<(Host, HashMap<MapData, u32, Flag>, &'static State)> {
        let mut host = match Host::load() {
            Ok(host) => host,
            Err(e) => return skip_without(&e),
        };
        let flags = HashMap::try_from(host.ebpf.take_map("flags").unwrap()).unwrap();
        let state = map(host.page()).unwrap();
        assert_eq!(state.count.load(Relaxed), 0);
        Some((host, flags, state))
    }

    /// A flag without a preemption, as a missed switch leaves it; the counter then goes below zero
    /// when it is taken down, because it never went up.
    fn raise(flags: &mut HashMap<MapData, u32, Flag>, thread: u32, age: Duration) {
        let since = futex::now() - age.as_nanos() as u64;
        flags.insert(thread, [since, 0, 0], 0).unwrap();
    }

    #[test]
    fn a_sweep_finds_flags_of_threads_that_run_or_are_gone() {
        let Some((mut host, mut flags, state)) = alone() else { return };
        // Numbers in `flags` are the kernel's; here they must be ours, too.
        let outermost = std::fs::read_link("/proc/self/ns/pid").unwrap();
        if outermost.to_str() != Some("pid:[4026531836]") {
            return eprintln!("skipped: in a PID namespace of its own");
        }
        // SAFETY: no arguments.
        let me = unsafe { libc::gettid() } as u32;
        raise(&mut flags, me, Duration::from_millis(10));
        // Larger than any number that Linux gives.
        let nobody = 1 << 23;
        raise(&mut flags, nobody, Duration::from_millis(10));
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            // SAFETY: no arguments.
            tell.send(unsafe { libc::gettid() } as u32).unwrap();
            let _ = ended.recv();
        });
        let sleeper_number = told.recv().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        raise(&mut flags, sleeper_number, Duration::from_millis(10));
        host.sweep().unwrap();
        assert!(flags.get(&me, 0).is_err(), "it runs");
        assert!(flags.get(&nobody, 0).is_err(), "it is gone");
        assert!(flags.get(&sleeper_number, 0).is_ok(), "it does not run, so it may be preempted");
        assert_eq!(state.corrected.load(Relaxed), 2);
        end.send(()).unwrap();
        sleeper.join().unwrap();
        assert!(flags.get(&sleeper_number, 0).is_err(), "it came back, and ended");
    }

    #[test]
    fn a_heartbeat_comes_with_each_sweep() {
        let Some((mut host, _, state)) = alone() else { return };
        let first = state.heartbeat.load(Relaxed);
        assert!(first != 0 && first <= futex::now());
        host.sweep().unwrap();
        assert!(state.heartbeat.load(Relaxed) > first);
    }

    /// Neither through the page's mapping nor through its map.
    #[test]
    fn the_page_cannot_be_written() {
        let Some((host, ..)) = alone() else { return };
        let (shared, both) = (libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE);
        let fd = host.page().as_raw_fd();
        // SAFETY: a new mapping, if the kernel agrees; the second call changes one of ours.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), 4096, both, shared, fd, 0);
            assert_eq!(at, libc::MAP_FAILED);
            let at = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, shared, fd, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(at, 4096, both), -1);
            libc::munmap(at, 4096);
        }
    }
}
