//! A stack in user space announces news beside threads that begin to wait, as in `reactor::wait`
//! for files that are served.

use super::{explore, explore_crowd, join};
use crate::park::shim::{Arc, AtomicU32};
use crate::park::{self, SpinLock};
use crate::sync::list::{Node, Signal, WaitList};
use loom::thread;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

struct AnnouncedFile {
    /// The stack's lock, and how much there is to receive.
    socket: SpinLock<u32>,
    waiters: SpinLock<WaitList<()>>,
    /// Announcements.
    count: AtomicU32,
}

impl AnnouncedFile {
    fn new() -> Arc<AnnouncedFile> {
        Arc::new(AnnouncedFile {
            socket: SpinLock::new(0),
            waiters: SpinLock::new(WaitList::new()),
            count: AtomicU32::new(0),
        })
    }

    /// Something comes, and is announced with the stack's lock held.
    fn arrive(&self) {
        let mut socket = self.socket.lock();
        *socket += 1;
        let mut waiters = self.waiters.lock();
        self.count.store(self.count.load(Relaxed) + 1, Release);
        let waiter = waiters.pop_front().map(|node| node.signal(Signal::Woken));
        let quiet = waiters.unlock();
        if let Some(waiter) = waiter {
            park::unpark(waiter);
        }
        drop(quiet);
    }

    fn try_to_receive(&self) -> bool {
        let mut socket = self.socket.lock();
        let is_there = *socket > 0;
        *socket -= u32::from(is_there);
        is_there
    }

    fn is_ready(&self) -> bool {
        *self.socket.lock() > 0
    }

    fn enter(&self, node: &Node<()>, may_wait: impl FnOnce() -> bool) -> bool {
        let mut waiters = self.waiters.lock();
        let waits = may_wait();
        if waits {
            // SAFETY: new, and it stays until it has been signalled or has left.
            unsafe { waiters.push_back(NonNull::from(node)) };
        }
        waits
    }

    fn leave(&self, node: &Node<()>) {
        let mut waiters = self.waiters.lock();
        if node.signal() == Signal::Waiting {
            // SAFETY: in the list, as its signal says under the lock.
            unsafe { waiters.remove(node) };
        }
    }

    /// As `wait_foreign`: into the list, then another look.
    fn receive(&self) {
        while !self.try_to_receive() {
            let node = Node::new(park::current(), ());
            self.enter(&node, || true);
            if !self.is_ready() {
                node.wait();
            }
            self.leave(&node);
        }
    }

    /// As `wait_source`: into the list, unless there has been an announcement since.
    fn receive_counting(&self) {
        loop {
            let seen = self.count.load(Acquire);
            if self.try_to_receive() {
                return;
            }
            let node = Node::new(park::current(), ());
            if self.enter(&node, || self.count.load(Relaxed) == seen) {
                node.wait();
            }
        }
    }
}

#[test]
fn an_announcement_beside_a_wait() {
    explore(3, || {
        let file = AnnouncedFile::new();
        let other = file.clone();
        let stack = thread::spawn(move || other.arrive());
        file.receive();
        join([stack]);
    });
}

#[test]
fn an_announcement_beside_a_wait_that_counts() {
    explore(3, || {
        let file = AnnouncedFile::new();
        let other = file.clone();
        let stack = thread::spawn(move || other.arrive());
        file.receive_counting();
        join([stack]);
    });
}

#[test]
fn two_arrivals_for_two_ways_to_wait() {
    explore_crowd(2, || {
        let file = AnnouncedFile::new();
        let threads = [file.clone(), file.clone()];
        let [stack, counting] = threads;
        let stack = thread::spawn(move || (0..2).for_each(|_| stack.arrive()));
        let counting = thread::spawn(move || counting.receive_counting());
        file.receive();
        join([stack, counting]);
    });
}
