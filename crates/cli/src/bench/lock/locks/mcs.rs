//! The queue lock of Mellor-Crummey and Scott (1991): each waiter spins on a word of its own.

use std::hint::spin_loop;
use std::ptr::{from_mut, null_mut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

use super::BenchLock;

/// The end of the queue.
pub struct Mcs(AtomicPtr<Node>);

/// A thread's place in it.
#[derive(Default)]
#[repr(align(128))]
pub struct Node {
    next: AtomicPtr<Node>,
    waits: AtomicBool,
}

impl BenchLock for Mcs {
    type Node = Node;

    fn create() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    fn lock(&self, node: &mut Node) {
        node.next.store(null_mut(), Relaxed);
        node.waits.store(true, Relaxed);
        let node = from_mut(node);
        let before = self.0.swap(node, AcqRel);
        // SAFETY: a node stays where it is until its thread has left the queue, and the one before
        // leaves only after it has told us.
        unsafe {
            if let Some(before) = before.as_ref() {
                before.next.store(node, Release);
                while (*node).waits.load(Acquire) {
                    spin_loop();
                }
            }
        }
    }

    unsafe fn unlock(&self, node: &mut Node) {
        let node = from_mut(node);
        // SAFETY: as in `lock`; the node is the first of the queue.
        unsafe {
            let mut next = (*node).next.load(Acquire);
            if next.is_null() {
                if self.0.compare_exchange(node, null_mut(), Release, Relaxed).is_ok() {
                    return;
                }
                while next.is_null() {
                    spin_loop();
                    next = (*node).next.load(Acquire);
                }
            }
            (*next).waits.store(false, Release);
        }
    }
}
