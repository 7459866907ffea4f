//! User threads and the kernel threads below them.

use crate::CONST;
use crate::support::{Rng, Setup, spin, until_preempted};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// All of this is worth something only if threads do move.
#[test]
fn threads_move_between_kernel_threads() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            let moves = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..5u64 {
                    let moves = &moves;
                    s.spawn(move || {
                        let (mut rng, mut last) = (Rng(i), gettid());
                        CONST.set(i as u32);
                        for _ in 0..2_000_000 {
                            if moves.load(SeqCst) >= 100 {
                                return;
                            }
                            spin(rng.below(3_000));
                            if rng.below(20) == 0 {
                                quaver::sleep(std::time::Duration::from_micros(rng.below(100)));
                            }
                            let here = gettid();
                            moves.fetch_add(usize::from(here != last), SeqCst);
                            last = here;
                            assert_eq!(CONST.get(), i as u32);
                        }
                        panic!("threads hardly move: {moves:?}");
                    });
                }
            });
        });
    }
}

/// Kernel threads that a user thread starts are ordinary threads.
#[test]
fn kernel_threads_started_by_user_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            for i in 0..20 {
                CONST.set(i);
                let t = std::thread::Builder::new().name(format!("kernel {i}")).spawn(move || {
                    assert_eq!(CONST.get(), 7);
                    assert!(quaver::thread::current().is_none());
                    assert_eq!(std::thread::current().name(), Some(&*format!("kernel {i}")));
                    CONST.set(1);
                    spin(1000);
                    quaver::spawn(move || i).join().unwrap()
                });
                assert_eq!(t.unwrap().join().unwrap(), i);
                assert_eq!(CONST.get(), i);
            }
        });
    }
}

#[test]
fn sched_getcpu_tells_a_cpu() {
    for setup in Setup::clocks(2) {
        setup.run(|| {
            for _ in 0..100 {
                // SAFETY: no arguments.
                let cpu = unsafe { libc::sched_getcpu() };
                assert!((0..8192).contains(&cpu), "{cpu}");
                spin(100);
            }
        });
    }
}

/// The C library changes the identity of all its threads, and must not wait for user threads, which
/// have none of their own.
#[test]
fn identities_are_changed() {
    for setup in Setup::all() {
        let change = || {
            // SAFETY: sets nothing, but goes through all threads.
            assert_eq!(unsafe { libc::setresgid(u32::MAX, u32::MAX, u32::MAX) }, 0);
        };
        let stop = AtomicBool::new(false);
        setup.run(|| {
            std::thread::scope(|kernel| {
                kernel.spawn(|| {
                    while !stop.load(SeqCst) {
                        change();
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                });
                quaver::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            until_preempted(setup.preemptions(30), |step| {
                                // All kernel threads must have had the CPU before it returns.
                                if step % 50 == 0 {
                                    change();
                                }
                                spin(1_000);
                            });
                        });
                    }
                });
                stop.store(true, SeqCst);
            });
        });
    }
}
