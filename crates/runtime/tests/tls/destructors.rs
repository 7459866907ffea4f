//! Destructors of thread-local variables.

use crate::support::drops::{Counted, Drops};
use crate::support::{Setup, spin};
use crate::{CONST, LAZY};
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

/// All destructors of a thread have run when `join` returns, on that thread, and see its other
/// variables.
#[test]
fn destructors_run_before_join_returns() {
    struct Last {
        value: Option<Counted>,
        ran_on: Arc<Mutex<Vec<quaver::thread::ThreadId>>>,
    }
    impl Drop for Last {
        fn drop(&mut self) {
            spin(200);
            CONST.set(CONST.get() + 1);
            self.ran_on.lock().unwrap().push(quaver::thread::current().unwrap().id());
            drop(self.value.take());
        }
    }
    thread_local! {
        static A: RefCell<Option<Last>> = const { RefCell::new(None) };
        static B: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    for setup in Setup::all() {
        setup.run(|| {
            let drops = Drops::default();
            let ran_on = Arc::new(Mutex::new(Vec::new()));
            let mut expected = Vec::new();
            for i in 0..200 {
                let last = || Some(Last { value: Some(drops.value()), ran_on: ran_on.clone() });
                let (a, b) = (last(), last());
                let t = quaver::spawn(move || {
                    A.set(a);
                    B.set(b);
                    if i % 3 == 0 {
                        resume_unwind(Box::new(()));
                    }
                });
                expected.extend([t.id(); 2]);
                assert_eq!(t.join().is_err(), i % 3 == 0);
                assert_eq!(drops.counts(), (2 * (i + 1), 2 * (i + 1)));
            }
            assert_eq!(*ran_on.lock().unwrap(), expected);
        });
    }
}

/// A destructor may start and join threads, wait, and use variables that were not used before.
#[test]
fn destructors_may_do_anything() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    struct Busy;
    impl Drop for Busy {
        fn drop(&mut self) {
            assert_eq!(quaver::spawn(|| 5).join().unwrap(), 5);
            quaver::yield_now();
            quaver::sleep(std::time::Duration::from_micros(50));
            LAZY.with_borrow_mut(|v| v.push(0));
            RAN.fetch_add(1, SeqCst);
        }
    }
    thread_local!(static BUSY: RefCell<Option<Busy>> = const { RefCell::new(None) });
    for setup in Setup::all() {
        let before = RAN.load(SeqCst);
        setup.run(|| {
            let threads: Vec<_> = (0..50).map(|_| quaver::spawn(|| BUSY.set(Some(Busy)))).collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
        assert_eq!(RAN.load(SeqCst) - before, 50);
    }
}
