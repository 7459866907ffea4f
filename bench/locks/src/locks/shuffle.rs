//! After the Shuffle lock, its spinning-then-parking variant: a word that anybody may take, and an
//! MCS queue whose first thread waits for the word. While it waits it reorders the queue behind it,
//! those of its own NUMA node first, and rouses the next ones. (Sanidhya Kashyap et al., "Scalable
//! and practical locking with shuffling", 2019.)
//!
//! Simpler than the original in this: only the first of the queue reorders, and once for each time
//! that it is first. On one NUMA node the order stays as it is.

use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

use super::BenchLock;
use super::parking::Spot;
use super::place::Place;

/// How many waiters one look at the queue passes at most.
const REACH: usize = 64;
/// Looks at the word after which the first of the queue lets others run.
const PATIENCE: u64 = 1000;

/// The word and the queue's end.
pub struct Shuffle {
    held: AtomicBool,
    tail: AtomicPtr<Cell>,
}

/// A thread's place in the queue.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    next: AtomicPtr<Cell>,
    spot: Spot,
    /// The NUMA node.
    numa: AtomicU32,
}

fn numa_node() -> u32 {
    let (mut cpu, mut node) = (0u32, 0u32);
    // SAFETY: both words are ours.
    unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, null_mut::<u8>()) };
    node
}

impl Shuffle {
    fn try_lock(&self) -> bool {
        !self.held.load(Relaxed) && !self.held.swap(true, Acquire)
    }

    /// Moves threads of our NUMA node to the front; never the last, whose link is not known.
    fn shuffle(own: &Cell) {
        let numa = own.numa.load(Relaxed);
        // The end of those that are in order; and the one before the one that is looked at.
        let (mut sorted, mut before) = (own, own);
        for _ in 0..REACH {
            // SAFETY: nodes behind the first are in the queue until it leaves, which is us.
            let Some(next) = (unsafe { before.next.load(Acquire).as_ref() }) else { break };
            // SAFETY: as above.
            let Some(after) = (unsafe { next.next.load(Acquire).as_ref() }) else { break };
            if next.numa.load(Relaxed) != numa {
                before = next;
                continue;
            }
            if std::ptr::eq(before, sorted) {
                before = next;
            } else {
                let at = |cell: &Cell| std::ptr::from_ref(cell).cast_mut();
                let behind = sorted.next.load(Acquire);
                before.next.store(at(after), Release);
                next.next.store(behind, Release);
                sorted.next.store(at(next), Release);
            }
            sorted = next;
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { own.next.load(Acquire).as_ref() } {
            next.spot.rouse();
        }
    }
}

impl BenchLock for Shuffle {
    type Node = Place<Cell>;

    fn create() -> Self {
        Self { held: AtomicBool::new(false), tail: AtomicPtr::new(null_mut()) }
    }

    fn lock(&self, node: &mut Place<Cell>) -> u64 {
        if self.try_lock() {
            return 0;
        }
        node.next.store(null_mut(), Relaxed);
        node.numa.store(numa_node(), Relaxed);
        node.spot.reset();
        let before = self.tail.swap(node.as_ptr(), AcqRel);
        let mut spins = 0;
        // SAFETY: a node is there until its thread has left the queue, after it was linked.
        if let Some(before) = unsafe { before.as_ref() } {
            before.next.store(node.as_ptr(), Release);
            spins += node.spot.wait();
        }
        let mut looks = 0u64;
        while !self.try_lock() {
            if looks == 0 {
                Self::shuffle(node);
            }
            spin_loop();
            looks += 1;
            if looks.is_multiple_of(PATIENCE) {
                std::thread::yield_now();
            }
        }
        let mut next = node.next.load(Acquire);
        if next.is_null() {
            if self.tail.compare_exchange(node.as_ptr(), null_mut(), AcqRel, Acquire).is_ok() {
                return spins + looks;
            }
            while next.is_null() {
                spin_loop();
                next = node.next.load(Acquire);
            }
        }
        // SAFETY: it waits for this.
        unsafe { (*next).spot.tell() };
        spins + looks
    }

    unsafe fn unlock(&self, _: &mut Place<Cell>) {
        self.held.store(false, Release);
    }
}
