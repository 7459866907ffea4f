//! Time-published MCS. Waiters publish the time as long as they run, and who frees the lock passes
//! over those whose time is old: they are preempted. A waiter gives its CPU away when the holder
//! has had the lock for long. (Bijun He, William Scherer and Michael Scott, "Preemption adaptivity
//! in time-published queue-based spin locks", 2005.)
//!
//! A waiter that was passed over, and so is in the queue no more, queues again. One whose time is
//! up leaves its node behind, for whoever passes over it to give back.

use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use super::place::Place;
use super::sleep::{cycles, cycles_per_us};
use super::{BenchLock, Timed};

/// A holder is thought preempted after that.
const SECTION_US: u64 = 50;
/// A waiter is.
const STALE_US: u64 = 25;

const WAITING: u32 = 0;
const GRANTED: u32 = 1;
/// Its owner waits no more; the node is still in the queue.
const ABANDONED: u32 = 2;
/// In no queue: its owner may use it again.
const REMOVED: u32 = 3;

/// The queue's end, and since when the lock is held.
pub struct McsTp {
    tail: AtomicPtr<Cell>,
    since: AtomicU64,
    /// In cycles: [`SECTION_US`], [`STALE_US`].
    limits: [u64; 2],
}

/// A place in the queue.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    next: AtomicPtr<Cell>,
    state: AtomicU32,
    time: AtomicU64,
}

/// A thread's places: the one in use, and those that it has abandoned.
#[derive(Default)]
pub struct Node {
    cell: Place<Cell>,
    abandoned: Vec<Place<Cell>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        for cell in self.abandoned.drain(..) {
            if cell.state.load(Acquire) != REMOVED {
                // Somebody may still pass over it, at any time.
                std::mem::forget(cell);
            }
        }
    }
}

impl McsTp {
    /// How often it span; `Err`: the deadline came.
    fn wait(&self, node: &mut Node, until: Option<Instant>) -> Result<u64, u64> {
        let mut spins = 0;
        loop {
            let cell = &*node.cell;
            cell.next.store(null_mut(), Relaxed);
            cell.state.store(WAITING, Relaxed);
            cell.time.store(cycles(), Relaxed);
            let before = self.tail.swap(node.cell.as_ptr(), AcqRel);
            // SAFETY: a node in the queue is not freed before it was passed over, and that happens
            // only after its successor's link was read.
            let Some(before) = (unsafe { before.as_ref() }) else {
                self.since.store(cycles(), Relaxed);
                return Ok(spins);
            };
            before.next.store(node.cell.as_ptr(), Release);
            loop {
                match cell.state.load(Acquire) {
                    GRANTED => {
                        self.since.store(cycles(), Relaxed);
                        return Ok(spins);
                    }
                    REMOVED => break,
                    _ => {}
                }
                spin_loop();
                spins += 1;
                let now = cycles();
                cell.time.store(now, Relaxed);
                if now.saturating_sub(self.since.load(Relaxed)) > self.limits[0] {
                    std::thread::yield_now();
                }
                if until.is_some_and(|until| Instant::now() >= until) {
                    let gone = cell.state.compare_exchange(WAITING, ABANDONED, AcqRel, Acquire);
                    match gone {
                        Ok(_) => {
                            node.abandoned.retain(|cell| cell.state.load(Acquire) != REMOVED);
                            node.abandoned.push(std::mem::take(&mut node.cell));
                            return Err(spins);
                        }
                        Err(GRANTED) => continue,
                        Err(_) => return Err(spins),
                    }
                }
            }
        }
    }
}

impl BenchLock for McsTp {
    type Node = Node;

    fn create() -> Self {
        let limits = [SECTION_US, STALE_US].map(|us| us * cycles_per_us());
        Self { tail: AtomicPtr::new(null_mut()), since: AtomicU64::new(0), limits }
    }

    fn lock(&self, node: &mut Node) -> u64 {
        self.wait(node, None).unwrap_or_else(|_| unreachable!("there is no deadline"))
    }

    unsafe fn unlock(&self, node: &mut Node) {
        let own = node.cell.as_ptr();
        let mut last = own;
        loop {
            // SAFETY: our own node, or one that is passed over below, after this.
            let cell = unsafe { &*last };
            let mut next = cell.next.load(Acquire);
            if next.is_null()
                && self.tail.compare_exchange(last, null_mut(), AcqRel, Acquire).is_err()
            {
                while next.is_null() {
                    spin_loop();
                    next = cell.next.load(Acquire);
                }
            }
            if last != own {
                // From here on it belongs to its owner.
                cell.state.store(REMOVED, Release);
            }
            // SAFETY: in the queue, so there, until we pass over it.
            let Some(behind) = (unsafe { next.as_ref() }) else { return };
            let age = cycles().saturating_sub(behind.time.load(Relaxed));
            if age <= self.limits[1]
                && behind.state.compare_exchange(WAITING, GRANTED, AcqRel, Acquire).is_ok()
            {
                return;
            }
            last = next;
        }
    }
}

impl Timed for McsTp {
    fn lock_for(&self, node: &mut Node, limit: Duration) -> bool {
        self.wait(node, Some(Instant::now() + limit)).is_ok()
    }
}
