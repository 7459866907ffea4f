//! Starting, joining and ending user threads, on every kind of runtime.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use quaver::{Builder, Handle, JoinHandle, Runtime, ShutDown};
use std::collections::HashSet;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use support::drops::{Counted, Drops};
use support::setup::{alone, with_leftover};
use support::{
    Rng, Setup, child, full, on_runtime, quiet_expected_panics, spin, until_preempted, with_runtime,
};

/// One worker, nothing ever preempted: what happens next is known.
fn cooperative() -> Builder {
    Builder::new().workers(1).quantum(None)
}

#[test]
fn results_come_back() {
    for setup in Setup::all() {
        setup.run(|| {
            let threads: Vec<_> = (0..200u64).map(|i| quaver::spawn(move || i * i)).collect();
            for (i, t) in (0..).zip(threads) {
                assert_eq!(t.join().unwrap(), i * i);
            }
        });
    }
}

#[test]
fn results_come_back_in_any_order() {
    for setup in Setup::all() {
        setup.run(|| {
            let mut rng = Rng(1);
            let mut threads: Vec<_> = (0..200u64)
                .map(|i| (i, quaver::spawn(move || spin(i * 20) ^ spin(i * 20) ^ i)))
                .collect();
            while !threads.is_empty() {
                let (i, t) = threads.swap_remove(rng.below(threads.len() as u64) as usize);
                assert_eq!(t.join().unwrap(), i);
            }
        });
    }
}

#[derive(Debug, PartialEq)]
struct Payload(u32);

#[test]
fn panics_are_carried_to_join() {
    quiet_expected_panics();
    for setup in Setup::all() {
        setup.run(|| {
            let text = quaver::spawn(|| -> u32 { panic!("{} (expected)", black_box(1)) })
                .join()
                .unwrap_err();
            assert_eq!(text.downcast_ref::<String>().unwrap(), "1 (expected)");
            let text = quaver::spawn(|| -> u32 { panic!("(expected)") }).join().unwrap_err();
            assert_eq!(*text.downcast_ref::<&str>().unwrap(), "(expected)");
            let own = quaver::spawn(|| -> u32 { resume_unwind(Box::new(Payload(7))) });
            assert_eq!(*own.join().unwrap_err().downcast::<Payload>().unwrap(), Payload(7));
            assert!(!std::thread::panicking());
        });
    }
}

#[test]
fn a_panic_is_carried_out_of_run() {
    for setup in Setup::clocks(1) {
        with_runtime(setup.builder(), |rt| {
            let panic =
                catch_unwind(AssertUnwindSafe(|| rt.run(|| resume_unwind(Box::new(Payload(3))))));
            assert_eq!(*panic.unwrap_err().downcast::<Payload>().unwrap(), Payload(3));
            assert_eq!(rt.run(|| 4), 4, "the runtime is as good as before");
        });
    }
}

#[test]
fn panics_unwind_the_stack() {
    for setup in Setup::all() {
        setup.run(|| {
            let drops = Drops::default();
            for _ in 0..50 {
                let inside = drops.clone();
                let t = quaver::spawn(move || {
                    let _a = inside.value();
                    let _b = Box::new(inside.value());
                    resume_unwind(Box::new(inside.value()))
                });
                drop(t.join().unwrap_err());
            }
            assert_eq!(drops.counts(), (150, 150));
        });
    }
}

/// Waits, without stopping others, until `done` says so.
fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..200_000_000u64 {
        if done() {
            return;
        }
        quaver::yield_now();
    }
    panic!("never done");
}

#[test]
fn detached_threads_run() {
    for setup in Setup::all() {
        println!("-- {setup}");
        let ran = Arc::new(AtomicUsize::new(0));
        let drops = Drops::default();
        // They may still be leaving their stacks when the last has counted.
        with_leftover(setup.builder(), |rt| {
            let (ran, drops) = (ran.clone(), drops.clone());
            rt.run(move || {
                for i in 0..300 {
                    let (ran, value) = (ran.clone(), drops.value());
                    let body = move || {
                        let _dropped_first = value;
                        ran.fetch_add(1, SeqCst);
                    };
                    match i % 3 {
                        0 => quaver::spawn_detached(body),
                        1 => drop(quaver::spawn(body)),
                        _ => Handle::current().unwrap().spawn_detached(body).unwrap(),
                    }
                }
                wait_until(|| ran.load(SeqCst) == 300 && drops.all_gone());
            });
        });
        assert_eq!(ran.load(SeqCst), 300);
        assert_eq!(drops.counts(), (300, 300));
    }
}

