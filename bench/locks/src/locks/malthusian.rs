//! MCS that keeps few threads in its queue: who frees the lock moves waiters in excess to a passive
//! list, and brings one back when the queue runs empty, or now and then for fairness. Waiters spin,
//! then park. (Dave Dice, "Malthusian locks", 2017, MCSCR.)

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::BenchLock;
use super::parking::Spot;
use super::place::Place;

/// Of so many, one hand-over goes to who has been passive for longest.
const FAIRNESS: u32 = 1000;

/// The queue's end; what only the holder uses.
pub struct Malthusian {
    tail: AtomicPtr<Cell>,
    holder: UnsafeCell<Passive>,
}

struct Passive {
    /// The one that came last in front.
    list: VecDeque<*mut Cell>,
    random: u32,
}

/// A thread's place.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    next: AtomicPtr<Cell>,
    spot: Spot,
}

// SAFETY: the list is the holder's; its nodes belong to threads that wait.
unsafe impl Sync for Malthusian {}
// SAFETY: as above.
unsafe impl Send for Malthusian {}

/// The one behind `cell`, which is linked or about to be.
fn behind(cell: &Cell) -> *mut Cell {
    loop {
        let next = cell.next.load(Acquire);
        if !next.is_null() {
            return next;
        }
        spin_loop();
    }
}

impl Malthusian {
    /// Puts `victim` behind `own`, at the head of the queue, and hands the lock to it.
    fn graft(&self, own: &Place<Cell>, victim: *mut Cell) {
        // SAFETY: a passive thread waits, and its node is there until it is told.
        let victim = unsafe { &*victim };
        victim.next.store(null_mut(), Relaxed);
        let at = std::ptr::from_ref(victim).cast_mut();
        if !own.next.load(Acquire).is_null()
            || self.tail.compare_exchange(own.as_ptr(), at, AcqRel, Acquire).is_err()
        {
            victim.next.store(behind(own), Release);
        }
        victim.spot.tell();
    }
}

impl BenchLock for Malthusian {
    type Node = Place<Cell>;

    fn create() -> Self {
        let passive = Passive { list: VecDeque::new(), random: 0x2545_f491 };
        Self { tail: AtomicPtr::new(null_mut()), holder: UnsafeCell::new(passive) }
    }

    fn lock(&self, node: &mut Place<Cell>) -> u64 {
        node.next.store(null_mut(), Relaxed);
        node.spot.reset();
        let before = self.tail.swap(node.as_ptr(), AcqRel);
        // SAFETY: a node stays until its thread has the lock and has told the one behind, or has
        // left the queue empty.
        match unsafe { before.as_ref() } {
            None => 0,
            Some(before) => {
                before.next.store(node.as_ptr(), Release);
                node.spot.wait()
            }
        }
    }

    unsafe fn unlock(&self, node: &mut Place<Cell>) {
        // SAFETY: the caller holds the lock, and lets go of it below, after the last use.
        let passive = unsafe { &mut *self.holder.get() };
        if !passive.list.is_empty() {
            passive.random ^= passive.random << 13;
            passive.random ^= passive.random >> 17;
            passive.random ^= passive.random << 5;
            let eldest = passive.random.is_multiple_of(FAIRNESS);
            let empty = node.next.load(Acquire).is_null();
            let victim = match (eldest, empty) {
                (true, _) => passive.list.pop_back(),
                (_, true) => passive.list.pop_front(),
                _ => None,
            };
            if let Some(victim) = victim {
                return self.graft(node, victim);
            }
        }
        if node.next.load(Acquire).is_null()
            && self.tail.compare_exchange(node.as_ptr(), null_mut(), AcqRel, Acquire).is_ok()
        {
            return;
        }
        let mut next = behind(node);
        if self.tail.load(Acquire) != next {
            // SAFETY: in the queue, so there.
            let second = behind(unsafe { &*next });
            passive.list.push_front(next);
            next = second;
        }
        // SAFETY: as above, until it is told.
        unsafe { (*next).spot.tell() };
    }
}
