//! Handles that are dropped, and what their threads own.

use crate::support::drops::Drops;
use crate::support::setup::with_leftover;
use crate::support::{Rng, Setup, on_runtime, spin};
use crate::wait_until;
use quaver::{Builder, Handle};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

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