/// The closure, what it owns, and the result are dropped exactly once, whenever the handle goes
/// away.
#[test]
fn everything_is_dropped_once() {
    for setup in Setup::all() {
        println!("-- {setup}");
        let (closures, results) = (Drops::default(), Drops::default());
        with_leftover(setup.builder(), |rt| {
            rt.run(|| {
                let mut rng = Rng(2);
                for i in 0..400 {
                    let (owned, made) = (closures.value(), results.clone());
                    let work = rng.below(200);
                    let t = quaver::spawn(move || {
                        let _owned = owned;
                        spin(work);
                        let value = made.value();
                        if i % 5 == 0 { resume_unwind(Box::new(value)) } else { value }
                    });
                    match rng.below(4) {
                        0 => drop(t),
                        1 => {
                            wait_until(|| t.is_finished());
                            drop(t);
                        }
                        2 => drop(t.join()),
                        _ => {
                            quaver::yield_now();
                            drop(t);
                        }
                    }
                }
                wait_until(|| results.counts() == (400, 400) && closures.all_gone());
            });
        });
        assert_eq!(closures.counts(), (400, 400));
        assert_eq!(results.counts(), (400, 400));
    }
}

#[test]
fn names_and_numbers() {
    for setup in Setup::all() {
        setup.run(|| {
            assert_eq!(quaver::thread::current().unwrap().name().as_deref(), Some("main"));
            let threads: Vec<_> = (0..100)
                .map(|i| {
                    quaver::thread::Builder::new()
                        .name(format!("thread {i}"))
                        .spawn(move || {
                            let me = quaver::thread::current().unwrap();
                            assert_eq!(me.name(), Some(format!("thread {i}")));
                            spin(500);
                            me.id()
                        })
                        .unwrap()
                })
                .collect();
            let mut seen = HashSet::from([quaver::thread::current().unwrap().id()]);
            for t in threads {
                let id = t.id();
                assert_eq!(t.join().unwrap(), id);
                assert!(seen.insert(id), "{id:?} twice");
            }
            let unnamed = quaver::spawn(|| quaver::thread::current().unwrap().name());
            assert_eq!(unnamed.join().unwrap(), None, "not the name of an earlier thread");
        });
    }
    assert!(quaver::thread::current().is_none());
}

/// Closures and results of all sizes: on the new thread's stack, and, beyond a sixteenth of that,
/// in the heap.
#[test]
fn large_closures_and_results() {
    for setup in Setup::all() {
        println!("-- {setup}");
        // A closure is moved when it is called, and code without optimisation moves it several
        // times.
        let builder = setup.builder().stack_size(STACK);
        with_runtime(builder, |rt| {
            let drops = Drops::default();
            for i in 0..20u8 {
                round_trip::<1_000>(rt, i, &drops);
                round_trip::<{ STACK / 16 - 400 }>(rt, i, &drops);
                round_trip::<{ STACK / 16 + 400 }>(rt, i, &drops);
            }
            assert_eq!(drops.counts(), (120, 120));
        });
    }
}

const STACK: usize = 256 << 10;

fn round_trip<const N: usize>(rt: &Runtime, fill: u8, drops: &Drops) {
    // A large closure with a small result ...
    let (data, value) = ([fill; N], drops.value());
    let t = rt.spawn(move || {
        let _value = value;
        data.iter().all(|&b| b == fill)
    });
    assert!(t.join().unwrap());
    // ... and a small one with a large result, taken or not.
    let value = drops.value();
    let t = rt.spawn(move || (value, [fill; N]));
    if fill.is_multiple_of(2) {
        assert!(t.join().unwrap().1.iter().all(|&b| b == fill));
    } else {
        while !t.is_finished() {
            std::thread::yield_now();
        }
        drop(t);
    }
}

