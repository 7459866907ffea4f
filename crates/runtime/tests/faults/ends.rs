//! Sudden ends of a process, and of a runtime.

use crate::support::setup::alone;
use crate::support::{Setup, child, spin, stats, until, until_preempted};
use crate::{busy_threads, on_all, setups};

/// Runs until it is killed, and says when it has begun.
pub(crate) fn busy(setup: Setup) {
    // Programs that a shell has put into the background ignore it.
    // SAFETY: no handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let rt = setup.builder().build().unwrap();
    rt.run(|| {
        busy_threads(3);
        until_preempted(10, |_| _ = spin(500));
        println!("ready");
        loop {
            spin(1_000);
        }
    });
}

/// Shared memory, semaphores and temporary files that could be ours.
fn traces() -> Vec<std::path::PathBuf> {
    let ours = |p: &std::path::PathBuf| p.to_string_lossy().to_lowercase().contains("quaver");
    let of = |dir: &std::path::Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<_> = [std::path::Path::new("/dev/shm"), &std::env::temp_dir()]
        .into_iter()
        .flat_map(|dir| of(dir).map(|e| e.path()).filter(ours))
        .collect();
    found.sort();
    found
}

#[test]
fn killed_processes_leave_nothing_behind() {
    let before = traces();
    for (i, setup) in setups().iter().enumerate() {
        println!("-- {setup}");
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGINT] {
            let mut child = child::command(&format!("busy {i}")).spawn().unwrap();
            child::wait_for_line(&mut child, "ready");
            let pid = child.id() as i32;
            // SAFETY: our own child, not yet waited for.
            assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
            let outcome = child::finish(child);
            assert_eq!(outcome.signal(), Some(signal), "{outcome:#?}");
            // SAFETY: asks only whether the process group has a member.
            let group = unsafe { libc::kill(pid, 0) };
            assert_eq!(group, -1, "a process {pid} is still there");
        }
    }
    let after: Vec<_> = traces().into_iter().filter(|t| !before.contains(t)).collect();
    assert!(after.is_empty(), "{after:?}");
}

#[test]
fn exit_works_anywhere() {
    on_all("exit", |o| {
        assert_eq!(o.status.code(), Some(7), "{o:#?}");
        assert!(o.stdout.contains("not flushed yet"), "{o:#?}");
    });
    on_all("exit of a kernel thread", |o| assert_eq!(o.status.code(), Some(8), "{o:#?}"));
    on_all("end of main", |o| o.expect_success());
}

/// A runtime on a user thread of which the runtime itself is shut down: that thread is stopped like
/// all others.
#[test]
fn a_runtime_may_end_on_its_own_thread() {
    for setup in setups() {
        println!("-- {setup}");
        alone(|| {
            let rt = setup.builder().build().unwrap();
            let handle = rt.handle();
            let ended = handle.spawn(move || drop(rt));
            let e = ended.join().unwrap_err();
            assert!(e.is::<quaver::ShutDown>());
            // The next one can be built, soon.
            until(
                || setup.builder().build().map(|rt| rt.run(|| 5)).is_ok_and(|n| n == 5),
                |_| std::thread::yield_now(),
            );
            assert_eq!(stats().spawned, 0, "no runtime, no statistics");
        });
    }
}
