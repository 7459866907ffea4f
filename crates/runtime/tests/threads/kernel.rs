//! Kernel threads start and join user threads.

use crate::support::setup::alone;
use crate::support::{Setup, quiet_expected_panics, spin, with_runtime};
use quaver::{Handle, JoinHandle};
use std::panic::catch_unwind;

#[test]
fn kernel_threads_spawn_and_join() {
    for setup in Setup::all() {
        setup.run_built(setup.builder(), |rt| {
            std::thread::scope(|s| {
                for k in 0..3u64 {
                    let handle = rt.handle();
                    s.spawn(move || {
                        for i in 0..300 {
                            let x = handle.spawn(move || spin(10) & 0 | (k * i));
                            let y = quaver::spawn(move || k + i);
                            assert_eq!(y.join().unwrap(), k + i);
                            assert_eq!(x.join().unwrap(), k * i);
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn handles_travel_between_threads_of_both_kinds() {
    for setup in Setup::all() {
        setup.run_built(setup.builder(), |rt| {
            for i in 0..200u64 {
                // Started by a user thread, joined by a kernel thread.
                let started: JoinHandle<u64> =
                    rt.run(move || quaver::spawn(move || spin(50) & 0 | i));
                assert_eq!(started.join().unwrap(), i);
                // Started by a kernel thread, joined by a user thread.
                let started = rt.spawn(move || spin(50) & 0 | i);
                assert_eq!(rt.run(move || started.join().unwrap()), i);
                // Dropped by a kernel thread, at about the time of its end.
                drop(rt.run(move || quaver::spawn(move || Box::new(i))));
                while rt.stats().completed < rt.stats().spawned {
                    std::thread::yield_now();
                }
            }
        });
    }
}

#[test]
fn run_works_on_a_user_thread_too() {
    for setup in Setup::clocks(1) {
        with_runtime(setup.builder(), |rt| {
            let sum = rt.run(|| (0..10).map(|i| rt.run(move || i)).sum::<u32>());
            assert_eq!(sum, 45);
        });
    }
}

#[test]
fn a_kernel_thread_is_no_user_thread() {
    quaver::yield_now();
    quaver::sleep(std::time::Duration::from_millis(1));
    assert!(!quaver::is_preemptible());
    assert_eq!(quaver::no_preempt(|| quaver::block_in_place(|| 7)), 7);
    assert!(quaver::thread::current().is_none());
}

#[test]
fn without_a_runtime_there_are_no_threads() {
    quiet_expected_panics();
    alone(|| {
        assert!(Handle::current().is_err());
        let e = quaver::thread::Builder::new().spawn(|| ()).unwrap_err();
        assert!(e.to_string().contains("no quaver runtime is running"), "{e}");
        assert!(catch_unwind(|| quaver::spawn(|| ())).is_err());
        assert!(catch_unwind(|| quaver::spawn_detached(|| ())).is_err());
        assert!(catch_unwind(|| quaver::scope(|s| drop(s.spawn(|| ())))).is_err());
    });
}
