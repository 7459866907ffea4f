//! Waiting for one of several channels, and asking threads to stop.

use crate::support::{Rng, Setup};
use quaver::sync::mpsc::{self, TryRecvError};
use quaver::sync::{CancelToken, Cancelled, Source, select, select_timeout};
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_millis(2);

#[test]
fn what_is_ready_is_found_at_once() {
    let (tx, rx) = mpsc::channel();
    let (full, bounded) = mpsc::sync_channel(1);
    let (gone, orphan) = mpsc::channel::<u8>();
    let token = CancelToken::new();
    let all: [&dyn Source; 4] = [&rx, &bounded, &orphan, &token];
    assert_eq!(select_timeout(&all, Duration::ZERO), None);
    tx.send(1).unwrap();
    assert_eq!((select(&all), rx.try_recv()), (0, Ok(1)));
    full.send('x').unwrap();
    assert_eq!((select(&all), bounded.try_recv()), (1, Ok('x')));
    drop(gone);
    assert_eq!((select(&all), orphan.try_recv()), (2, Err(TryRecvError::Disconnected)));
    token.cancel();
    assert_eq!(select(&[&rx, &token]), 1);
}

#[test]
fn nothing_to_wait_for() {
    assert!(catch_unwind(|| select(&[])).is_err());
    assert_eq!(select_timeout(&[], SHORT), None);
}

#[test]
fn everything_that_is_ready_gets_its_turn() {
    let (a, from_a) = mpsc::channel();
    let (b, from_b) = mpsc::channel();
    a.send(()).unwrap();
    b.send(()).unwrap();
    let mut seen = [0; 2];
    for _ in 0..1_000 {
        seen[select(&[&from_a, &from_b])] += 1;
    }
    assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
}

#[test]
fn a_timeout_ends_the_wait_and_leaves_no_trace() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let (tx, rx) = mpsc::channel();
            let token = CancelToken::new();
            for i in 0..20 {
                let start = Instant::now();
                assert_eq!(select_timeout(&[&rx, &token, &rx], SHORT), None);
                assert!(start.elapsed() >= SHORT);
                tx.send(i).unwrap();
                assert_eq!(rx.recv(), Ok(i));
            }
        });
    }
}

/// Senders on user threads and kernel threads, channels of all kinds; nothing is lost and nobody
/// sleeps for ever.
#[test]
fn everything_that_is_sent_is_received() {
    const EACH: usize = 300;
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let (a, from_a) = mpsc::channel();
            let (b, from_b) = mpsc::sync_channel(2);
            let (c, from_c) = mpsc::sync_channel(0);
            let pause = |rng: &mut Rng| {
                if rng.below(4) == 0 {
                    quaver::sleep(Duration::from_micros(rng.below(60)));
                }
            };
            let to_a = quaver::spawn(move || {
                let mut rng = Rng(1);
                for i in 0..EACH {
                    pause(&mut rng);
                    a.send(i).unwrap();
                }
            });
            let to_b = std::thread::spawn(move || {
                for i in 0..EACH {
                    b.send(i).unwrap();
                }
            });
            let to_c = quaver::spawn(move || {
                let mut rng = Rng(3);
                for i in 0..EACH {
                    pause(&mut rng);
                    c.send(i).unwrap();
                }
            });
            let all = [&from_a, &from_b, &from_c];
            let mut open = vec![0, 1, 2];
            let mut next = [0; 3];
            while !open.is_empty() {
                let sources: Vec<&dyn Source> =
                    open.iter().map(|&i| all[i] as &dyn Source).collect();
                let place = select_timeout(&sources, LONG).expect("lost");
                let i = open[place];
                match all[i].try_recv() {
                    Ok(value) => {
                        assert_eq!(value, next[i]);
                        next[i] += 1;
                    }
                    Err(TryRecvError::Disconnected) => drop(open.remove(place)),
                    Err(TryRecvError::Empty) => panic!("ready, and empty"),
                }
            }
            assert_eq!(next, [EACH; 3]);
            to_a.join().unwrap();
            to_b.join().unwrap();
            to_c.join().unwrap();
        });
    }
}

/// On a kernel thread, outside any runtime.
#[test]
fn kernel_threads_select() {
    let (tx, rx) = mpsc::sync_channel(0);
    let token = CancelToken::new();
    let sender = std::thread::spawn({
        let token = token.clone();
        move || {
            for i in 0..500 {
                tx.send(i).unwrap();
            }
            token.wait();
            tx.send(500).unwrap_err()
        }
    });
    for i in 0..500 {
        assert_eq!(select(&[&token, &rx]), 1);
        assert_eq!(rx.try_recv(), Ok(i));
    }
    assert_eq!(select_timeout(&[&token, &rx], SHORT), None);
    drop(rx);
    token.cancel();
    assert_eq!(sender.join().unwrap().0, 500);
}

#[test]
fn a_token_ends_all_waits_that_take_it() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let token = CancelToken::new();
            let sleepers: Vec<_> = (0..50)
                .map(|i| {
                    let token = token.clone();
                    quaver::spawn(move || {
                        let (_tx, rx) = mpsc::channel::<()>();
                        match i % 3 {
                            0 => token.sleep(LONG),
                            1 => Err(Cancelled).inspect_err(|_| token.wait()),
                            _ => [Ok(()), Err(Cancelled)][select(&[&rx, &token])],
                        }
                    })
                })
                .collect();
            assert_eq!(token.sleep(SHORT), Ok(()));
            assert!(!token.is_cancelled());
            token.cancel();
            token.cancel();
            for sleeper in sleepers {
                assert_eq!(sleeper.join().unwrap(), Err(Cancelled));
            }
            assert!(token.clone().is_cancelled());
            assert_eq!(token.sleep(LONG), Err(Cancelled));
        });
    }
}

/// Cancelling crosses with beginning to wait.
#[test]
fn no_cancellation_is_lost() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            for i in 0..1_000u64 {
                let token = CancelToken::new();
                let waits = {
                    let token = token.clone();
                    move || token.sleep(LONG)
                };
                let kernel = i % 10 == 0;
                let kernel_thread = kernel.then(|| std::thread::spawn(waits.clone()));
                let user_thread = quaver::spawn(waits);
                if i % 3 == 0 {
                    quaver::yield_now();
                }
                token.cancel();
                assert_eq!(user_thread.join().unwrap(), Err(Cancelled));
                if let Some(thread) = kernel_thread {
                    assert_eq!(thread.join().unwrap(), Err(Cancelled));
                }
            }
        });
    }
}