#[test]
fn over_aligned_closures_and_results() {
    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Line(u8);
    #[repr(align(4096))]
    #[derive(Clone, Copy)]
    struct Page(u8);
    // With its alignment more than a quarter of the stack.
    #[repr(align(32768))]
    #[derive(Clone, Copy)]
    struct Huge(u8);
    fn check<T: Copy + Send + 'static>(rt: &Runtime, x: T, first: fn(&T) -> u8) {
        fn aligned<T>(x: &T) {
            let at = std::ptr::from_ref(x) as usize;
            assert_eq!(at % align_of::<T>(), 0, "{at:#x}");
        }
        let expected = first(&x);
        let t = rt.spawn(move || {
            aligned(&x);
            first(&x)
        });
        assert_eq!(t.join().unwrap(), expected);
        let x = Box::new(x);
        let t = rt.spawn(move || {
            let y = *x;
            aligned(&y);
            y
        });
        let y = t.join().unwrap();
        aligned(&y);
        assert_eq!(first(&y), expected);
    }
    for setup in Setup::clocks(2) {
        setup.run_built(setup.builder().stack_size(4 * STACK), |rt| {
            for i in 0..20 {
                check(rt, Line(i), |x| x.0);
                check(rt, Page(i), |x| x.0);
                check(rt, Huge(i), |x| x.0);
            }
        });
    }
}

/// The stack pointer of a thread's code is aligned as the ABI demands, whatever lies above it.
#[test]
fn stacks_are_aligned() {
    fn aligned<const N: usize>() {
        #[repr(align(16))]
        struct Sixteen([u8; 16]);
        let odd = [1u8; N];
        let t = quaver::spawn(move || {
            let local = Sixteen(black_box([odd[0]; 16]));
            let at = black_box(&raw const local) as usize;
            assert_eq!(at % 16, 0);
            local.0[3]
        });
        assert_eq!(t.join().unwrap(), 1);
    }
    on_runtime(cooperative(), || {
        aligned::<1>();
        aligned::<7>();
        aligned::<8>();
        aligned::<17>();
        aligned::<40>();
    });
}

#[test]
fn the_smallest_stack_survives_preemption() {
    let smallest = quaver::platform::facts().min_stack_size;
    for setup in Setup::all() {
        setup.run_with(setup.builder().stack_size(smallest), || {
            quaver::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| until_preempted(setup.preemptions(100), |_| _ = spin(500)));
                }
            });
        });
    }
}

#[test]
fn scopes_borrow() {
    for setup in Setup::all() {
        setup.run(|| {
            let mut rows = vec![[1u64; 100]; 40];
            let sum = AtomicUsize::new(0);
            quaver::scope(|s| {
                for (i, row) in rows.iter_mut().enumerate() {
                    let sum = &sum;
                    s.spawn(move || {
                        row.iter_mut().for_each(|x| *x *= i as u64);
                        spin(300);
                        sum.fetch_add(row.iter().sum::<u64>() as usize, SeqCst);
                    });
                }
            });
            assert_eq!(sum.load(SeqCst), 100 * (0..40).sum::<usize>());
            assert!(rows.iter().enumerate().all(|(i, row)| row.iter().all(|&x| x == i as u64)));
        });
    }
}

#[test]
fn scopes_nest_and_return_borrows() {
    for setup in Setup::all() {
        setup.run(|| {
            let words = vec![String::from("a"), String::from("bb"), String::from("ccc")];
            let longest = quaver::scope(|s| {
                let halves = [&words[..2], &words[2..]].map(|half| {
                    s.spawn(move || {
                        quaver::scope(|inner| {
                            let threads: Vec<_> =
                                half.iter().map(|w| inner.spawn(move || w.as_str())).collect();
                            threads.into_iter().map(|t| t.join().unwrap()).max_by_key(|w| w.len())
                        })
                        .unwrap()
                    })
                });
                halves.map(|t| t.join().unwrap()).into_iter().max_by_key(|w| w.len())
            });
            assert_eq!(longest, Some("ccc"));
        });
    }
}

