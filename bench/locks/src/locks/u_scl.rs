//! The user-space scheduler-cooperative lock: a thread owns the lock for a *slice* of 2 ms, in
//! which it alone may take it, as often as it likes. After its slice it is banned for so long that
//! each thread gets its share of the time in which the lock is held, by its nice value. (Yuvraj
//! Patel et al., "Avoiding scheduler subversion using scheduler-cooperative locks", 2020.)
//!
//! It keeps an account for each thread and lock, so that it does not suit very many locks.
//! (FlexGuard 5.3: it crashes there.)

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::time::Duration;

use super::BenchLock;
use super::parking::Spot;
use super::place::Place;
use super::sleep::{self, cycles, cycles_per_us};

/// How long a thread owns the lock.
const SLICE_US: u64 = 2000;
/// With the lock's word: it is held, not only owned.
const HELD: u32 = 1 << 31;
/// The kernel's weight of nice 0; each step is a quarter more or less.
const WEIGHT: f64 = 1024.0;

/// The lock.
pub struct UScl {
    /// Number of the thread that owns the slice, 0 if nobody; with [`HELD`].
    owner: AtomicU32,
    /// Changes when a slice is over; who is first in the queue sleeps at it.
    signal: AtomicU32,
    /// When the slice ends, by the TSC.
    end: AtomicU64,
    /// Waiters; the first is the next owner.
    tail: AtomicPtr<Cell>,
    /// Of all threads that have used the lock.
    weight: AtomicU64,
    number: u64,
}

/// A place in the queue.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    next: AtomicPtr<Cell>,
    spot: Spot,
}

/// What a thread has had of one lock.
#[derive(Default)]
struct Account {
    used: u64,
    banned_until: u64,
}

/// A lock's number is its own hash.
#[derive(Default)]
pub struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A thread: its number, its weight, its accounts.
pub struct Node {
    id: u32,
    weight: u64,
    since: u64,
    accounts: HashMap<u64, Account, BuildHasherDefault<Number>>,
    cell: Place<Cell>,
}

impl Default for Node {
    fn default() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let id = LAST.fetch_add(1, Relaxed) % (HELD - 1) + 1;
        // SAFETY: asks about the calling thread.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let weight = (WEIGHT * 0.8f64.powi(nice)) as u64;
        Self { id, weight, since: 0, accounts: HashMap::default(), cell: Place::default() }
    }
}

impl UScl {
    /// Begins a slice, if nobody owns the lock or the owner lets its own pass unused.
    fn begin(&self, id: u32) -> bool {
        let owner = self.owner.load(Acquire);
        let over = owner == 0 || owner & HELD == 0 && cycles() >= self.end.load(Relaxed);
        if !over || self.owner.compare_exchange(owner, id | HELD, AcqRel, Acquire).is_err() {
            return false;
        }
        self.end.store(cycles() + SLICE_US * cycles_per_us(), Relaxed);
        true
    }

    /// As the first of the queue.
    fn await_slice(&self, id: u32) -> u64 {
        let mut looks = 0;
        loop {
            let signal = self.signal.load(Acquire);
            if self.begin(id) {
                return looks;
            }
            let left = self.end.load(Relaxed).saturating_sub(cycles()) / cycles_per_us();
            if left == 0 {
                // It is held beyond its slice; who frees it signals.
                spin_loop();
                looks += 1;
                if !looks.is_multiple_of(1000) {
                    continue;
                }
            }
            sleep::wait(&self.signal, signal, Some(Duration::from_micros(left.max(50))));
        }
    }

    fn leave(&self, cell: &Place<Cell>) {
        let mut next = cell.next.load(Acquire);
        if next.is_null() {
            if self.tail.compare_exchange(cell.as_ptr(), null_mut(), AcqRel, Acquire).is_ok() {
                return;
            }
            while next.is_null() {
                spin_loop();
                next = cell.next.load(Acquire);
            }
        }
        // SAFETY: it waits for this.
        unsafe { (*next).spot.tell() };
    }
}

impl BenchLock for UScl {
    type Node = Node;

    fn create() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            owner: AtomicU32::new(0),
            signal: AtomicU32::new(0),
            end: AtomicU64::new(0),
            tail: AtomicPtr::new(null_mut()),
            weight: AtomicU64::new(0),
            number: LAST.fetch_add(1, Relaxed),
        }
    }

    fn lock(&self, node: &mut Node) -> u64 {
        let (id, weight) = (node.id, node.weight);
        let account = node.accounts.entry(self.number).or_insert_with(|| {
            self.weight.fetch_add(weight, Relaxed);
            Account::default()
        });
        let mut spins = 0;
        let in_slice = self.owner.load(Relaxed) == id && cycles() < self.end.load(Relaxed);
        let taken = in_slice && self.owner.compare_exchange(id, id | HELD, AcqRel, Acquire).is_ok();
        if !taken {
            let banned = account.banned_until.saturating_sub(cycles()) / cycles_per_us();
            if banned > 0 {
                std::thread::sleep(Duration::from_micros(banned));
            }
            let alone = self.tail.load(Acquire).is_null() && self.begin(id);
            if !alone {
                let cell = &node.cell;
                cell.next.store(null_mut(), Relaxed);
                cell.spot.reset();
                let before = self.tail.swap(cell.as_ptr(), AcqRel);
                // SAFETY: a node is there until its thread has left the queue.
                if let Some(before) = unsafe { before.as_ref() } {
                    before.next.store(cell.as_ptr(), Release);
                    spins += cell.spot.wait();
                }
                spins += self.await_slice(id);
                self.leave(cell);
            }
        }
        node.since = cycles();
        spins
    }

    unsafe fn unlock(&self, node: &mut Node) {
        let now = cycles();
        let account = node.accounts.get_mut(&self.number).expect("made by lock");
        account.used += now.saturating_sub(node.since);
        if now < self.end.load(Relaxed) {
            self.owner.store(node.id, Release);
            return;
        }
        // Others have their shares while this one is banned.
        let others = self.weight.load(Relaxed).saturating_sub(node.weight);
        account.banned_until = now + account.used * others / node.weight.max(1);
        account.used = 0;
        self.owner.store(0, Release);
        self.signal.fetch_add(1, Release);
        if !self.tail.load(Acquire).is_null() {
            sleep::wake(self.signal.as_ptr(), 1);
        }
    }
}
