//! What goes into a thread, and what comes back.

use crate::support::drops::Drops;
use crate::support::{Rng, Setup, spin, with_runtime};
use quaver::Runtime;
use std::collections::HashSet;

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
