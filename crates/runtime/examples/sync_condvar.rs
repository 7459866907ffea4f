//! A bounded buffer, the textbook way: a mutex and two condition variables.
//!
//! A thread that is notified while the notifier still holds the mutex is not run in vain: it moves
//! to the mutex's queue.

use quaver::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

struct Buffer<T> {
    items: Mutex<VecDeque<T>>,
    capacity: usize,
    not_empty: Condvar,
    not_full: Condvar,
}

impl<T> Buffer<T> {
    fn new(capacity: usize) -> Buffer<T> {
        Buffer {
            items: Mutex::new(VecDeque::with_capacity(capacity)),
            capacity,
            not_empty: Condvar::new(),
            not_full: Condvar::new(),
        }
    }

    fn put(&self, item: T) {
        let items = self.items.lock().unwrap();
        let mut items = self.not_full.wait_while(items, |q| q.len() == self.capacity).unwrap();
        items.push_back(item);
        self.not_empty.notify_one();
    }

    fn take(&self) -> T {
        let items = self.items.lock().unwrap();
        let mut items = self.not_empty.wait_while(items, |q| q.is_empty()).unwrap();
        self.not_full.notify_one();
        items.pop_front().expect("the wait ended because there is an item")
    }
}

const PAIRS: u64 = 4;
const ITEMS: u64 = 10_000;

#[quaver::main]
fn main() {
    let buffer = Arc::new(Buffer::new(16));
    let producers: Vec<_> = (0..PAIRS)
        .map(|_| {
            let buffer = buffer.clone();
            quaver::spawn(move || (1..=ITEMS).for_each(|i| buffer.put(i)))
        })
        .collect();
    let consumers: Vec<_> = (0..PAIRS)
        .map(|_| {
            let buffer = buffer.clone();
            quaver::spawn(move || (0..ITEMS).map(|_| buffer.take()).sum::<u64>())
        })
        .collect();
    for producer in producers {
        producer.join().unwrap();
    }
    let sum: u64 = consumers.into_iter().map(|c| c.join().unwrap()).sum();
    println!("{} items, sum {sum}", PAIRS * ITEMS);
    assert_eq!(sum, PAIRS * ITEMS * (ITEMS + 1) / 2);
}
