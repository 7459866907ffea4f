//! Processes end, fork and go into the background while user threads run.
//!
//! What ends or forks is a child; see `support::child`. `fork` and `exec` through `std` are tested
//! in `faults.rs`.

mod support;

use quaver::Handle;
use std::ffi::CString;
use std::io::{Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;
use support::{Setup, child, spin, until_preempted, until_preempted_again};

/// Plays a role on every setup; its name ends with the setup's number.
fn on_all(role: &str, check: impl Fn(child::Outcome)) {
    for (i, setup) in Setup::all_clocks().iter().enumerate() {
        println!("-- {setup}");
        check(child::run(&format!("{role} {i}")));
    }
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    let (role, setup) = role.rsplit_once(' ').unwrap();
    let setup = Setup::all_clocks()[setup.parse::<usize>().unwrap()];
    match role {
        "exit of many" => exit_of_many(setup),
        "daemon" => daemon(setup),
        "fork of a kernel thread" => fork_of_a_kernel_thread(setup),
        "fork of a user thread" => fork_of_a_user_thread(setup),
        "end of the last thread" => end_of_the_last_thread(setup),
        "starts of many" => starts_of_many(setup),
        "identity" => identity(setup),
        other => panic!("unknown role {other}"),
    }
}

/// So many threads that never end.
fn busy_threads(n: usize) {
    for _ in 0..n {
        quaver::spawn_detached(|| {
            loop {
                spin(1_000);
            }
        });
    }
}

/// Threads that all want to end the process, with a function to be called then that takes longer
/// than a quantum.
fn exit_of_many(setup: Setup) {
    extern "C" fn at_exit() {
        // The busy threads see to it that there are some.
        until_preempted_again(3, |_| _ = spin(500));
        println!("at exit");
    }
    // SAFETY: a function that may run at any time.
    assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
    let rt = setup.builder().build().unwrap();
    rt.run(|| {
        busy_threads(2);
        let ends: Vec<_> = (0..3)
            .map(|_| {
                quaver::spawn(|| {
                    until_preempted_again(2, |_| _ = spin(500));
                    std::process::exit(7)
                })
            })
            .collect();
        ends.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn exit_happens_once() {
    on_all("exit of many", |o| {
        assert_eq!(o.status.code(), Some(7), "{o:#?}");
        assert_eq!(o.stdout.matches("at exit").count(), 1, "{o:#?}");
    });
}

/// Continues in a new process, which `body` ends; returns its exit code.
///
/// # Safety
///
/// As for `fork`: `body` may rely on nothing that another thread could have held.
unsafe fn in_fork(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the caller's contract.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child at once.
        0 => unsafe { libc::_exit(body()) },
        pid => wait_for(pid),
    }
}

fn wait_for(pid: i32) -> i32 {
    assert!(pid > 0);
    let mut status = 0;
    // SAFETY: our own child.
    while unsafe { libc::waitpid(pid, &mut status, 0) } != pid {
        assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::Interrupted);
    }
    assert!(libc::WIFEXITED(status), "{status:#x}");
    libc::WEXITSTATUS(status)
}

/// A runtime of this process, at work.
fn works(setup: Setup) -> bool {
    let rt = setup.builder().build().unwrap();
    let sum = rt.run(|| {
        quaver::scope(|s| {
            let all: Vec<_> = (0..3)
                .map(|i| {
                    s.spawn(move || {
                        until_preempted(5, |_| _ = spin(500));
                        i
                    })
                })
                .collect();
            all.into_iter().map(|t| t.join().unwrap()).sum::<i32>()
        })
    });
    sum == 3 && rt.shutdown().threads == 0
}

/// Into the background, the traditional way, and then a runtime.
fn daemon(setup: Setup) {
    let (mut report, mut to_parent) = pipe().unwrap();
    // SAFETY: the test harness holds nothing while its only test runs.
    let code = unsafe {
        in_fork(|| {
            assert!(libc::setsid() > 0);
            if libc::fork() == 0 {
                let said: &[u8] = if works(setup) { b"works" } else { b"does not" };
                to_parent.write_all(said).unwrap();
            }
            0
        })
    };
    assert_eq!(code, 0);
    drop(to_parent);
    let mut said = String::new();
    report.read_to_string(&mut said).unwrap();
    assert_eq!(said, "works");
}

#[test]
fn daemons_work() {
    on_all("daemon", |o| o.expect_success());
}

/// What holds in the child of a fork: one thread, which is no user thread, and no runtime until it
/// builds one. The parent's, if somebody asks for it, says so.
fn check_in_fork(setup: Setup, parents: Handle) {
    assert!(quaver::thread::current().is_none(), "a user thread without a worker");
    assert!(Handle::current().is_err());
    let e = parents.spawn_detached(|| ()).unwrap_err();
    assert!(e.to_string().contains("has been shut down"), "{e}");
    std::thread::sleep(Duration::from_micros(100));
    let (tx, rx) = mpsc::channel();
    let other = std::thread::spawn(move || tx.send(5));
    assert_eq!(rx.recv(), Ok(5));
    other.join().unwrap().unwrap();
    assert!(works(setup));
}

/// As at the end of `main` there, the parent's runtime is dropped in the child.
fn fork_of_a_kernel_thread(setup: Setup) {
    let rt = setup.builder().build().unwrap();
    rt.run(|| busy_threads(2));
    for _ in 0..3 {
        // SAFETY: nothing is held: the busy threads only compute.
        let code = unsafe {
            in_fork(|| {
                check_in_fork(setup, rt.handle());
                drop(std::ptr::read(&rt));
                5
            })
        };
        assert_eq!(code, 5);
    }
    assert_eq!(rt.run(|| 5), 5, "the parent's is as good as before");
}

#[test]
fn a_kernel_thread_forks_beside_a_runtime() {
    on_all("fork of a kernel thread", |o| o.expect_success());
}

fn fork_of_a_user_thread(setup: Setup) {
    let rt = setup.builder().build().unwrap();
    let handle = rt.handle();
    rt.run(|| {
        busy_threads(2);
        for _ in 0..3 {
            until_preempted_again(2, |_| _ = spin(500));
            // SAFETY: as above.
            let code = unsafe {
                in_fork(|| {
                    check_in_fork(setup, handle);
                    5
                })
            };
            assert_eq!(code, 5);
        }
    });
}

#[test]
fn a_user_thread_forks() {
    on_all("fork of a user thread", |o| o.expect_success());
}

/// The thread of the child was a user thread, and is the last one. So its end is that of the
/// process.
fn end_of_the_last_thread(setup: Setup) {
    let rt = setup.builder().build().unwrap();
    rt.run(|| {
        busy_threads(2);
        let forks = quaver::spawn(|| {
            until_preempted_again(2, |_| _ = spin(500));
            // SAFETY: as above.
            unsafe { libc::fork() }
        });
        assert_eq!(wait_for(forks.join().unwrap()), 0);
    });
}

#[test]
fn the_child_ends_with_its_only_thread() {
    on_all("end of the last thread", |o| o.expect_success());
}

/// The exit code of a shell that is started in one of four ways: by `posix_spawn`, which is a
/// `vfork`; by `fork` and `exec`; by `system`; by `popen`.
fn shell(way: u64, script: &str) -> Option<i32> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    let text = CString::new(script).unwrap();
    match way % 4 {
        0 => command.status().unwrap().code(),
        1 => {
            // SAFETY: does nothing; that there is something to do rules `posix_spawn` out.
            unsafe { command.pre_exec(|| Ok(())) };
            command.status().unwrap().code()
        }
        // SAFETY: a C string.
        2 => Some(libc::WEXITSTATUS(unsafe { libc::system(text.as_ptr()) })),
        // SAFETY: C strings; the stream is closed once.
        _ => unsafe {
            let stream = libc::popen(text.as_ptr(), c"r".as_ptr());
            assert!(!stream.is_null());
            Some(libc::WEXITSTATUS(libc::pclose(stream)))
        },
    }
}

/// Threads that are preempted start processes one after the other, in every way.
fn starts_of_many(setup: Setup) {
    let rounds = if support::full() { 400 } else { 12 };
    let rt = setup.builder().build().unwrap();
    rt.run(|| {
        busy_threads(2);
        quaver::scope(|s| {
            for thread in 0..3 {
                s.spawn(move || {
                    for round in 0..rounds {
                        let code = (1 + thread * 70 + round % 70) as i32;
                        assert_eq!(shell(round, &format!("exit {code}")), Some(code));
                    }
                });
            }
        });
    });
    let stats = rt.stats();
    assert!(stats.preempt_useful > 0, "{stats:?}");
}

#[test]
fn preempted_threads_start_processes() {
    on_all("starts of many", |o| o.expect_success());
}

/// A server gives up its rights when its threads are there already. All kernel threads do, whatever
/// they run.
fn identity(setup: Setup) {
    const NOBODY: u32 = 65534;
    let rt = setup.builder().build().unwrap();
    let started = std::sync::Barrier::new(2);
    std::thread::scope(|kernel| {
        kernel.spawn(|| {
            started.wait();
            rt.run(|| quaver::block_in_place(|| std::thread::sleep(Duration::from_millis(1))));
            started.wait();
        });
        started.wait();
        rt.run(|| {
            busy_threads(4);
            until_preempted(5, |_| _ = spin(500));
            // SAFETY: plain calls. As root, or nothing would change.
            let r = unsafe {
                let groups = [NOBODY];
                [libc::setgroups(1, groups.as_ptr()), libc::setgid(NOBODY), libc::setuid(NOBODY)]
            };
            assert_eq!(r, [0, 0, 0]);
            // SAFETY: as above; no way back.
            assert_eq!(unsafe { libc::setuid(0) }, -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
        });
        let mut tasks = 0;
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let all = |line: &str| {
                let ids = status.lines().find_map(|l| l.strip_prefix(line)).unwrap();
                ids.split_whitespace().all(|id| id == "65534")
            };
            assert!(all("Uid:") && all("Gid:") && all("Groups:"), "{status}");
            tasks += 1;
        }
        assert!(tasks >= 4, "{tasks}");
        started.wait();
    });
    std::process::exit(0);
}

#[test]
fn all_kernel_threads_change_their_identity() {
    // SAFETY: asks.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can become somebody else");
        return;
    }
    on_all("identity", |outcome| outcome.expect_success());
}
