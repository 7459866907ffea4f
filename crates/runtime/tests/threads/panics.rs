//! Panics are carried to whoever joins.

use crate::support::drops::Drops;
use crate::support::setup::alone;
use crate::support::{Setup, quiet_expected_panics, with_runtime};
use quaver::Builder;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[derive(Debug, PartialEq)]
pub(crate) struct Payload(pub(crate) u32);

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
