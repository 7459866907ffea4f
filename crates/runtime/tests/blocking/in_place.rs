//! `block_in_place`.

use crate::support::{Setup, on_runtime, spin, stats};
use quaver::Builder;
use std::io::{Read, Write, pipe};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

#[test]
fn block_in_place_gives_the_worker_away() {
    for setup in Setup::all() {
        setup.run(|| {
            for i in 0..20u8 {
                let (mut rx, mut tx) = pipe().unwrap();
                let waits = quaver::spawn(move || {
                    quaver::block_in_place(|| {
                        let mut byte = [0];
                        rx.read_exact(&mut byte).unwrap();
                        byte[0]
                    })
                });
                let writes = quaver::spawn(move || tx.write_all(&[i]).unwrap());
                assert_eq!(waits.join().unwrap(), i);
                writes.join().unwrap();
            }
            // All at a time.
            let (mut writers, mut waiting) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let (mut rx, tx) = pipe().unwrap();
                writers.push(tx);
                waiting.push(quaver::spawn(move || {
                    quaver::block_in_place(|| rx.read(&mut [0]).unwrap())
                }));
            }
            quaver::yield_now();
            drop(writers);
            waiting.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), 0));
            assert!(stats().handovers >= 40);
        });
    }
}

/// Without a clock nobody else would get the only worker.
#[test]
fn block_in_place_needs_no_clock() {
    on_runtime(Builder::new().workers(1).quantum(None), || {
        let (mut outer, mut inner): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for i in 0..20u8 {
            let (mut rx, tx) = pipe().unwrap();
            inner.push(tx);
            outer.push(quaver::spawn(move || {
                let mut byte = [0];
                quaver::block_in_place(|| rx.read_exact(&mut byte)).unwrap();
                assert_eq!(byte[0], i);
            }));
        }
        let writes = quaver::spawn(move || {
            for (i, mut tx) in inner.into_iter().enumerate().rev() {
                tx.write_all(&[i as u8]).unwrap();
            }
        });
        outer.into_iter().for_each(|t| t.join().unwrap());
        writes.join().unwrap();
        assert!(stats().handovers >= 20);
    });
}

/// What nests or waits inside does not end a call: others still run while the outer one blocks.
#[test]
fn block_in_place_nests_and_waits() {
    type Inside = fn();
    let insides: [Inside; 3] = [
        || quaver::block_in_place(|| ()),
        || quaver::sleep(Duration::from_micros(100)),
        quaver::yield_now,
    ];
    for inside in insides {
        // Without a quantum nobody else gives the worker away soon.
        on_runtime(Builder::new().workers(1).quantum(None), || {
            let (mut reader, mut writer) = pipe().unwrap();
            // Runs while the other is blocked, and ends that.
            let other = quaver::spawn(move || {
                quaver::sleep(Duration::from_millis(1));
                writer.write_all(&[1]).unwrap();
            });
            quaver::block_in_place(|| {
                inside();
                let me = quaver::foreign::thread::current().unwrap();
                assert_eq!(me.runs_on(), None, "it has a worker");
                reader.read_exact(&mut [0]).unwrap();
            });
            other.join().unwrap();
        });
    }
}

/// Whatever is done inside.
#[test]
fn block_in_place_allows_everything() {
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4u64 {
                    s.spawn(move || {
                        for k in 0..10 {
                            let n = quaver::block_in_place(|| {
                                let t = quaver::spawn(move || spin(i * k * 10) & 0 | k);
                                quaver::yield_now();
                                let inner = quaver::block_in_place(|| quaver::block_in_place(|| k));
                                quaver::sleep(Duration::from_micros(k));
                                let region = quaver::no_preempt(|| quaver::block_in_place(|| 1));
                                t.join().unwrap() + inner + region
                            });
                            assert_eq!(n, 2 * k + 1);
                            let panic = catch_unwind(AssertUnwindSafe(|| {
                                quaver::block_in_place(|| resume_unwind(Box::new(i)))
                            }));
                            assert_eq!(
                                *panic.map(|()| ()).unwrap_err().downcast::<u64>().unwrap(),
                                i
                            );
                            assert!(quaver::is_preemptible());
                        }
                    });
                }
            });
        });
    }
}
