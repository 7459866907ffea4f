//! Scopes: threads that borrow.

use crate::panics::Payload;
use crate::support::setup::alone;
use crate::support::{Setup, quiet_expected_panics, spin, with_runtime};
use quaver::Builder;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

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

/// A scope of a kernel thread ends when the runtime has been shut down under it.
#[test]
fn a_scope_outlives_its_runtime() {
    alone(|| {
        let rt = Builder::new().workers(1).build().unwrap();
        // No channel: the thread may be stopped with a channel's lock, for which the owner would
        // wait when it drops the sender.
        let started = Arc::new(AtomicBool::new(false));
        let is_started = started.clone();
        let owner = std::thread::spawn(move || {
            let number = AtomicUsize::new(0);
            quaver::scope(|s| {
                s.spawn(|| {
                    started.store(true, SeqCst);
                    loop {
                        number.fetch_add(1, SeqCst);
                        quaver::sleep(Duration::from_millis(1));
                    }
                });
            });
        });
        while !is_started.load(SeqCst) {
            std::thread::yield_now();
        }
        assert_eq!(rt.shutdown().threads, 1);
        assert!(owner.join().is_err());
    });
}
