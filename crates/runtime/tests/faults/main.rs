//! Bad input, crashes and sudden ends: each has a defined outcome and a clear message.
//!
//! What ends a process is played by a child; see `support::child`.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use quaver::{BuildError, Builder, Clock};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::child::{self, Outcome};
use support::setup::alone;
use support::{Setup, full, spin, stats, until, until_preempted, with_runtime};

/// The setups that a role is played on, by number: its name ends with one.
fn setups() -> Vec<Setup> {
    Setup::clocks(1).into_iter().chain(Setup::clocks(2)).collect()
}

/// Plays a role on every setup.
fn on_all(role: &str, check: impl Fn(Outcome)) {
    for (i, setup) in setups().iter().enumerate() {
        println!("-- {setup}");
        check(child::run(&format!("{role} {i}")));
    }
}

/// Panics of a thread with a name, of one without, and of a kernel thread.
fn panics(setup: Setup) {
    setup.run(|| {
        let named = quaver::thread::Builder::new().name("compactor".into());
        let boom = || panic!("boom");
        assert!(named.spawn(boom).unwrap().join().is_err());
        assert!(quaver::spawn(boom).join().is_err());
        assert!(std::thread::spawn(boom).join().is_err());
    });
}

/// A report says whose panic it is, and a program's own hook has the last word.
#[test]
fn panics_tell_the_thread() {
    let outcome = child::run("panics of all kinds 0");
    outcome.expect_success();
    let introduced = |line: &str| line.starts_with("user thread ") && line.ends_with(" panics:");
    let lines: Vec<&str> = outcome.stderr.lines().filter(|l| introduced(l)).collect();
    assert_eq!(lines.len(), 2, "{outcome:#?}");
    assert!(lines[0].starts_with("user thread 'compactor' (id "), "{lines:?}");
    assert!(lines[1]["user thread ".len()..].starts_with(char::is_numeric), "{lines:?}");
    assert_eq!(outcome.stderr.matches("boom").count(), 3, "{outcome:#?}");

    let outcome = child::run("panics with a hook 0");
    outcome.expect_success();
    assert_eq!(outcome.stderr.matches("my hook").count(), 3, "{outcome:#?}");
    assert!(!outcome.stderr.contains("user thread"), "{outcome:#?}");
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    let (role, setup) = match role.rsplit_once(' ').map(|(role, i)| (role, i.parse::<usize>())) {
        Some((role, Ok(i))) => (role, setups()[i]),
        _ => (&*role, setups()[0]),
    };
    no_core_dump();
    match role {
        "overflow" => overflow(setup),
        "overflow by a frame" => overflow_by_a_frame(setup),
        "null" => crash(setup, || {
            // SAFETY: none; this is the fault that is tested.
            unsafe { black_box(std::ptr::without_provenance_mut::<u64>(8)).write_volatile(1) }
        }),
        "illegal instruction" => crash(setup, || {
            // SAFETY: none; this is the fault that is tested.
            unsafe { std::arch::asm!("ud2") }
        }),
        "panics of all kinds" => panics(setup),
        "panics with a hook" => {
            std::panic::set_hook(Box::new(|_| eprintln!("my hook")));
            panics(setup);
        }
        "abort" => crash(setup, || std::process::abort()),
        "panic that cannot unwind" => crash(setup, || {
            extern "C" fn no_unwind() {
                panic!("this one aborts");
            }
            no_unwind();
        }),
        "panic while panicking" => crash(setup, || {
            struct Again;
            impl Drop for Again {
                fn drop(&mut self) {
                    panic!("second");
                }
            }
            let _again = Again;
            panic!("first");
        }),
        "busy" => busy(setup),
        "exit" => crash(setup, || {
            print!("not flushed yet");
            std::process::exit(7)
        }),
        "exit of a kernel thread" => {
            let rt = setup.builder().build().unwrap();
            rt.spawn(|| busy_threads(3));
            while rt.stats().preempt_useful < 3 {
                std::thread::yield_now();
            }
            std::process::exit(8);
        }
        "end of main" => {
            let rt = setup.builder().build().unwrap();
            rt.spawn(|| busy_threads(3));
            while rt.stats().preempt_useful < 3 {
                std::thread::yield_now();
            }
            std::mem::forget(rt);
        }
        "no timers" => {
            limit(libc::RLIMIT_SIGPENDING, 0);
            println!("{}", Builder::new().clock(Clock::PosixTimer).build().unwrap_err());
            drop(Builder::new().clock(Clock::TimerThread).build().unwrap());
        }
        "no address space" => {
            limit(libc::RLIMIT_AS, 300 << 20);
            println!("{}", Builder::new().max_threads(1 << 24).build().unwrap_err());
            drop(Builder::new().max_threads(1_000).build().unwrap());
        }
        "little address space" => {
            limit(libc::RLIMIT_AS, 1 << 30);
            with_runtime(
                Builder::new().workers(1).max_threads(100_000).stack_size(1 << 20),
                |rt| {
                    rt.run(too_many_stacks);
                },
            );
        }
        "environment" => match Builder::from_env().build() {
            Ok(rt) => println!("{:?} {} {}", rt.clock(), rt.workers(), rt.policy()),
            Err(e) => println!("{e}"),
        },
        other => panic!("unknown role {other}"),
    }
}

