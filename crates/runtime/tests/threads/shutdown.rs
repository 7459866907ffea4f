//! The end of a runtime, and the next one.

use crate::support::drops::{Counted, Drops};
use crate::support::setup::with_leftover;
use crate::support::{Setup, on_runtime, quiet_expected_panics, spin, with_runtime};
use crate::wait_until;
use quaver::{Clock, JoinHandle, Resume, ShutDown};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A shutdown stops threads that run, wait, spin in the kernel or have ended and were not joined,
/// and counts them.
#[test]
fn shutdown_counts_what_it_stops() {
    for setup in Setup::all() {
        println!("-- {setup}");
        let running = Arc::new(AtomicUsize::new(0));
        let drops = Drops::default();
        let (kept, leftover) = with_leftover(setup.builder(), |rt| {
            let never = Arc::new(Mutex::new(()));
            let (running, value) = (running.clone(), drops.value());
            let kept = rt.run(move || {
                let mut kept: Vec<JoinHandle<()>> = Vec::new();
                let held = never.lock().unwrap();
                for _ in 0..3 {
                    let running = running.clone();
                    kept.push(quaver::spawn(move || {
                        running.fetch_add(1, SeqCst);
                        loop {
                            spin(1000);
                        }
                    }));
                    let never = never.clone();
                    kept.push(quaver::spawn(move || drop(never.lock().unwrap())));
                    kept.push(quaver::spawn(|| ()));
                }
                kept.push(quaver::spawn(|| quaver::sleep(std::time::Duration::MAX)));
                kept.push(quaver::spawn(move || {
                    let _never_dropped = value;
                    loop {
                        quaver::yield_now();
                    }
                }));
                wait_until(|| running.load(SeqCst) == 3 && kept[8].is_finished());
                std::mem::forget(held);
                kept
            });
            kept
        });
        assert_eq!((leftover.threads, leftover.kernel_threads), (11, 0));
        assert_eq!(drops.counts(), (1, 0), "threads that are stopped are not unwound");
        // What had ended can be joined still; the others say what happened.
        for (i, t) in kept.into_iter().enumerate() {
            let finished = t.is_finished();
            match t.join() {
                Ok(()) => assert!(i % 3 == 2 && finished),
                Err(e) => {
                    assert!(e.is::<ShutDown>() && !finished, "{i}");
                }
            }
        }
    }
}

#[test]
fn a_kernel_thread_learns_that_its_thread_was_stopped() {
    for setup in Setup::all() {
        println!("-- {setup}");
        for _ in 0..10 {
            let (joiners, leftover) = with_leftover(setup.builder(), |rt| {
                let stopped = rt.spawn(|| {
                    loop {
                        quaver::yield_now();
                    }
                });
                [std::thread::spawn(move || stopped.join())]
            });
            assert_eq!(leftover.threads, 1);
            for j in joiners {
                let e = j.join().unwrap().map(|never: ()| never).unwrap_err();
                assert!(e.is::<ShutDown>());
            }
        }
    }
}

#[test]
fn after_the_shutdown() {
    quiet_expected_panics();
    for setup in Setup::clocks(2) {
        let (handle, _) = with_leftover(setup.builder(), |rt| rt.handle());
        let e = handle.spawn_detached(|| ()).unwrap_err();
        assert!(e.to_string().contains("shut down"), "{e}");
        let panic = catch_unwind(AssertUnwindSafe(|| handle.spawn(|| ()))).map(drop).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("shut down"));
        assert_eq!(handle.stats().spawned, 0);
    }
}

/// Handles of an old runtime are used while a new one runs.
#[test]
fn handles_outlive_their_runtime() {
    for setup in Setup::clocks(1) {
        let (old, _) = with_leftover(setup.builder(), |rt| {
            rt.run(|| {
                let ended = quaver::spawn(|| String::from("old"));
                wait_until(|| ended.is_finished());
                let stuck = quaver::spawn(|| {
                    loop {
                        quaver::yield_now();
                    }
                });
                (ended, stuck)
            })
        });
        with_runtime(setup.builder(), |rt| {
            rt.run(move || {
                let (ended, stuck): (JoinHandle<String>, JoinHandle<()>) = old;
                assert_eq!(ended.join().unwrap(), "old");
                assert!(!stuck.is_finished());
                assert!(stuck.join().unwrap_err().is::<ShutDown>());
            });
        });
    }
}

