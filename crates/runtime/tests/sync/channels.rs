//! `mpsc` and `oneshot` among kernel threads.

use quaver::sync::mpsc::{
    self, Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError,
    TrySendError,
};
use quaver::sync::oneshot;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Each producer's values arrive complete and in order.
fn check_producers<T: Clone + Send + 'static>(
    (tx, rx): (T, Receiver<(usize, usize)>),
    send: fn(&T, (usize, usize)),
    producers: usize,
    each: usize,
) {
    let start = |p| {
        let tx = tx.clone();
        thread::spawn(move || (0..each).for_each(|i| send(&tx, (p, i))))
    };
    let threads: Vec<_> = (0..producers).map(start).collect();
    drop(tx);
    let mut next = vec![0; producers];
    for (p, i) in rx {
        assert_eq!(i, next[p]);
        next[p] += 1;
    }
    assert_eq!(next, vec![each; producers]);
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn many_producers() {
    check_producers(mpsc::channel(), |tx, value| tx.send(value).unwrap(), 8, 2_000);
}

#[test]
fn many_producers_and_little_room() {
    for capacity in [0, 1, 7] {
        let channel = mpsc::sync_channel(capacity);
        check_producers(channel, |tx, value| tx.send(value).unwrap(), 4, 500);
    }
}

#[test]
fn disconnects_are_reported_on_both_sides() {
    let (tx, rx) = mpsc::channel();
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    tx.send(1).unwrap();
    let other = tx.clone();
    drop(tx);
    other.send(2).unwrap();
    drop(other);
    assert_eq!((rx.recv(), rx.try_recv()), (Ok(1), Ok(2)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(rx.recv(), Err(RecvError));
    assert_eq!(rx.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));

    let (tx, rx) = mpsc::channel();
    drop(rx);
    assert_eq!(tx.send(3), Err(SendError(3)));

    let (tx, rx) = mpsc::sync_channel(1);
    drop(rx);
    assert_eq!(tx.send(4), Err(SendError(4)));
    assert_eq!(tx.try_send(5), Err(TrySendError::Disconnected(5)));
}

#[test]
fn the_last_sender_wakes_a_waiting_receiver() {
    let (tx, rx) = mpsc::channel::<()>();
    let (stx, srx) = mpsc::sync_channel::<()>(3);
    let waiting = thread::spawn(move || (rx.recv(), srx.recv()));
    drop(tx);
    drop(stx);
    assert_eq!(waiting.join().unwrap(), (Err(RecvError), Err(RecvError)));
}

#[test]
fn a_full_channel_refuses_or_waits() {
    let (tx, rx) = mpsc::sync_channel(2);
    tx.try_send(1).unwrap();
    tx.send(2).unwrap();
    assert_eq!(tx.try_send(3), Err(TrySendError::Full(3)));
    let sender = thread::spawn(move || tx.send(4).unwrap());
    assert_eq!(rx.iter().collect::<Vec<_>>(), [1, 2, 4]);
    sender.join().unwrap();
}

#[test]
fn a_rendezvous_needs_a_waiting_receiver() {
    let (tx, rx) = mpsc::sync_channel(0);
    assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    let receiver = thread::spawn(move || (rx.recv(), rx));
    // Succeeds once the receiver waits, and not before.
    while tx.try_send(7).is_err() {
        thread::yield_now();
    }
    let (got, rx) = receiver.join().unwrap();
    assert_eq!(got, Ok(7));
    let sender = thread::spawn(move || tx.send(8));
    loop {
        match rx.try_recv() {
            Ok(v) => break assert_eq!(v, 8),
            Err(TryRecvError::Empty) => thread::yield_now(),
            Err(TryRecvError::Disconnected) => panic!("the value is lost"),
        }
    }
    sender.join().unwrap().unwrap();
}

#[test]
fn a_timed_receive_waits_at_least_so_long() {
    let (tx, rx) = mpsc::channel();
    let (stx, srx) = mpsc::sync_channel::<i32>(0);
    let wait = Duration::from_millis(15);
    for rx in [&rx, &srx] {
        let start = Instant::now();
        assert_eq!(rx.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        assert!(start.elapsed() >= wait);
    }
    tx.send(1).unwrap();
    assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(1));
    // The receiver that timed out is not waiting any more.
    assert_eq!(stx.try_send(2), Err(TrySendError::Full(2)));
}

#[test]
fn timed_receives_lose_nothing() {
    const N: u32 = 2_000;
    for capacity in [None, Some(0), Some(1)] {
        let (rx, sender) = match capacity {
            None => {
                let (tx, rx) = mpsc::channel();
                (rx, thread::spawn(move || (0..N).for_each(|i| tx.send(i).unwrap())))
            }
            Some(n) => {
                let (tx, rx) = mpsc::sync_channel(n);
                (rx, thread::spawn(move || (0..N).for_each(|i| tx.send(i).unwrap())))
            }
        };
        let mut next = 0;
        loop {
            match rx.recv_timeout(Duration::from_micros(u64::from(next % 7))) {
                Ok(v) => {
                    assert_eq!(v, next);
                    next += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        assert_eq!(next, N);
        sender.join().unwrap();
    }
}

#[test]
fn unreceived_values_are_dropped_once() {
    let counted = Arc::new(());
    let (tx, rx) = mpsc::channel();
    let (stx, srx) = mpsc::sync_channel(5);
    for _ in 0..100 {
        tx.send(counted.clone()).unwrap();
    }
    for _ in 0..5 {
        stx.send(counted.clone()).unwrap();
    }
    drop(rx.recv());
    drop(srx.recv());
    assert_eq!(Arc::strong_count(&counted), 1 + 99 + 4);
    drop(rx);
    drop(srx);
    assert_eq!(Arc::strong_count(&counted), 1);
    // The channels themselves live on with their senders.
    drop(tx.send(counted.clone()));
    drop(stx.try_send(counted.clone()));
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn a_sender_that_waits_gets_its_value_back() {
    let counted = Arc::new(());
    let (tx, rx) = mpsc::sync_channel(0);
    let sender = thread::spawn({
        let value = counted.clone();
        move || tx.send(value)
    });
    drop(rx);
    let SendError(value) = sender.join().unwrap().unwrap_err();
    assert_eq!(Arc::strong_count(&counted), 2);
    drop(value);
    assert_eq!(Arc::strong_count(&counted), 1);
}

/// A value's destructor may use the channel that drops it.
#[test]
fn destructors_run_outside_the_lock() {
    struct Sends(mpsc::Sender<Option<Sends>>);
    impl Drop for Sends {
        fn drop(&mut self) {
            assert!(self.0.send(None).is_err());
        }
    }
    let (tx, rx) = mpsc::channel();
    tx.send(Some(Sends(tx.clone()))).unwrap();
    drop(rx);
}

#[test]
fn iterators() {
    let (tx, rx) = mpsc::channel();
    for i in 0..4 {
        tx.send(i).unwrap();
    }
    assert!(rx.try_iter().eq(0..4));
    tx.send(9).unwrap();
    drop(tx);
    assert_eq!((&rx).into_iter().next(), Some(9));
    assert_eq!(rx.into_iter().next(), None);
}

#[test]
fn large_values_and_values_without_size() {
    let (tx, rx) = mpsc::sync_channel(1);
    let sender = thread::spawn(move || (0..20u8).for_each(|i| tx.send([i; 4096]).unwrap()));
    assert!(rx.iter().eq((0..20u8).map(|i| [i; 4096])));
    sender.join().unwrap();
    let (tx, rx) = mpsc::channel();
    let sender = thread::spawn(move || (0..100).for_each(|_| tx.send(()).unwrap()));
    assert_eq!(rx.iter().count(), 100);
    sender.join().unwrap();
}

#[test]
fn oneshot_passes_its_value() {
    for _ in 0..200 {
        let (tx, rx) = oneshot::channel();
        let sender = thread::spawn(move || tx.send(String::from("value")).unwrap());
        assert_eq!(rx.recv().as_deref(), Ok("value"));
        sender.join().unwrap();
    }
}

#[test]
fn oneshot_disconnects() {
    let (tx, rx) = oneshot::channel::<u8>();
    assert!(!tx.is_closed());
    drop(rx);
    assert!(tx.is_closed());
    assert_eq!(tx.send(1), Err(SendError(1)));

    let (tx, mut rx) = oneshot::channel::<u8>();
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    let waiting = thread::spawn(move || {
        let result = rx.recv_timeout(Duration::MAX);
        (result, rx.try_recv())
    });
    drop(tx);
    let gone = (Err(RecvTimeoutError::Disconnected), Err(TryRecvError::Disconnected));
    assert_eq!(waiting.join().unwrap(), gone);
}

#[test]
fn oneshot_can_be_asked_again_after_a_timeout() {
    let (tx, mut rx) = oneshot::channel();
    let wait = Duration::from_millis(10);
    let start = Instant::now();
    assert_eq!(rx.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
    assert!(start.elapsed() >= wait);
    tx.send(2).unwrap();
    assert_eq!(rx.recv_timeout(wait), Ok(2));
    assert_eq!(rx.recv_timeout(wait), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn oneshot_drops_its_value_once() {
    let counted = Arc::new(());
    let (tx, rx) = oneshot::channel();
    tx.send(counted.clone()).unwrap();
    assert_eq!(Arc::strong_count(&counted), 2);
    drop(rx);
    assert_eq!(Arc::strong_count(&counted), 1);

    let (tx, mut rx) = oneshot::channel();
    tx.send(counted.clone()).unwrap();
    let value = rx.try_recv().unwrap();
    drop(rx);
    assert_eq!(Arc::strong_count(&counted), 2);
    drop(value);

    let (tx, rx) = oneshot::channel();
    drop(rx);
    drop(tx.send(counted.clone()));
    assert_eq!(Arc::strong_count(&counted), 1);
}

/// Each value is received once or comes back to its sender, with room for none and for one.
#[test]
fn sends_with_a_timeout_lose_nothing() {
    const EACH: usize = 300;
    for capacity in [0, 1] {
        let (tx, rx) = mpsc::sync_channel(capacity);
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let tx = tx.clone();
                thread::spawn(move || {
                    let send = |n: usize| match tx
                        .send_timeout(i * EACH + n, Duration::from_micros(n as u64 % 9 * 10))
                    {
                        Ok(()) => true,
                        Err(SendTimeoutError::Timeout(back)) => {
                            assert_eq!(back, i * EACH + n);
                            false
                        }
                        Err(SendTimeoutError::Disconnected(_)) => unreachable!(),
                    };
                    (0..EACH).filter(|&n| send(n)).count()
                })
            })
            .collect();
        drop(tx);
        let mut received: Vec<_> = rx.iter().inspect(|_| thread::yield_now()).collect();
        let sent: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(received.len(), sent);
        received.sort_unstable();
        received.dedup();
        assert_eq!(received.len(), sent);
    }
    let (tx, rx) = mpsc::sync_channel(0);
    drop(rx);
    let gone = tx.send_timeout(7, Duration::from_millis(1));
    assert_eq!(gone, Err(SendTimeoutError::Disconnected(7)));
}
