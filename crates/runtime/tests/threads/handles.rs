//! What can be done with the handle of a thread: park and unpark, joining for a time, scoped
//! threads with properties.

use crate::support::setup::{alone, with_leftover};
use crate::support::{Setup, quiet_expected_panics};
use quaver::thread::{self, Builder, Thread};
use quaver::{JoinHandle, ShutDown};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_millis(2);

#[test]
fn an_early_unpark_is_kept_once() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let me = thread::current().unwrap();
            me.unpark();
            me.unpark();
            thread::park();
            let start = Instant::now();
            thread::park_timeout(SHORT);
            assert!(start.elapsed() >= SHORT, "the second one counted");
        });
    }
}

#[test]
fn what_was_written_before_an_unpark_is_seen() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let turn = AtomicU32::new(0);
            let main = thread::current().unwrap();
            quaver::scope(|s| {
                let other = s.spawn(|| {
                    for round in (1..2_000).step_by(2) {
                        while turn.load(Relaxed) != round {
                            thread::park();
                        }
                        turn.store(round + 1, Relaxed);
                        main.unpark();
                    }
                });
                for round in (0..2_000).step_by(2) {
                    while turn.load(Relaxed) != round {
                        thread::park();
                    }
                    turn.store(round + 1, Relaxed);
                    other.thread().unpark();
                }
                other.join().unwrap();
            });
        });
    }
}

/// Locks and channels wait with tokens of their own.
#[test]
fn other_waits_leave_an_unpark_alone() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let me = thread::current().unwrap();
            let lock = quaver::sync::Mutex::new(());
            let (tx, rx) = quaver::sync::mpsc::sync_channel(0);
            let held = lock.lock().unwrap();
            quaver::scope(|s| {
                let lock = &lock;
                let waiter = s.spawn(move || {
                    // Unparked while it waits for the lock and the channel.
                    drop(lock.lock().unwrap());
                    rx.recv().unwrap();
                    thread::park();
                });
                for _ in 0..10 {
                    quaver::yield_now();
                }
                waiter.thread().unpark();
                quaver::sleep(SHORT);
                drop(held);
                tx.send(()).unwrap();
                waiter.join().unwrap();
            });
            // And an unpark between is not taken for a lock.
            me.unpark();
            quaver::sleep(SHORT);
            thread::park();
        });
    }
}

#[test]
fn kernel_threads_unpark_user_threads() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let me = thread::current().unwrap();
            for _ in 0..50 {
                let me = me.clone();
                let kernel = std::thread::spawn(move || me.unpark());
                thread::park_timeout(LONG);
                kernel.join().unwrap();
            }
        });
    }
}

/// A handle that outlives its thread does nothing to the next one in its place.
#[test]
fn a_late_unpark_reaches_nobody() {
    for setup in Setup::clocks(1) {
        let gone = setup.run(|| {
            let ended = quaver::spawn(|| thread::current().unwrap()).join().unwrap();
            for _ in 0..50 {
                let next = quaver::spawn(move || {
                    let start = Instant::now();
                    thread::park_timeout(Duration::from_micros(200));
                    start.elapsed()
                });
                ended.unpark();
                quaver::yield_now();
                ended.unpark();
                assert!(next.join().unwrap() >= Duration::from_micros(200));
            }
            ended
        });
        // Nor when the runtime is gone.
        gone.unpark();
        assert!(gone.name().is_none() && gone.id().as_u64() > 0);
    }
}

#[test]
fn kernel_threads_park_as_std_does() {
    let (tx, rx) = mpsc::channel();
    let kernel = std::thread::spawn(move || {
        tx.send(std::thread::current()).unwrap();
        thread::park();
        thread::park_timeout(SHORT);
    });
    rx.recv().unwrap().unpark();
    kernel.join().unwrap();
}

fn wait_for<T>(mut handle: JoinHandle<T>, each: Duration) -> (std::thread::Result<T>, usize) {
    for timeouts in 0.. {
        match handle.join_timeout(each) {
            Ok(result) => return (result, timeouts),
            Err(again) => handle = again,
        }
    }
    unreachable!()
}

#[test]
fn a_join_gives_up_and_can_be_repeated() {
    quiet_expected_panics();
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let go = Arc::new(AtomicBool::new(false));
            let waits = {
                let go = go.clone();
                quaver::spawn(move || {
                    while !go.load(Acquire) {
                        quaver::yield_now();
                    }
                    7
                })
            };
            let waits = waits.join_timeout(Duration::ZERO).unwrap_err();
            let waits = waits.join_timeout(SHORT).unwrap_err();
            assert!(!waits.is_finished());
            go.store(true, Release);
            assert_eq!(waits.join_timeout(LONG).unwrap().unwrap(), 7);
            let panics = quaver::spawn(|| panic!("expected"));
            let panic = panics.join_timeout(LONG).unwrap().map(|never: ()| never).unwrap_err();
            assert_eq!(panic.downcast_ref(), Some(&"expected"));
        });
    }
}

/// Timeouts that end at about the same time as the thread, on user threads and kernel threads.
#[test]
fn ends_and_timeouts_cross() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let timeouts = AtomicUsize::new(0);
            for i in 0..500u64 {
                let pause = Duration::from_micros(i % 50);
                let handle = quaver::spawn(move || {
                    quaver::sleep(pause);
                    i
                });
                let join = || wait_for(handle, Duration::from_micros(20));
                let (result, n) =
                    if i % 8 == 0 { std::thread::spawn(join).join().unwrap() } else { join() };
                assert_eq!(result.unwrap(), i);
                timeouts.fetch_add(n, Relaxed);
            }
            assert_ne!(timeouts.into_inner(), 0);
        });
    }
}