#[test]
fn panics_in_scopes() {
    quiet_expected_panics();
    for setup in Setup::all() {
        setup.run(|| {
            // Joined: the joiner's business.
            quaver::scope(|s| {
                let t = s.spawn(|| resume_unwind(Box::new(Payload(1))));
                assert_eq!(
                    *t.join().map(|()| ()).unwrap_err().downcast::<Payload>().unwrap(),
                    Payload(1)
                );
            });
            // Not joined: the scope panics, after all threads have ended.
            let others = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                quaver::scope(|s| {
                    s.spawn(|| panic!("(expected)"));
                    for _ in 0..10 {
                        s.spawn(|| {
                            spin(1000);
                            others.fetch_add(1, SeqCst)
                        });
                    }
                });
            }));
            let panic = result.unwrap_err();
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            assert_eq!(text.as_deref(), Some("a scoped user thread panicked"));
            assert_eq!(others.load(SeqCst), 10);
            // The body's own panic is carried on, after all threads have ended.
            others.store(0, SeqCst);
            let result = catch_unwind(AssertUnwindSafe(|| {
                quaver::scope(|s| {
                    for _ in 0..10 {
                        s.spawn(|| {
                            spin(1000);
                            others.fetch_add(1, SeqCst)
                        });
                    }
                    resume_unwind(Box::new(Payload(2)));
                });
            }));
            assert_eq!(*result.unwrap_err().downcast::<Payload>().unwrap(), Payload(2));
            assert_eq!(others.load(SeqCst), 10);
        });
    }
}

/// When `scope` returns, results that nobody took are gone: they could borrow from what is freed
/// next.
#[test]
fn a_scope_outlives_forgotten_results() {
    struct Borrows<'a>(&'a AtomicUsize);
    impl Drop for Borrows<'_> {
        fn drop(&mut self) {
            spin(200);
            self.0.fetch_add(1, SeqCst);
        }
    }
    for setup in Setup::all() {
        setup.run(|| {
            for round in 0..50 {
                let dropped = AtomicUsize::new(0);
                quaver::scope(|s| {
                    for i in 0..8 {
                        let dropped = &dropped;
                        let t = s.spawn(move || {
                            spin(i * 50);
                            Borrows(dropped)
                        });
                        if round % 2 == 0 {
                            drop(t);
                        } else {
                            let _until_the_end_of_the_closure = t;
                        }
                    }
                });
                assert_eq!(dropped.load(SeqCst), 8);
            }
        });
    }
}

#[test]
fn a_scope_on_a_kernel_thread() {
    for setup in Setup::clocks(1) {
        with_runtime(setup.builder(), |_| {
            let mut values = [0u32; 20];
            quaver::scope(|s| {
                for (i, v) in (0..).zip(&mut values) {
                    s.spawn(move || *v = i);
                }
            });
            assert!((0..).zip(values).all(|(i, v)| i == v));
        });
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let a = quaver::spawn(move || fib(n - 1));
    let b = quaver::spawn(move || fib(n - 2));
    a.join().unwrap() + b.join().unwrap()
}

#[test]
fn trees_of_threads() {
    for setup in Setup::all() {
        setup.run(|| assert_eq!(fib(15), 610));
    }
}

/// Many threads that all exist at a time, blocked.
#[test]
fn a_hundred_thousand_threads() {
    let n = if full() { 100_000 } else { 20_000 };
    for setup in Setup::clocks(2) {
        setup.run_with(setup.builder().stack_size(32 * 1024), move || {
            let gate = Arc::new((Mutex::new(false), Condvar::new()));
            let inside = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..n)
                .map(|i| {
                    let (gate, inside) = (gate.clone(), inside.clone());
                    quaver::spawn(move || {
                        inside.fetch_add(1, SeqCst);
                        let mut open = gate.0.lock().unwrap();
                        while !*open {
                            open = gate.1.wait(open).unwrap();
                        }
                        drop(open);
                        i
                    })
                })
                .collect();
            wait_until(|| inside.load(SeqCst) == n);
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
            let sum: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
            assert_eq!(sum, n * (n - 1) / 2);
        });
    }
    let short = || {
        for _ in 0..100_000 / 50 {
            let batch: Vec<_> = (0..50u32).map(|i| quaver::spawn(move || i)).collect();
            assert_eq!(batch.into_iter().map(|t| t.join().unwrap()).sum::<u32>(), 1225);
        }
    };
    for setup in Setup::clocks(1) {
        setup.run(short);
    }
}

