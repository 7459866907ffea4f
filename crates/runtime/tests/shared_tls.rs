//! Threads that use the thread-local variables of their workers: what must be right in spite of
//! that.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use quaver::Tls;
use std::hint::black_box;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::{Rng, Setup, child, full, identity, on_runtime, spin, until_preempted};

fn run<T: Send>(setup: Setup, body: impl FnOnce() -> T + Send) -> T {
    setup.run_with(setup.builder().tls(Tls::Shared), body)
}

#[test]
fn threads_share_the_variables_of_their_worker() {
    use std::cell::Cell;
    thread_local!(static SEEN: Cell<usize> = const { Cell::new(0) });
    for setup in Setup::clocks(1) {
        run(setup, || {
            for i in 0..50 {
                // On one worker all of them have the same.
                assert_eq!(quaver::spawn(move || SEEN.replace(i + 1)).join().unwrap(), i);
            }
        });
        // Another runtime has other kernel threads.
        let private = setup.run(|| quaver::spawn(|| SEEN.replace(1)).join().unwrap());
        assert_eq!(private, 0);
    }
}

/// Threads unwind, are preempted and wait meanwhile, and do not make others abort.
#[test]
fn panics_are_private() {
    struct Slow<'a>(&'a AtomicUsize, u64);
    impl Drop for Slow<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.fetch_add(1, SeqCst);
            match self.1 % 3 {
                0 => _ = spin(20_000),
                1 => quaver::yield_now(),
                _ => quaver::sleep(Duration::from_micros(self.1)),
            }
            assert!(std::thread::panicking());
            self.0.fetch_sub(1, SeqCst);
        }
    }
    for setup in Setup::all() {
        run(setup, || {
            let (unwinding, beside, done) =
                (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            quaver::scope(|s| {
                for i in 0..4u64 {
                    let (unwinding, done) = (&unwinding, &done);
                    s.spawn(move || {
                        for k in 0..60 {
                            let result = catch_unwind(AssertUnwindSafe(|| {
                                let _slow = Slow(unwinding, i + k);
                                resume_unwind(Box::new(1u8));
                            }));
                            assert!(result.is_err() && !std::thread::panicking());
                        }
                        done.fetch_add(1, SeqCst);
                    });
                }
                s.spawn(|| {
                    let mutex = Mutex::new(());
                    while done.load(SeqCst) < 4 {
                        assert!(!std::thread::panicking());
                        let guard = mutex.lock().unwrap();
                        beside.fetch_add(usize::from(unwinding.load(SeqCst) > 0), SeqCst);
                        spin(200);
                        // Would poison the mutex if this thread were thought to panic.
                        drop(guard);
                    }
                });
            });
            assert!(beside.load(SeqCst) > 0, "never beside a thread that unwinds");
            // A thread may also end by a panic.
            for _ in 0..20 {
                assert!(quaver::spawn(|| resume_unwind(Box::new(()))).join().is_err());
            }
        });
    }
}

#[test]
fn std_knows_each_thread() {
    for setup in Setup::all() {
        run(setup, || {
            identity::each_thread_has_its_own(8, setup.preemptions(20));
        });
    }
}

/// A thread that is preempted while `std` makes its handle has it where it runs next. That takes a
/// part of a microsecond, so there are many threads.
#[test]
fn handles_are_made_whole() {
    const TIME: Duration = Duration::from_secs(2);
    let builder = quaver::Builder::new().tls(Tls::Shared).workers(2).policy_str("rr");
    on_runtime(builder.tax(100).quantum(Some(Duration::from_micros(5))), || {
        let end = Instant::now() + TIME;
        let makes_threads = || {
            while Instant::now() < end {
                let new = quaver::spawn(|| {
                    let (a, b) = (std::thread::current(), std::thread::current());
                    a.id() == b.id()
                });
                assert!(new.join().unwrap());
            }
        };
        quaver::scope(|s| (0..8).for_each(|_| _ = s.spawn(makes_threads)));
    });
}

#[test]
fn std_parks_user_threads() {
    for setup in Setup::clocks(1).into_iter().chain(Setup::clocks(2)) {
        run(setup, || {
            let (tx, rx) = quaver::sync::mpsc::channel();
            let t = quaver::spawn(move || {
                tx.send(std::thread::current()).unwrap();
                for _ in 0..200 {
                    std::thread::park();
                    tx.send(std::thread::current()).unwrap();
                }
            });
            for _ in 0..200 {
                rx.recv().unwrap().unpark();
            }
            rx.recv().unwrap();
            t.join().unwrap();
        });
    }
}

