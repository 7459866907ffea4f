//! Channels: full, empty, closed.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use quaver::sync::{mpsc, oneshot};

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("channel-send", send),
    Scenario::new("channel-receive", receive),
    Scenario::new("channel-bounded", bounded),
    Scenario::new("channel-close", close),
    Scenario::new("std-channel", std_channel),
    Scenario::new("oneshot", one),
];

fn sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, mix)
}

fn send() -> u64 {
    let (tx, rx) = mpsc::channel();
    let receiver = quaver::spawn(move || sum(rx));
    quaver::yield_now();
    step(|| (0..3).for_each(|i| tx.send(i).unwrap_or_default()));
    drop(tx);
    receiver.join().unwrap_or(0)
}

fn receive() -> u64 {
    let (tx, rx) = mpsc::channel();
    let sender = quaver::spawn(move || {
        for i in 0..3 {
            quaver::yield_now();
            tx.send(i).unwrap_or_default();
        }
    });
    let sum = step(|| sum(&rx));
    sender.join().map_or(0, |()| sum)
}

fn bounded() -> u64 {
    let (tx, rx) = mpsc::sync_channel(1);
    let receiver = quaver::spawn(move || {
        quaver::yield_now();
        sum(rx)
    });
    step(|| (0..4).for_each(|i| tx.send(i).unwrap_or_default()));
    drop(tx);
    receiver.join().unwrap_or(0)
}

fn close() -> u64 {
    let (tx, rx) = mpsc::channel::<Box<u64>>();
    tx.send(Box::new(1)).unwrap_or_default();
    let other = tx.clone();
    let refused = step(|| {
        drop(rx);
        tx.send(Box::new(2)).is_err()
    });
    u64::from(refused) + 2 * u64::from(other.send(Box::new(3)).is_err())
}

fn std_channel() -> u64 {
    let (tx, rx) = std::sync::mpsc::channel();
    let sender = quaver::spawn(move || {
        for i in 0..2 {
            quaver::yield_now();
            tx.send(i).unwrap_or_default();
        }
    });
    let sum = step(|| sum(&rx));
    sender.join().map_or(0, |()| sum)
}

fn one() -> u64 {
    let (tx, rx) = oneshot::channel();
    let (back, answer) = oneshot::channel();
    let peer = quaver::spawn(move || back.send(rx.recv().unwrap_or(0) + 1).is_ok());
    let value = step(|| {
        tx.send(4u64).unwrap_or_default();
        answer.recv().unwrap_or(0)
    });
    value + 10 * u64::from(peer.join().unwrap_or(false))
}
