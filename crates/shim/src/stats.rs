//! What the runtime has done, when the program ends: for people on standard error
//! (`QUAVER_SHIM_STATS=1`), for programs in a file (`QUAVER_SHIM_STATS_JSON=FILE`), which gains one
//! line, a JSON object of all counters, for each process.
//!
//! Descriptors are opened before `main` and kept at high numbers: programs close their standard
//! error, change their directory or give up their rights before they end. A process that ends by a
//! signal or by `_exit` reports nothing.

use crate::say::{fatal, say_to};
use crate::sys;
use core::ffi::c_int;
use core::fmt::Write;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use quaver::{Handle, Stats};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

/// Where the line for people goes, and the one for programs; -1: nowhere.
static PEOPLE: AtomicI32 = AtomicI32::new(-1);
static PROGRAMS: AtomicI32 = AtomicI32::new(-1);

/// A program counts on its descriptors having the lowest numbers.
const LOWEST: c_int = 200;

/// A copy of a descriptor that programs do not come across.
fn keep(fd: c_int) -> c_int {
    // SAFETY: no memory.
    unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, LOWEST) }
}

/// Sees to the reports that the environment asks for. Before `main`.
pub(crate) fn start() {
    if std::env::var("QUAVER_SHIM_STATS").is_ok_and(|v| v == "1") {
        PEOPLE.store(keep(2), Relaxed);
    }
    if let Some(path) = std::env::var_os("QUAVER_SHIM_STATS_JSON") {
        match OpenOptions::new().append(true).create(true).open(&path) {
            Ok(file) => PROGRAMS.store(keep(file.as_raw_fd()), Relaxed),
            Err(e) => fatal(format_args!("cannot write {}: {e}", path.display())),
        }
    }
    if PEOPLE.load(Relaxed) >= 0 || PROGRAMS.load(Relaxed) >= 0 {
        // SAFETY: a function without requirements.
        unsafe { libc::atexit(report) };
    }
}

/// In the child of a fork there is no runtime: nothing to say.
extern "C" fn report() {
    let Ok(handle) = Handle::current() else { return };
    let stats = handle.stats();
    let (people, programs) = (PEOPLE.load(Relaxed), PROGRAMS.load(Relaxed));
    if people >= 0 {
        for_people(people, &stats);
    }
    if programs >= 0 {
        let line = for_programs(&stats);
        let args = [programs as usize, line.as_ptr() as usize, line.len(), 0, 0, 0];
        // SAFETY: a write from our own buffer; one call, so that processes do not mix their lines.
        let _ = unsafe { sys::call(libc::SYS_write, args) };
    }
}

fn for_people(fd: c_int, s: &Stats) {
    say_to(
        fd,
        format_args!(
            "threads={} switches={} handovers={} preempt_received={} preempt_deferred={} \
             preempt_useful={}",
            s.spawned,
            s.switches,
            s.handovers,
            s.preempt_received,
            s.preempt_deferred,
            s.preempt_useful
        ),
    );
}

fn for_programs(s: &Stats) -> String {
    let mut line = String::from("{");
    for (name, value) in s.iter() {
        // Writing to a String cannot fail.
        let _ = write!(line, "\"{name}\":{value},");
    }
    line.pop();
    line.push_str("}\n");
    line
}