/// Faults on purpose leave no core files behind.
fn no_core_dump() {
    limit(libc::RLIMIT_CORE, 0);
}

fn limit(what: libc::__rlimit_resource_t, value: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

/// Threads that never end.
fn busy_threads(n: usize) {
    for _ in 0..n {
        quaver::spawn_detached(|| {
            loop {
                spin(1_000);
                drop(black_box(vec![1; 10]));
            }
        });
    }
}

/// Runs `fault` on a user thread, beside others that are preempted.
fn crash(setup: Setup, fault: fn()) {
    let rt = setup.builder().build().unwrap();
    rt.run(move || {
        busy_threads(2);
        until_preempted(5, |_| _ = spin(500));
        fault();
    });
    println!("survived");
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let local = black_box([depth; 20]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + local[3] }
}

fn overflow(setup: Setup) {
    let rt = setup.builder().stack_size(96 * 1024).build().unwrap();
    rt.run(|| {
        busy_threads(2);
        until_preempted(5, |_| _ = spin(500));
        let deep = quaver::thread::Builder::new().name("deep".into());
        _ = deep.spawn(|| recurse(0)).unwrap().join();
    });
}

/// Uses the stack up to a little above its guard, then waits for a signal, whose frame does not fit
/// any more.
fn overflow_by_a_frame(setup: Setup) {
    const STACK: usize = 96 * 1024;
    #[inline(never)]
    fn down_to(limit: usize) -> u8 {
        let local = black_box([0u8; 64]);
        if (&raw const local as usize) > limit {
            return down_to(limit) ^ local[7];
        }
        for _ in 0..20_000_000_000u64 {
            std::hint::spin_loop();
        }
        local[7]
    }
    let rt = setup.builder().stack_size(STACK).build().unwrap();
    rt.run(|| {
        busy_threads(2);
        let shallow = quaver::thread::Builder::new().name("shallow".into());
        let body = || {
            quaver::foreign::thread::current().unwrap().set_label(*b"deep\0 not it\0\0\0\0");
            let near_the_top = 0u8;
            let left = quaver::platform::facts().signal_frame - 600;
            down_to(&raw const near_the_top as usize - STACK + left);
        };
        _ = shallow.spawn(body).unwrap().join();
    });
}

#[test]
fn stack_overflow_names_the_thread() {
    on_all("overflow", |o| {
        assert_eq!(o.signal(), Some(libc::SIGABRT), "{o:#?}");
        assert!(o.stderr.contains("user thread 'deep'"), "{o:#?}");
        assert!(o.stderr.contains("overflowed its stack of 96 KiB;"), "{o:#?}");
        assert!(o.stderr.contains("Builder::stack_size"), "{o:#?}");
    });
}

#[test]
fn stack_overflow_by_a_signal_frame() {
    for (i, setup) in setups().iter().enumerate() {
        // On two workers the thread may have one for itself and is not preempted.
        if setup.workers > 1 {
            continue;
        }
        let o = child::run(&format!("overflow by a frame {i}"));
        assert_eq!(o.signal(), Some(libc::SIGABRT), "{o:#?}");
        assert!(o.stderr.contains("user thread 'deep'"), "{o:#?}");
        assert!(o.stderr.contains("overflowed its stack"), "{o:#?}");
    }
}

#[test]
fn other_faults_kill_as_usual() {
    for (role, signal) in [
        ("null", libc::SIGSEGV),
        ("illegal instruction", libc::SIGILL),
        ("abort", libc::SIGABRT),
        ("panic that cannot unwind", libc::SIGABRT),
        ("panic while panicking", libc::SIGABRT),
    ] {
        on_all(role, |o| {
            assert_eq!(o.signal(), Some(signal), "{role}: {o:#?}");
            assert!(!o.stderr.contains("overflow"), "{role}: {o:#?}");
            assert!(!o.stdout.contains("survived"), "{role}: {o:#?}");
        });
    }
}

/// Runs until it is killed, and says when it has begun.
fn busy(setup: Setup) {
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

/// One runtime in a process, and none on a user thread.
#[test]
fn a_second_runtime_is_refused() {
    for setup in setups() {
        setup.run_built(setup.builder(), |rt| {
            for _ in 0..3 {
                let e = setup.builder().build().unwrap_err();
                assert!(matches!(e, BuildError::AlreadyRunning));
                let text = e.to_string();
                assert!(
                    text.contains("already running") && text.contains("shut it down"),
                    "{text}"
                );
                let e = rt.run(|| Builder::new().build().unwrap_err());
                assert!(matches!(e, BuildError::OnUserThread), "{e}");
            }
            assert_eq!(rt.run(|| 5), 5, "the first is as good as before");
        });
    }
}

fn error(builder: Builder) -> String {
    builder.build().expect_err("a runtime was built").to_string()
}

#[test]
fn bad_values_are_refused() {
    alone(|| {
        let b = Builder::new;
        let expect = |builder: Builder, words: &[&str]| {
            let text = error(builder);
            assert!(words.iter().all(|w| text.contains(w)), "{text:?} should mention {words:?}");
        };
        expect(b().workers(0), &["0 workers", "between 1 and"]);
        expect(b().workers(100_000), &["100000 workers", "1024"]);
        expect(b().cpus(vec![8_000]), &["CPU 8000", "may use", "taskset"]);
        expect(b().timer_cpu(Some(8_001)), &["CPU 8001"]);
        let cpu = quaver::platform::facts().cpus[0];
        expect(b().cpus(vec![cpu]).workers(2), &["2 workers", "pinned", "1 CPUs"]);
        let ns = Duration::from_nanos;
        for (clock, least) in
            [(Clock::PosixTimer, 10_000), (Clock::TimerThread, 5_000), (Clock::TimerCore, 2_000)]
        {
            assert_eq!(clock.min_quantum(), ns(least));
            let short = b().clock(clock).quantum(Some(ns(least - 1)));
            expect(short, &["quantum", &clock.to_string(), "off"]);
        }
        expect(b().stack_size(4_096), &["4096 bytes", "at least"]);
        expect(b().stack_size(0), &["0 bytes"]);
        expect(b().max_threads(0), &["max_threads of 0"]);
        expect(b().max_threads(u32::MAX), &["max_threads", "2^24"]);
        for signal in [-1, 0, 9, 11, 19, 32, 33, 65] {
            expect(b().signal(signal), &[&format!("signal {signal}"), "cannot be used"]);
        }
        expect(b().quantum_str("soon"), &["quantum", "`soon`"]);
        expect(b().policy_str("fairest"), &["policy", "fairest"]);
        expect(b().clock_str("sundial"), &["sundial", "timer-core", "posix-timer"]);
        // After all of that a good one is built.
        b().workers(1).build().unwrap().shutdown();
    });
}

#[test]
fn bad_environment_variables_are_refused() {
    for (name, value, words) in [
        ("QUAVER_WORKERS", "many", ["many", "number"]),
        ("QUAVER_WORKERS", "0", ["QUAVER_WORKERS", "from 1 to 1024"]),
        ("QUAVER_CPUS", "0-", ["0-", "CPU"]),
        ("QUAVER_CPUS", "7999", ["CPU 7999", "may use"]),
        ("QUAVER_POLICY", "lottery", ["lottery", "QUAVER_POLICY"]),
        ("QUAVER_QUANTUM", "-5us", ["-5us", "QUAVER_QUANTUM"]),
        ("QUAVER_QUANTUM", "1ns", ["1ns", "off"]),
        ("QUAVER_CLOCK", "cuckoo", ["cuckoo", "timer-thread"]),
        ("QUAVER_NOTIFICATION", "telegram", ["telegram", "signal"]),
        ("QUAVER_TIMER_CPU", "x", ["x", "QUAVER_TIMER_CPU"]),
        ("QUAVER_STACK_SIZE", "big", ["big", "bytes"]),
        ("QUAVER_STACK_SIZE", "1k", ["1024 bytes", "at least"]),
        ("QUAVER_MAX_THREADS", "0", ["QUAVER_MAX_THREADS", "from 1 to"]),
        ("QUAVER_MAX_BLOCKING", "few", ["QUAVER_MAX_BLOCKING", "number"]),
        ("QUAVER_SIGNAL", "9", ["signal 9", "cannot be used"]),
        ("QUAVER_RESUME", "magic", ["magic", "sigreturn"]),
    ] {
        let child = child::command("environment").env(name, value).spawn().unwrap();
        let o = child::finish(child);
        o.expect_success();
        assert!(words.iter().all(|w| o.stdout.contains(w)), "{name}={value}: {o:#?}");
    }
    let mut good = child::command("environment");
    good.env("QUAVER_WORKERS", "1").env("QUAVER_CLOCK", "posix-timer");
    good.env("QUAVER_POLICY", "rr").env("QUAVER_QUANTUM", "50us").env("QUAVER_STACK_SIZE", "1g");
    let o = child::finish(good.spawn().unwrap());
    o.expect_success();
    assert!(o.stdout.contains("PosixTimer 1 rr:quantum=50us"), "{o:#?}");
    assert!(!o.stderr.contains("did you mean"), "{o:#?}");
}

#[test]
fn misspelt_environment_variables_are_reported() {
    let misspelt = format!("QUAVER_{}", "WORKER");
    let o = child::finish(child::command("environment").env(&misspelt, "1").spawn().unwrap());
    o.expect_success();
    let message = format!("variable {misspelt} is not known; did you mean QUAVER_WORKERS?");
    assert_eq!(o.stderr.matches(&message).count(), 1, "{o:#?}");
}

#[test]
fn a_signal_in_use_is_refused() {
    extern "C" fn handler(_: i32) {}
    let set = |action: usize| {
        // SAFETY: a complete action; the handler does nothing.
        unsafe { libc::signal(libc::SIGUSR2, action) }
    };
    alone(|| {
        set(handler as *const () as usize);
        let text = error(Builder::new().signal(libc::SIGUSR2));
        assert!(text.contains("signal 12 already has a handler"), "{text}");
        assert!(text.contains("Builder::signal"), "{text}");
        set(libc::SIG_IGN);
    });
    // Ignored is free, and so are all others that may be used.
    for signal in
        [libc::SIGUSR2, libc::SIGUSR1, libc::SIGRTMIN() + 3, libc::SIGRTMAX(), libc::SIGURG]
    {
        for setup in Setup::clocks(1) {
            setup.run_with(setup.builder().signal(signal), || {
                quaver::scope(|s| {
                    for _ in 0..2 {
                        s.spawn(|| until_preempted(3, |_| _ = spin(500)));
                    }
                });
            });
        }
    }
}

/// The preemption signal may also come from elsewhere, at any time.
#[test]
fn stray_signals_are_harmless() {
    for setup in setups() {
        setup.run_built(setup.builder(), |rt| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        // SAFETY: the runtime's handler is installed.
                        unsafe { libc::kill(libc::getpid(), libc::SIGURG) };
                        std::thread::yield_now();
                    }
                });
                rt.run(|| {
                    quaver::scope(|s| {
                        for i in 0..3u64 {
                            s.spawn(move || {
                                until_preempted(setup.preemptions(50), |step| {
                                    assert_eq!(format!("{}", step + i).parse(), Ok(step + i));
                                });
                            });
                        }
                    });
                });
                stop.store(true, SeqCst);
            });
        });
    }
}

