//! Both ends of a ring, in memory of our own: the other one plays the kernel.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::thread;

use proptest::prelude::*;

use super::*;

const LEN: u32 = 8;

/// Both ends of a ring whose indices begin at `start`: the same memory, mapped twice.
fn pair(start: u32) -> (Producer<u64>, Consumer<u64>) {
    let layout = Layout { producer: 0, consumer: 64, entries: 128, flags: 4 };
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    let view = || Ring::<u64>::map(file.as_fd(), 0, layout, LEN).unwrap();
    for at in [0, 64] {
        view().word(at).store(start, Ordering::Relaxed);
    }
    (Producer::over(view()), Consumer::over(view()))
}

#[test]
fn nothing_is_seen_and_no_room_is_there_before_it_is_shown() {
    let (mut producer, mut consumer) = pair(u32::MAX - 2);
    for entry in 0..8 {
        assert!(producer.push(entry));
    }
    assert!(producer.is_full() && !producer.push(99));
    assert_eq!((consumer.pop(), producer.pending()), (None, 0));
    producer.show();
    assert_eq!(producer.pending(), 8);
    for entry in 0..8 {
        assert_eq!(consumer.pop(), Some(entry));
    }
    assert_eq!(consumer.pop(), None);
    assert!(producer.is_full());
    consumer.show();
    assert_eq!(producer.pending(), 0);
    assert!(producer.push(7));
}

#[test]
fn the_flag_is_read_each_time() {
    let (producer, consumer) = pair(0);
    assert!(!producer.wants_wakeup());
    consumer.ring.word(4).store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    assert!(producer.wants_wakeup());
}

#[test]
fn entries_arrive_in_order_between_threads() {
    const ENTRIES: u64 = 200_000;
    let (mut producer, mut consumer) = pair(u32::MAX - 1000);
    let sender = thread::spawn(move || {
        for entry in 0..ENTRIES {
            while !producer.push(entry) {
                thread::yield_now();
            }
            producer.show();
        }
    });
    for expected in 0..ENTRIES {
        let got = loop {
            match consumer.pop() {
                Some(entry) => break entry,
                None => thread::yield_now(),
            }
        };
        assert_eq!(got, expected);
        consumer.show();
    }
    sender.join().unwrap();
}

proptest! {
    /// Against a queue, wherever the indices begin.
    #[test]
    fn it_is_a_queue(start: u32, steps in prop::collection::vec(0..4u8, 1..300)) {
        let (mut producer, mut consumer) = pair(start);
        let (mut hidden, mut visible, mut popped) = (VecDeque::new(), VecDeque::new(), 0);
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                0 => {
                    let room = hidden.len() + visible.len() + popped < LEN as usize;
                    prop_assert_eq!(producer.push(n as u64), room);
                    if room {
                        hidden.push_back(n as u64);
                    }
                }
                1 => {
                    producer.show();
                    visible.append(&mut hidden);
                }
                2 => {
                    let entry = consumer.pop();
                    prop_assert_eq!(entry, visible.pop_front());
                    popped += usize::from(entry.is_some());
                }
                _ => {
                    consumer.show();
                    popped = 0;
                }
            }
        }
    }
}