#[test]
fn starting_again_and_again() {
    let setups = Setup::all();
    let before = kernel_threads();
    for i in 0..200 {
        let setup = setups[i % setups.len()];
        let sum = on_runtime(setup.builder(), || {
            let threads: Vec<_> = (0..20u64)
                .map(|i| {
                    quaver::spawn(move || {
                        let text = vec![format!("{i}"); 10].join(",");
                        spin(100);
                        text.len() as u64
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 10 * 10 * 1 + 10 * 10 * 2 + 20 * 9);
    }
    // Kernel threads that have said that they are gone may take a moment to leave the list; other
    // tests come and go.
    for _ in 0..1000 {
        if kernel_threads() <= before + 8 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{before} kernel threads before, {} after", kernel_threads());
}

fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Kernel threads that start user threads while the runtime is shut down get a thread or an error,
/// nothing else.
#[test]
fn spawning_races_with_shutdown() {
    for (round, setup) in Setup::all().into_iter().cycle().take(120).enumerate() {
        let go = Arc::new(AtomicBool::new(true));
        let mut spawners = Vec::new();
        with_leftover(setup.builder(), |rt| {
            for _ in 0..2 {
                let (go, handle) = (go.clone(), rt.handle());
                spawners.push(std::thread::spawn(move || {
                    let drops = Drops::default();
                    let (mut ok, mut refused) = (0, 0);
                    while go.load(SeqCst) {
                        let value: Counted = drops.value();
                        match handle.spawn_detached(move || drop(value)) {
                            Ok(()) => ok += 1,
                            Err(_) => refused += 1,
                        }
                    }
                    (ok, refused)
                }));
            }
            while rt.stats().completed < (round as u64 % 40) * 5 {
                std::thread::yield_now();
            }
        });
        go.store(false, SeqCst);
        for s in spawners {
            s.join().unwrap();
        }
    }
}

/// Does `look` under the lock of the dynamic loader.
fn under_the_loaders_lock(look: fn()) {
    unsafe extern "C" fn call(
        _: *mut libc::dl_phdr_info,
        _: libc::size_t,
        look: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: it is the argument below, which lives across the call.
        unsafe { (*look.cast::<fn()>())() };
        1
    }
    let mut look = look;
    // SAFETY: the callback takes this argument, and any others.
    let answer = unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut look).cast()) };
    assert_eq!(answer, 1);
}

/// A kernel thread gets that lock.
fn the_loader_is_free() {
    let (done, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        under_the_loaders_lock(|| ());
        done.send(())
    });
    assert_eq!(heard.recv_timeout(Duration::from_secs(20)), Ok(()));
}

/// A thread that is stopped does not keep the loader's lock, which the rest of the process needs.
#[test]
fn nobody_is_stopped_while_it_lists_modules() {
    fn look() {
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_micros(300) {
            std::hint::spin_loop();
        }
    }
    for setup in Setup::all() {
        println!("-- {setup}");
        with_leftover(setup.builder(), |rt| {
            for _ in 0..3 {
                let begun = rt.spawn(quaver::yield_now);
                rt.spawn(move || {
                    loop {
                        under_the_loaders_lock(look);
                    }
                });
                begun.join().unwrap();
            }
        });
        the_loader_is_free();
    }
}

/// Threads that contend for a lock of the library are stopped one after the other, also those that
/// wait for it without a worker: a shutdown takes no longer for them, and nobody runs on.
#[test]
fn threads_that_contend_for_a_lock_of_the_library_are_stopped() {
    static LISTED: AtomicUsize = AtomicUsize::new(0);
    fn look() {
        LISTED.fetch_add(1, SeqCst);
        spin(20_000);
    }
    for setup in Setup::clocks(2) {
        println!("-- {setup}");
        let mut begun = std::time::Instant::now();
        let ((), leftover) = with_leftover(setup.builder(), |rt| {
            for _ in 0..8 {
                rt.spawn(move || {
                    loop {
                        under_the_loaders_lock(look);
                    }
                });
            }
            let before = LISTED.load(SeqCst);
            wait_until(|| LISTED.load(SeqCst) > before + 100);
            begun = std::time::Instant::now();
        });
        let took = begun.elapsed();
        println!("   {took:?}, {leftover:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
        // Those that waited in the kernel come back one by one, list once more, and end.
        wait_until(|| {
            let before = LISTED.load(SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            LISTED.load(SeqCst) == before
        });
        the_loader_is_free();
    }
}

/// A lock of the library that is not given back in time does not keep the others from being
/// stopped.
#[test]
fn who_computes_is_stopped_while_another_waits_for_the_library() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static HELD: AtomicBool = AtomicBool::new(false);
    fn hold() {
        HELD.store(true, SeqCst);
        while HELD.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let setup = Setup { clock: Clock::TimerThread, workers: 1, resume: Resume::Auto };
    let mut holding = None;
    let ((), leftover) = with_leftover(setup.builder(), |rt| {
        holding = Some(std::thread::spawn(|| under_the_loaders_lock(hold)));
        while !HELD.load(SeqCst) {
            std::thread::yield_now();
        }
        // One waits for the lock; the others see to it that it is asked for its worker.
        rt.spawn(|| under_the_loaders_lock(|| ()));
        for _ in 0..2 {
            rt.spawn(|| {
                loop {
                    COUNT.fetch_add(1, SeqCst);
                }
            });
        }
        while rt.stats().handovers == 0 {
            std::thread::yield_now();
        }
    });
    let before = COUNT.load(SeqCst);
    std::thread::sleep(Duration::from_millis(100));
    let after = COUNT.load(SeqCst);
    HELD.store(false, SeqCst);
    holding.expect("was started").join().unwrap();
    assert_eq!(before, after, "{leftover:?}");
}