/// `fork` and `exec` by way of the standard library, with and without code that runs between them.
#[test]
fn commands_work_on_user_threads() {
    for setup in setups() {
        setup.run(|| {
            let finished = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let finished = &finished;
                    s.spawn(move || {
                        for k in 0..if full() { 20 } else { 4 } {
                            let mut command = Command::new("cat");
                            command.stdin(Stdio::piped()).stdout(Stdio::piped());
                            if k % 2 == 0 {
                                // SAFETY: allowed between fork and exec.
                                unsafe {
                                    command.pre_exec(|| {
                                        libc::umask(0o77);
                                        Ok(())
                                    })
                                };
                            }
                            let mut child = command.spawn().unwrap();
                            let message = format!("{i} {k}").repeat(1_000);
                            let mut stdin = child.stdin.take().unwrap();
                            let sent = message.clone();
                            let writer =
                                quaver::spawn(move || stdin.write_all(sent.as_bytes()).unwrap());
                            let output = child.wait_with_output().unwrap();
                            writer.join().unwrap();
                            assert!(
                                output.status.success() && output.stdout == message.into_bytes()
                            );
                        }
                        finished.fetch_add(1, SeqCst);
                    });
                }
                until(|| finished.load(SeqCst) == 3, |_| _ = spin(500));
            });
        });
    }
    let e =
        Setup::clocks(1)[0].run(|| Command::new("/does/not/exist").spawn().map(drop).unwrap_err());
    assert_eq!(e.kind(), std::io::ErrorKind::NotFound);
}