#[test]
fn the_limit_of_threads_is_an_error() {
    quiet_expected_panics();
    for setup in Setup::clocks(1) {
        setup.run_with(setup.builder().max_threads(8), || {
            let drops = Drops::default();
            let block = Arc::new(Mutex::new(()));
            for _round in 0..3 {
                let held = block.lock().unwrap();
                let threads: Vec<_> = (0..7)
                    .map(|_| {
                        let (block, value) = (block.clone(), drops.value());
                        quaver::spawn(move || {
                            drop(block.lock().unwrap());
                            drop(value);
                        })
                    })
                    .collect();
                let value = drops.value();
                let e = quaver::thread::Builder::new().spawn(move || drop(value)).unwrap_err();
                let text = e.to_string();
                assert!(text.contains("limit of 8") && text.contains("max_threads"), "{text}");
                let value = drops.value();
                let panic = catch_unwind(AssertUnwindSafe(|| quaver::spawn(move || drop(value))));
                let panic = panic.map(drop).unwrap_err();
                let text = panic.downcast_ref::<String>().unwrap();
                assert!(text.contains("cannot spawn") && text.contains("max_threads"), "{text}");
                assert!(quaver::is_preemptible(), "a failed spawn leaves no region open");
                drop(held);
                threads.into_iter().for_each(|t| t.join().unwrap());
            }
            assert_eq!(drops.counts(), (27, 27));
        });
    }
}

/// Threads that yield take turns, strictly.
#[test]
fn yielding_is_fair() {
    const THREADS: usize = 5;
    const ROUNDS: usize = 2_000;
    for policy in ["two-queue", "rr", "fifo", "ws"] {
        let log = on_runtime(cooperative().policy_str(policy).quantum(None), || {
            let log = Arc::new(Mutex::new(Vec::new()));
            let threads: Vec<_> = (0..THREADS)
                .map(|i| {
                    let log = log.clone();
                    quaver::spawn(move || {
                        for _ in 0..ROUNDS {
                            log.lock().unwrap().push(i);
                            quaver::yield_now();
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            std::mem::take(&mut *log.lock().unwrap())
        });
        assert_eq!(log.len(), THREADS * ROUNDS);
        let mut turns = [0usize; THREADS];
        for i in log {
            turns[i] += 1;
            let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
            assert!(most - least <= 2, "{policy}: {turns:?}");
        }
    }
}

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

#[test]
fn without_fsgsbase() {
    if child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}

/// A thread that waits for its own end is told so.
#[test]
fn joining_oneself_panics() {
    on_runtime(Builder::new().workers(1), || {
        let (sender, receiver) = quaver::sync::oneshot::channel();
        let (done, told) = quaver::sync::oneshot::channel();
        let me = quaver::spawn(move || {
            let me: quaver::JoinHandle<()> = receiver.recv().unwrap();
            let joined = catch_unwind(AssertUnwindSafe(|| me.join()));
            done.send(joined.is_err()).unwrap();
        });
        sender.send(me).unwrap();
        assert!(told.recv().unwrap());
    });
}

/// A result whose destructor panics when the handle is dropped does not keep its thread.
#[test]
fn a_result_that_panics_when_it_is_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let leftover = alone(|| {
        let rt = Builder::new().workers(1).build().unwrap();
        rt.run(|| {
            for _ in 0..3 {
                let handle = quaver::spawn(|| Bomb);
                while !handle.is_finished() {
                    quaver::yield_now();
                }
                assert!(catch_unwind(AssertUnwindSafe(|| drop(handle))).is_err());
            }
        });
        rt.shutdown()
    });
    assert_eq!(leftover.threads, 0);
}

/// A scope of a kernel thread ends when the runtime has been shut down under it.
#[test]
fn a_scope_outlives_its_runtime() {
    alone(|| {
        let rt = Builder::new().workers(1).build().unwrap();
        let (started, is_started) = std::sync::mpsc::channel();
        let owner = std::thread::spawn(move || {
            let number = AtomicUsize::new(0);
            quaver::scope(|s| {
                s.spawn(|| {
                    started.send(()).unwrap();
                    loop {
                        number.fetch_add(1, SeqCst);
                        quaver::sleep(Duration::from_millis(1));
                    }
                });
            });
        });
        is_started.recv().unwrap();
        assert_eq!(rt.shutdown().threads, 1);
        assert!(owner.join().is_err());
    });
}