#[test]
fn a_joiner_with_a_timeout_learns_of_the_shutdown() {
    for setup in Setup::clocks(2) {
        let (joiner, _) = with_leftover(setup.builder(), |rt| {
            let stopped = rt.spawn(|| {
                loop {
                    quaver::yield_now();
                }
            });
            let stopped = stopped.join_timeout(SHORT).unwrap_err();
            std::thread::spawn(move || stopped.join_timeout(LONG))
        });
        let result: std::thread::Result<()> = joiner.join().unwrap().unwrap();
        assert!(result.unwrap_err().is::<ShutDown>());
    }
}

#[test]
fn scoped_threads_have_properties() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            let mut numbers = [1, 2, 3];
            let name = quaver::scope(|s| {
                let adds = Builder::new().name("adds".into()).priority(5);
                let adds = adds.spawn_scoped(s, || numbers[0] += 41).unwrap();
                assert_eq!(adds.thread().name().as_deref(), Some("adds"));
                adds.join_timeout(LONG).unwrap().unwrap();
                let named = Builder::new().name("named".into());
                let named = named.spawn_scoped(s, || thread::current().and_then(|t| t.name()));
                named.unwrap().join().unwrap()
            });
            assert_eq!((numbers[0], name.as_deref()), (42, Some("named")));
        });
    }
}

#[test]
fn a_scoped_thread_can_be_given_up_on() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            let done = AtomicBool::new(false);
            quaver::scope(|s| {
                let slow = s.spawn(|| {
                    quaver::sleep(SHORT);
                    done.store(true, Relaxed);
                });
                drop(slow.join_timeout(Duration::ZERO).unwrap_err());
            });
            assert!(done.load(Relaxed), "the scope waits for it all the same");
        });
    }
}

#[test]
fn a_handle_knows_its_thread() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            let t = Builder::new().name("x".into()).spawn(|| thread::current().unwrap().id());
            let t = t.unwrap();
            let handle: Thread = t.thread().clone();
            assert_eq!((handle.id(), handle.name().as_deref()), (t.id(), Some("x")));
            assert_eq!(t.join().unwrap(), handle.id());
        });
    }
}

/// Touches `kib` KiB of the stack, and is preempted on the way.
#[inline(never)]
fn deep(kib: usize) -> usize {
    let page = std::hint::black_box([kib as u8; 1024]);
    if kib <= 1 { page.len() } else { deep(kib - 1) + page.len() }
}

#[test]
fn threads_have_the_stacks_they_want() {
    for setup in Setup::all_clocks() {
        setup.run_with(setup.builder().stack_size(64 << 10), || {
            for round in 0..8 {
                let large: Vec<_> = (0..4)
                    .map(|i| Builder::new().stack_size(8 << 20).spawn(move || deep(1_500 + i)))
                    .collect();
                // On the same blocks as the large ones, one after the other.
                let small: Vec<_> = (0..4).map(|_| quaver::spawn(|| deep(10))).collect();
                for (t, i) in large.into_iter().zip(0..) {
                    assert_eq!(t.unwrap().join().unwrap(), (1_500 + i) << 10, "{round}");
                }
                for t in small {
                    assert_eq!(t.join().unwrap(), 10 << 10);
                }
            }
            let too_large = Builder::new().stack_size(1 << 50).spawn(|| ()).unwrap_err();
            assert!(too_large.to_string().contains("cannot map another stack"), "{too_large}");
        });
    }
}

/// The calling thread's stack, as collectors of garbage see it.
fn known_to_libc() -> std::ops::Range<usize> {
    let (mut at, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are filled, read and destroyed.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
        libc::pthread_attr_getstack(&attributes, &mut at, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
    }
    at as usize..at as usize + size
}

#[test]
fn threads_run_on_memory_of_the_program() {
    use quaver::foreign::thread::{WantedStack, spawn_on};
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let mut memory = vec![0u8; 1 << 20];
            let at = memory.as_mut_ptr() as usize..memory.as_mut_ptr() as usize + memory.len();
            let run_on = |memory, f: fn()| {
                // SAFETY: the memory lives until the thread has been joined.
                unsafe { spawn_on(WantedStack::Memory(memory), None, &Default::default(), f) }
            };
            for _ in 0..100 {
                let memory = at.clone();
                // SAFETY: as above.
                let spawned = unsafe {
                    spawn_on(
                        WantedStack::Memory(at.clone()),
                        None,
                        &Default::default(),
                        move || {
                            assert!(memory.contains(&(&raw const memory as usize)));
                            assert_eq!(deep(150), 150 << 10);
                            assert_eq!(known_to_libc(), memory);
                        },
                    )
                };
                spawned.unwrap().0.join().unwrap();
                let after = quaver::spawn(known_to_libc).join().unwrap();
                assert!(after.end <= at.start || at.end <= after.start, "{after:x?} {at:x?}");
            }
            let small = run_on(at.start..at.start + 4096, || ()).unwrap_err();
            assert_eq!(small.kind(), std::io::ErrorKind::InvalidInput);
        });
    }
}

/// A panic of `spawn` points at the caller.
#[test]
fn panics_point_at_the_caller() {
    alone(|| {
        let places = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = places.clone();
        std::panic::set_hook(Box::new(move |info| {
            seen.lock().unwrap().push(info.location().unwrap().file().to_string());
        }));
        assert!(catch_unwind(|| quaver::spawn(|| ())).is_err());
        assert!(catch_unwind(|| quaver::spawn_detached(|| ())).is_err());
        assert!(catch_unwind(|| quaver::scope(|s| drop(s.spawn(|| ())))).is_err());
        drop(std::panic::take_hook());
        assert_eq!(*places.lock().unwrap(), [file!(); 3]);
    });
}