/// malloc's caches belong to the worker; a thread is never switched out with one in its hands.
#[test]
fn malloc_works() {
    for setup in Setup::all() {
        run(setup, || {
            let exchange: [Mutex<Vec<Vec<u8>>>; 4] = Default::default();
            quaver::scope(|s| {
                for i in 0..5u64 {
                    let exchange = &exchange;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        until_preempted(setup.preemptions(150), |step| {
                            let size = rng.below(if step % 9 == 0 { 40_000 } else { 300 }) as usize;
                            let byte = (size % 251) as u8;
                            let block = black_box(vec![byte; size]);
                            let place = &exchange[rng.below(4) as usize];
                            let old = {
                                let mut list = place.lock().unwrap();
                                list.push(block);
                                if list.len() > 20 {
                                    Some(list.swap_remove(rng.below(20) as usize))
                                } else {
                                    None
                                }
                            };
                            if let Some(old) = old {
                                assert!(old.iter().all(|&b| b == (old.len() % 251) as u8));
                            }
                        });
                    });
                }
            });
        });
    }
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    match &*role {
        // Standard output is locked by the thread that writes, which is preempted meanwhile.
        "print" => {
            for setup in Setup::clocks(1).into_iter().chain(Setup::clocks(2)) {
                let rt = setup.builder().tls(Tls::Shared).build().unwrap();
                rt.run(|| {
                    quaver::scope(|s| {
                        for i in 0..4 {
                            s.spawn(move || {
                                until_preempted(setup.preemptions(40), |_| {
                                    let mut out = std::io::stdout().lock();
                                    for _ in 0..4 {
                                        write!(out, "{i}").unwrap();
                                        spin(100);
                                    }
                                    writeln!(out).unwrap();
                                });
                            });
                        }
                    });
                });
            }
        }
        "environment" => {
            let e = quaver::Builder::from_env().build();
            println!("{}", e.map_or_else(|e| e.to_string(), |rt| format!("{rt:?}")));
        }
        other => panic!("unknown role {other}"),
    }
}

#[test]
fn printing_works() {
    let o = child::run("print");
    o.expect_success();
    let lines: Vec<_> = o.stdout.lines().filter(|l| l.starts_with(['0', '1', '2', '3'])).collect();
    assert!(lines.len() > 100, "{}", lines.len());
    for line in lines {
        assert!(line.len() == 4 && line.chars().all(|c| line.starts_with(c)), "{line:?}");
    }
}

#[test]
fn the_environment_chooses() {
    for (value, words) in [
        ("shared", ["tls: Shared", ""]),
        ("private", ["tls: Private", ""]),
        ("none", ["none", "private, shared"]),
    ] {
        let o =
            child::finish(child::command("environment").env("QUAVER_TLS", value).spawn().unwrap());
        o.expect_success();
        assert!(words.iter().all(|w| o.stdout.contains(w)), "{o:#?}");
    }
}

/// A shared block and a private one behave alike where the FS base is set by a system call. In the
/// long form: the tests `preempt` and `tls` do this in the quick one.
#[test]
fn without_fsgsbase() {
    if full() && child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}

/// To a library that waits in the kernel, where it may hold locks in the name of its kernel thread
/// (`fgets` does), a thread is the same before and after.
#[test]
fn who_blocks_in_the_kernel_comes_back_on_its_kernel_thread() {
    /// Ends the others, also when this one fails.
    struct Stop<'a>(&'a AtomicUsize);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(1, SeqCst);
        }
    }
    let mut handovers = 0;
    for setup in Setup::all_clocks() {
        let stop = AtomicUsize::new(0);
        let body = || {
            quaver::scope(|s| {
                let _stop = Stop(&stop);
                let mut readers = Vec::new();
                for _ in 0..3 {
                    let (mut reader, mut writer) = std::io::pipe().unwrap();
                    // Keeps the reader waiting now and then.
                    let feeder = std::thread::spawn(move || {
                        while writer.write_all(b"x").is_ok() {
                            std::thread::sleep(Duration::from_micros(500));
                        }
                    });
                    readers.push(s.spawn(move || {
                        for _ in 0..60 {
                            // Not moved but by the call in the middle.
                            let (before, after) = quaver::no_preempt(|| {
                                // SAFETY: no arguments.
                                let here = || unsafe { libc::gettid() };
                                let before = here();
                                assert_eq!(reader.read(&mut [0]).unwrap(), 1);
                                (before, here())
                            });
                            assert_eq!(before, after);
                            quaver::yield_now();
                        }
                        drop(reader);
                        feeder
                    }));
                }
                // Without others that want to run nobody is handed over.
                for _ in 0..2 {
                    s.spawn(|| {
                        while stop.load(SeqCst) == 0 {
                            spin(1000);
                        }
                    });
                }
                for r in readers {
                    r.join().unwrap().join().unwrap();
                }
            });
        };
        handovers += setup.run_built(setup.builder().tls(Tls::Shared), |rt| {
            rt.run(body);
            rt.stats().handovers
        });
    }
    assert!(handovers > 0, "nobody was handed over");
}