/// A plain `fork` on a user thread: the child has that thread alone.
#[test]
fn fork_works_on_user_threads() {
    static IN_PARENT: AtomicU64 = AtomicU64::new(0);
    for setup in setups() {
        setup.run(|| {
            let finished = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..2 {
                    let finished = &finished;
                    s.spawn(move || {
                        for k in 0..10 {
                            let code = i * 10 + k;
                            // SAFETY: the child computes and exits.
                            let pid = unsafe { libc::fork() };
                            assert!(pid >= 0);
                            if pid == 0 {
                                let sum = spin(20_000) & 0 | code;
                                // SAFETY: ends the child at once.
                                unsafe { libc::_exit(sum as i32) };
                            }
                            IN_PARENT.fetch_add(1, SeqCst);
                            let mut status = 0;
                            // SAFETY: our own child.
                            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                            assert!(libc::WIFEXITED(status), "{status:#x}");
                            assert_eq!(libc::WEXITSTATUS(status) as u64, code);
                        }
                        finished.fetch_add(1, SeqCst);
                    });
                }
                until(|| finished.load(SeqCst) == 2, |_| _ = spin(500));
            });
        });
    }
}

/// Threads until there is no address space for another: an error that says so, and what is there
/// works on.
fn too_many_stacks() {
    let gate = std::sync::Arc::new(std::sync::Mutex::new(()));
    let held = gate.lock().unwrap();
    let mut threads = Vec::new();
    let e = loop {
        let gate = gate.clone();
        match quaver::thread::Builder::new().spawn(move || drop(gate.lock().unwrap())) {
            Ok(t) => threads.push(t),
            Err(e) => break e,
        }
    };
    println!("{} threads, then: {e}", threads.len());
    drop(held);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(quaver::spawn(|| 5).join().unwrap(), 5);
}

#[test]
fn exhausted_resources_are_errors() {
    let o = child::run("no timers");
    o.expect_success();
    assert!(o.stdout.contains("POSIX timer") && o.stdout.contains("ulimit -i"), "{o:#?}");
    let o = child::run("no address space");
    o.expect_success();
    assert!(o.stdout.contains("thread table"), "{o:#?}");
    let o = child::run("little address space");
    o.expect_success();
    assert!(o.stdout.contains("threads, then: cannot map another stack"), "{o:#?}");
    assert!(o.stdout.contains("RLIMIT_AS"), "{o:#?}");
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
