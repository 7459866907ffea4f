//! Channels: nothing is lost, doubled, leaked, or waited for in vain.

use super::{explore, explore_crowd, join};
use crate::sync::mpsc::{self, RecvTimeoutError, SendError};
use crate::sync::oneshot;
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

#[test]
fn two_senders_and_a_disconnect() {
    explore_crowd(3, || {
        let (tx, rx) = mpsc::channel();
        let ts = [1, 2].map(|v| {
            let tx = tx.clone();
            thread::spawn(move || tx.send(v).unwrap())
        });
        drop(tx);
        assert_eq!(rx.iter().sum::<u32>(), 3);
        join(ts);
    });
}

#[test]
fn a_value_is_not_lost_in_a_timeout() {
    explore(6, || {
        let (tx, rx) = mpsc::channel();
        let t = thread::spawn(move || tx.send(7).unwrap());
        match rx.recv_timeout(Duration::ZERO) {
            Ok(v) => assert_eq!(v, 7),
            Err(RecvTimeoutError::Timeout) => assert_eq!(rx.recv(), Ok(7)),
            Err(RecvTimeoutError::Disconnected) => unreachable!(),
        }
        t.join().unwrap();
        assert!(rx.recv().is_err());
    });
}

/// Loom's `Arc` reports the value if it leaks.
#[test]
fn unreceived_values_are_dropped() {
    explore(6, || {
        for capacity in [None, Some(1)] {
            let value = Arc::new(());
            let (send, rx): (Box<dyn FnOnce(Arc<()>) + Send>, _) = match capacity {
                None => {
                    let (tx, rx) = mpsc::channel();
                    (Box::new(move |v| drop(tx.send(v))), rx)
                }
                Some(n) => {
                    let (tx, rx) = mpsc::sync_channel(n);
                    (Box::new(move |v| drop(tx.send(v))), rx)
                }
            };
            let t = thread::spawn({
                let value = value.clone();
                move || send(value)
            });
            drop(rx);
            t.join().unwrap();
            assert!(Arc::try_unwrap(value).is_ok());
        }
    });
}

#[test]
fn rendezvous_hands_over_or_gives_back() {
    explore(6, || {
        let (tx, rx) = mpsc::sync_channel(0);
        let t = thread::spawn(move || (tx.send(1), tx.send(2)));
        assert_eq!(rx.recv(), Ok(1));
        drop(rx);
        assert_eq!(t.join().unwrap(), (Ok(()), Err(SendError(2))));
    });
}

#[test]
fn senders_that_wait_for_room() {
    explore_crowd(3, || {
        let (tx, rx) = mpsc::sync_channel(1);
        let ts = [1, 2].map(|v| {
            let tx = tx.clone();
            thread::spawn(move || tx.send(v).unwrap())
        });
        drop(tx);
        assert_eq!(rx.iter().sum::<u32>(), 3);
        join(ts);
    });
}

#[test]
fn oneshot_sends() {
    explore(6, || {
        let (tx, rx) = oneshot::channel();
        let t = thread::spawn(move || tx.send(5).unwrap());
        assert_eq!(rx.recv(), Ok(5));
        t.join().unwrap();
    });
}

#[test]
fn oneshot_timeout_then_value_or_disconnect() {
    explore(6, || {
        for send in [true, false] {
            let value = Arc::new(());
            let (tx, mut rx) = oneshot::channel();
            let t = thread::spawn({
                let value = value.clone();
                move || {
                    if send {
                        tx.send(value).unwrap();
                    }
                }
            });
            match rx.recv_timeout(Duration::ZERO) {
                Err(RecvTimeoutError::Timeout) => assert_eq!(rx.recv().is_ok(), send),
                early => assert_eq!(early.is_ok(), send),
            }
            t.join().unwrap();
        }
    });
}

#[test]
fn oneshot_receiver_leaves() {
    explore(6, || {
        let value = Arc::new(());
        let (tx, mut rx) = oneshot::channel();
        let t = thread::spawn({
            let value = value.clone();
            move || drop(tx.send(value))
        });
        let _ = rx.recv_timeout(Duration::ZERO);
        drop(rx);
        t.join().unwrap();
        assert!(Arc::try_unwrap(value).is_ok());
    });
}
