//! `Once`, `OnceLock` and `LazyLock` among kernel threads.

use quaver::sync::{LazyLock, Once, OnceLock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

const N: usize = 24;

/// Runs `f` on `N` threads that start together.
fn together<T: Send + 'static>(f: impl Fn() -> T + Send + Sync + 'static) -> Vec<T> {
    let shared = Arc::new((f, Barrier::new(N)));
    let threads: Vec<_> = (0..N)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.wait();
                (shared.0)()
            })
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

#[test]
fn runs_once_and_everybody_waits_for_it() {
    static ONCE: Once = Once::new();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let seen = together(|| {
        ONCE.call_once(|| {
            for _ in 0..20 {
                thread::yield_now();
            }
            RUNS.fetch_add(1, SeqCst);
        });
        RUNS.load(SeqCst)
    });
    assert_eq!(seen, [1; N]);
    assert!(ONCE.is_completed());
    ONCE.wait();
}

#[test]
fn a_panic_poisons_and_force_goes_on() {
    let once = Once::new();
    assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("on purpose")))).is_err());
    assert!(!once.is_completed());
    assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| ()))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| once.wait())).is_err());
    once.call_once_force(|state| assert!(state.is_poisoned()));
    once.call_once(|| unreachable!());
    once.wait_force();
    assert!(once.is_completed());
}

#[test]
fn waiting_for_another_thread() {
    let once = Arc::new(Once::new());
    let done = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let (once, done) = (once.clone(), done.clone());
            thread::spawn(move || {
                once.wait_force();
                done.load(SeqCst)
            })
        })
        .collect();
    // A failed run does not end the forced waits.
    assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("on purpose")))).is_err());
    once.call_once_force(|_| done.store(1, SeqCst));
    for t in threads {
        assert_eq!(t.join().unwrap(), 1);
    }
}

#[test]
fn one_closure_makes_the_value() {
    static CELL: OnceLock<usize> = OnceLock::new();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let values = together(|| {
        *CELL.get_or_init(|| {
            thread::yield_now();
            RUNS.fetch_add(1, SeqCst) + 41
        })
    });
    assert_eq!((values, RUNS.load(SeqCst)), (vec![41; N], 1));
}

#[test]
fn a_cell_that_failed_to_fill_stays_empty() {
    let cell = OnceLock::new();
    let failed = catch_unwind(AssertUnwindSafe(|| *cell.get_or_init(|| panic!("on purpose"))));
    assert!(failed.is_err());
    assert_eq!(cell.get(), None);
    assert_eq!(cell.get_or_init(|| 3), &3);
    assert_eq!(cell.wait(), &3);
}

#[test]
fn a_cell_drops_what_it_holds_once() {
    let counted = Arc::new(());
    let mut cell = OnceLock::new();
    drop(OnceLock::<Arc<()>>::new());
    cell.set(counted.clone()).unwrap();
    assert_eq!(cell.set(counted.clone()), Err(counted.clone()));
    assert_eq!(Arc::strong_count(&counted), 2);
    drop(cell.take());
    assert_eq!((Arc::strong_count(&counted), cell.get()), (1, None));
    cell.set(counted.clone()).unwrap();
    assert!(cell.get_mut().is_some() && cell.clone() == cell);
    drop(cell);
    assert_eq!(Arc::strong_count(&counted), 1);
    let cell = OnceLock::from(counted.clone());
    assert!(cell.into_inner().is_some());
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn cells_print() {
    let cell = OnceLock::new();
    assert_eq!(format!("{cell:?}"), "OnceLock(<uninit>)");
    cell.set(1).unwrap();
    assert_eq!(format!("{cell:?}"), "OnceLock(1)");
    let lazy: LazyLock<u8> = LazyLock::default();
    assert_eq!(format!("{lazy:?}"), "LazyLock(<uninit>)");
    assert_eq!((*lazy, format!("{lazy:?}")), (0, "LazyLock(0)".into()));
}

#[test]
fn a_lazy_value_is_made_at_first_use() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<usize> = LazyLock::new(|| RUNS.fetch_add(1, SeqCst) + 9);
    assert_eq!(RUNS.load(SeqCst), 0);
    assert_eq!(together(|| *LAZY), [9; N]);
    assert_eq!(RUNS.load(SeqCst), 1);
}

#[test]
fn a_lazy_value_that_panicked_panics_again() {
    let lazy = LazyLock::<u32, _>::new(|| panic!("on purpose"));
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| *LazyLock::force(&lazy))).is_err());
    }
}
