//! More threads wait in the kernel than there may be kernel threads.

use crate::support::kernel::{InKernel, pipe};
use crate::support::{Setup, spin, until};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Far more threads wait in the kernel than may be handed over.
#[test]
fn more_waiting_threads_than_kernel_threads() {
    for setup in Setup::all() {
        setup.run_with(setup.builder().max_blocking(3), || {
            let (reading, read) = (AtomicUsize::new(0), AtomicUsize::new(0));
            quaver::scope(|s| {
                let mut writers: Vec<InKernel<PipeWriter>> = Vec::new();
                for i in 0..30u8 {
                    let (mut rx, tx) = pipe().unwrap();
                    writers.push(tx);
                    let (reading, read) = (&reading, &read);
                    s.spawn(move || {
                        let mut byte = [0];
                        reading.fetch_add(1, SeqCst);
                        rx.read_exact(&mut byte).unwrap();
                        assert_eq!(byte[0], i);
                        read.fetch_add(1, SeqCst);
                    });
                }
                until(|| reading.load(SeqCst) == 30, |_| _ = spin(300));
                for (i, tx) in writers.iter_mut().enumerate().rev() {
                    tx.write_all(&[i as u8]).unwrap();
                }
                until(|| read.load(SeqCst) == 30, |_| _ = spin(300));
            });
        });
    }
}

/// Those beyond the limit cost nothing while they wait, and are counted.
#[test]
fn waiting_beyond_the_limit_costs_nothing() {
    const THREADS: u64 = 40;
    for setup in Setup::clocks(1) {
        setup.run_built(setup.builder().max_blocking(3), |rt| {
            let pipes: Vec<_> = (0..THREADS).map(|_| pipe().unwrap()).collect();
            let (readers, mut writers): (Vec<InKernel<PipeReader>>, Vec<InKernel<PipeWriter>>) =
                pipes.into_iter().unzip();
            let readers = readers.into_iter().map(|mut rx| {
                rt.spawn(move || {
                    let mut byte = [0];
                    rx.read_exact(&mut byte).unwrap();
                    byte[0]
                })
            });
            let readers: Vec<_> = readers.collect();
            // The last one may keep the worker, which nobody wants.
            while rt.stats().blocked_now < THREADS - 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = rt.stats();
            assert!(before.blocking_limit_reached >= THREADS - 5, "{before:?}");
            std::thread::sleep(Duration::from_millis(200));
            let meanwhile = rt.stats().since(&before);
            assert!(meanwhile.switches <= 2, "{meanwhile:?}");
            for (i, tx) in writers.iter_mut().enumerate().rev() {
                tx.write_all(&[i as u8]).unwrap();
            }
            for (i, reader) in readers.into_iter().enumerate() {
                assert_eq!(usize::from(reader.join().unwrap()), i);
            }
            assert_eq!(rt.stats().blocked_now, 0);
        });
    }
}

/// A call that does not wait does not, and one with a limit ends by it, also beyond the limit of
/// kernel threads.
#[test]
fn calls_that_do_not_wait_beyond_the_limit() {
    for setup in Setup::all_clocks() {
        setup.run_with(setup.builder().max_blocking(1), || {
            let done = AtomicBool::new(false);
            let (rx, mut tx) = pipe().unwrap();
            quaver::scope(|s| {
                for _ in 0..3 {
                    let mut rx = InKernel(rx.0.try_clone().unwrap());
                    s.spawn(move || assert_eq!(rx.read(&mut [0]).unwrap(), 1));
                }
                for _ in 0..2 {
                    let done = &done;
                    s.spawn(move || {
                        let (one, _other) = UnixStream::pair().unwrap();
                        one.set_nonblocking(true).unwrap();
                        while !done.load(SeqCst) {
                            let error = (&one).read(&mut [0]).unwrap_err();
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        }
                    });
                }
                let (one, _other) = UnixStream::pair().unwrap();
                one.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                for _ in 0..20 {
                    let error = (&one).read(&mut [0]).unwrap_err();
                    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted));
                }
                done.store(true, SeqCst);
                tx.write_all(&[0; 3]).unwrap();
            });
        });
    }
}
