//! Counts are exact under load, whoever is preempted, killed, or forks.

mod support;
#[path = "support/lockd.rs"]
mod watched;

use quaver_lock::monitor;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{library, preloaded, program, said};
use watched::lockd;

/// With the library the first line names it.
fn expected(threads: u64, rounds: u64) -> String {
    let (all, writes) = (threads * rounds, threads * rounds / 2);
    let mutexes = format!("{all} {all}\n").repeat(5);
    let rwlocks = format!("{writes} {writes}\n").repeat(3);
    format!("libquaver_lock_preload.so\n{mutexes}{rwlocks}{all} {all}\n{all} {all}\ntorn 0\n")
}

/// Both ways of waiting: with a monitor, if there can be one, and without.
fn ways() -> Vec<Option<&'static Path>> {
    [None].into_iter().chain(lockd().map(Some)).collect()
}

#[test]
fn counts_are_exact_at_all_thread_counts() {
    let Some(load) = program("load") else { return };
    for way in ways() {
        for threads in [1, 2, 3, 4, 8, 16, 32] {
            // A multiple of 4: as many writes as reads.
            let rounds = 4 * (1600 / threads / 4).max(4);
            let mut command = preloaded(&load, way);
            command.args([threads.to_string(), rounds.to_string()]);
            assert_eq!(said(&mut command), expected(threads, rounds), "{threads} threads");
        }
    }
}

#[test]
fn ten_thousand_threads() {
    let Some(short) = program("short") else { return };
    for way in ways() {
        assert_eq!(said(&mut preloaded(&short, way)), "10000\n");
    }
}

#[test]
fn locks_in_signal_handlers() {
    let Some(handlers) = program("handlers") else { return };
    for way in ways() {
        assert_eq!(said(&mut preloaded(&handlers, way)), "80000 1\n");
    }
}

/// It makes no difference whose functions lock and unlock a mutex.
#[test]
fn plugins_that_see_glibc_only() {
    let (Some(program), Some(plugin)) = (program("plugin"), program("plugin.so")) else { return };
    for way in ways() {
        assert_eq!(said(preloaded(&program, way).arg(&plugin)), "80000\n".repeat(3));
    }
}

/// A constructor waits for a mutex while its holder calls one of glibc's functions.
#[test]
fn locks_while_a_library_is_loaded() {
    let (Some(program), Some(library)) = (program("loading"), program("loading.so")) else {
        return;
    };
    for way in ways() {
        assert_eq!(said(preloaded(&program, way).arg(&library)), "loaded\n");
    }
}

#[test]
fn fork_in_mid_use() {
    let Some(forks) = program("forks") else { return };
    for way in ways() {
        assert_eq!(said(&mut preloaded(&forks, way)), "100 children\n");
    }
}

#[test]
fn constructors_of_other_libraries() {
    let Some(early) = program("early.so") else { return };
    // In both orders: whichever constructor comes first.
    for both in [[library(), early.clone()], [early, library()]] {
        let list = both.map(|p| p.display().to_string()).join(":");
        let mut command = Command::new("true");
        command.env("LD_PRELOAD", list).env("QUAVER_LOCK_MONITOR", "none");
        assert_eq!(said(&mut command), "early\n");
    }
}

/// A program that goes on for ever; killed when dropped.
struct Endless(Child);

impl Endless {
    fn start(load: &Path, socket: &Path) -> Self {
        let mut command = preloaded(load, Some(socket));
        let child = command.args(["6", "0"]).stdout(Stdio::piped()).spawn().expect("it starts");
        Self(child)
    }

    /// It makes progress: this many dots come.
    fn goes_on(&mut self, dots: usize) {
        let mut some = vec![0; dots];
        self.0.stdout.as_mut().expect("piped").read_exact(&mut some).expect("it goes on");
    }

    fn kill(&mut self) {
        // SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Holders and waiters are killed in the middle, as they happen to be; the others go on, and nobody
/// counts in the end.
#[test]
fn half_of_the_processes_are_killed() {
    let (Some(load), Some(socket)) = (program("load"), lockd()) else { return };
    for _ in 0..3 {
        let mut all: Vec<_> = (0..8).map(|_| Endless::start(&load, socket)).collect();
        all.iter_mut().for_each(|p| p.goes_on(60));
        let mut rest = all.split_off(4);
        all.iter_mut().for_each(Endless::kill);
        rest.iter_mut().for_each(|p| p.goes_on(60));
    }
    let begun = Instant::now();
    while monitor::counts().expect("lockd lives").preempted_now != 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "a dead thread still counts");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(monitor::counts().expect("lockd lives").preempted > 0, "nobody was ever preempted");
}
