//! One-time execution.

use super::{explore, explore_crowd, join};
use crate::sync::{Once, OnceLock};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

#[test]
fn runs_once_and_publishes() {
    explore_crowd(1, || {
        let s = Arc::new((Once::new(), AtomicU32::new(0)));
        let call = |s: &(Once, AtomicU32)| {
            s.0.call_once(|| {
                let v = s.1.load(Relaxed);
                s.1.store(v + 1, Relaxed);
            });
            assert_eq!(s.1.load(Relaxed), 1);
        };
        let ts = [0, 1].map(|_| {
            let s = s.clone();
            thread::spawn(move || call(&s))
        });
        call(&s);
        join(ts);
    });
}

#[test]
fn a_waiter_sees_the_end() {
    explore(4, || {
        let s = Arc::new((Once::new(), AtomicU32::new(0)));
        let t = thread::spawn({
            let s = s.clone();
            move || s.0.call_once(|| s.1.store(1, Relaxed))
        });
        s.0.wait();
        assert_eq!(s.1.load(Relaxed), 1);
        t.join().unwrap();
    });
}

#[test]
fn waiting_for_the_value() {
    explore_crowd(1, || {
        let cell = Arc::new(OnceLock::new());
        let waiter = thread::spawn({
            let cell = cell.clone();
            move || *cell.wait()
        });
        let setter = thread::spawn({
            let cell = cell.clone();
            move || cell.set(1).is_ok()
        });
        let won = cell.set(2).is_ok();
        assert_ne!(setter.join().unwrap(), won);
        assert_eq!(waiter.join().unwrap(), if won { 2 } else { 1 });
    });
}
