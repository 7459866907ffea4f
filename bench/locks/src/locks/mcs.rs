//! The queue lock: each waiter spins on a word of its own. (John Mellor-Crummey and Michael Scott,
//! "Algorithms for scalable synchronization on shared-memory multiprocessors", 1991.)

use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

use super::BenchLock;
use super::place::Place;

/// The end of the queue.
pub struct Mcs(AtomicPtr<Cell>);

/// A thread's place in it.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    next: AtomicPtr<Cell>,
    waits: AtomicBool,
}

impl BenchLock for Mcs {
    type Node = Place<Cell>;

    fn create() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    fn lock(&self, node: &mut Place<Cell>) -> u64 {
        node.next.store(null_mut(), Relaxed);
        node.waits.store(true, Relaxed);
        let before = self.0.swap(node.as_ptr(), AcqRel);
        let mut spins = 0;
        // SAFETY: a node stays where it is until its thread has left the queue, and the one before
        // leaves only after it has told us.
        if let Some(before) = unsafe { before.as_ref() } {
            before.next.store(node.as_ptr(), Release);
            while node.waits.load(Acquire) {
                spin_loop();
                spins += 1;
            }
        }
        spins
    }

    unsafe fn unlock(&self, node: &mut Place<Cell>) {
        let mut next = node.next.load(Acquire);
        if next.is_null() {
            if self.0.compare_exchange(node.as_ptr(), null_mut(), Release, Relaxed).is_ok() {
                return;
            }
            while next.is_null() {
                spin_loop();
                next = node.next.load(Acquire);
            }
        }
        // SAFETY: the one behind waits for this, and stays until then.
        unsafe { (*next).waits.store(false, Release) };
    }
}
