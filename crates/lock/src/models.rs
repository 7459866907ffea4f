//! Models: the algorithm in every order of events (up to a number of preemptions).
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p quaver-lock --profile loom --lib
//! ```
//!
//! The instructions are those of `asm`, on loom's atomics. The mode is a word that another thread
//! changes at any time. `patience` is the budget: after so many pauses a waiter blocks, whatever
//! the mode says, as it does if the monitor misses something. Loom reports mutual exclusion that
//! fails (its cells) and lost wake-ups (all threads blocked).

use crate::algorithm::{self, AWAITED, FREE, HELD, Machine};
use crate::node::{FIRST, NONE, WAITING};
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

struct Lock {
    word: AtomicU32,
    tail: AtomicU32,
    kernel: Mutex<()>,
    sleepers: Condvar,
    value: UnsafeCell<u32>,
}

impl Lock {
    fn new() -> Self {
        Self {
            word: AtomicU32::new(FREE),
            tail: AtomicU32::new(0),
            kernel: Mutex::new(()),
            sleepers: Condvar::new(),
            value: UnsafeCell::new(0),
        }
    }
}

struct Node {
    place: AtomicU32,
    next: AtomicU32,
}

struct World {
    locks: [Lock; 2],
    nodes: Vec<Node>,
    preempted: AtomicU32,
}

impl World {
    fn new(threads: usize) -> Arc<Self> {
        let node = || Node { place: AtomicU32::new(NONE), next: AtomicU32::new(0) };
        Arc::new(Self {
            locks: [Lock::new(), Lock::new()],
            nodes: (0..threads).map(|_| node()).collect(),
            preempted: AtomicU32::new(0),
        })
    }
}

/// How a thread waits.
#[derive(Clone, Copy)]
struct Way {
    /// Pauses before it blocks.
    patience: u32,
    /// Whether its deadline comes while it sleeps.
    timed: bool,
}

const SPIN: Way = Way { patience: 2, timed: false };
/// Never blocks: gets on only if the one before tells it.
const TRUST: Way = Way { patience: u32::MAX, timed: false };
const BLOCK: Way = Way { patience: 0, timed: false };

struct Waiter<'a> {
    world: &'a World,
    lock: &'a Lock,
    me: u32,
    way: Way,
    pauses: u32,
    renewals: u32,
}

impl Waiter<'_> {
    fn node(&self, handle: u32) -> &Node {
        &self.world.nodes[handle as usize - 1]
    }
}

impl Machine for Waiter<'_> {
    type Node = u32;

    fn try_word(&mut self) -> u32 {
        match self.lock.word.load(Relaxed) {
            FREE => {}
            word => return word,
        }
        let (Ok(was) | Err(was)) = self.lock.word.compare_exchange(FREE, HELD, AcqRel, Acquire);
        was
    }

    fn mark(&mut self) -> u32 {
        self.lock.word.swap(AWAITED, AcqRel)
    }

    fn sleep(&mut self) -> bool {
        let kernel = self.lock.kernel.lock().unwrap();
        if self.lock.word.load(Acquire) != AWAITED {
            return true;
        }
        if self.way.timed {
            return false;
        }
        drop(self.lock.sleepers.wait(kernel).unwrap());
        true
    }

    fn may_queue(&mut self) -> bool {
        self.way.patience > 0 && self.world.preempted.load(Relaxed) == 0
    }

    fn spin(&mut self) -> bool {
        self.pauses += 1;
        if self.pauses > self.way.patience || self.world.preempted.load(Relaxed) != 0 {
            return false;
        }
        thread::yield_now();
        true
    }

    fn may_spin_again(&mut self) -> bool {
        // Once, or the model has no end.
        self.renewals += 1;
        if self.renewals > 1 || self.world.preempted.load(Relaxed) != 0 {
            return false;
        }
        self.pauses = 0;
        true
    }

    fn expired(&mut self) -> bool {
        false
    }

    fn enqueue(&mut self) -> Option<u32> {
        let own = self.node(self.me);
        own.next.store(0, Relaxed);
        own.place.store(WAITING, Relaxed);
        match self.lock.tail.swap(self.me, AcqRel) {
            0 => {
                own.place.store(FIRST, Relaxed);
                None
            }
            before => Some(before),
        }
    }

    fn stand_back(&mut self) {
        // Only time passes.
    }

    fn link(&mut self, before: u32) {
        assert_ne!(before, self.me, "a thread waits for itself");
        self.node(before).next.store(self.me, Release);
    }

    fn is_first(&mut self) -> bool {
        self.node(self.me).place.load(Acquire) == FIRST
    }

    fn dequeue(&mut self) -> bool {
        let left = self.lock.tail.compare_exchange(self.me, 0, AcqRel, Acquire).is_ok();
        if left {
            self.node(self.me).place.store(NONE, Relaxed);
        }
        left
    }

    fn behind(&mut self) -> Option<u32> {
        match self.node(self.me).next.load(Acquire) {
            0 => None,
            behind => Some(behind),
        }
    }

    fn pass(&mut self, behind: u32) {
        let _ = self.node(behind).place.compare_exchange(WAITING, FIRST, AcqRel, Relaxed);
        self.node(self.me).place.store(NONE, Relaxed);
    }

    fn pause(&mut self) {
        thread::yield_now();
    }
}

/// Thread `me` takes the lock, adds 1, and frees the lock; false if its deadline came.
fn add(world: &World, lock: usize, me: u32, way: Way) -> bool {
    let lock = &world.locks[lock];
    let mut waiter = Waiter { world, lock, me, way, pauses: 0, renewals: 0 };
    if waiter.try_word() != FREE && !algorithm::wait(&mut waiter) {
        return false;
    }
    lock.value.with_mut(|value| {
        // SAFETY: the lock is held; if another thread holds it too, the cell reports it.
        unsafe { *value += 1 }
    });
    if lock.word.swap(FREE, AcqRel) == AWAITED {
        let _kernel = lock.kernel.lock().unwrap();
        lock.sleepers.notify_one();
    }
    true
}

fn explore(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(program);
}

/// Threads of these ways add; beside them one that changes the mode as listed.
fn crowd(world: &Arc<World>, ways: &[Way], modes: &'static [u32]) -> u32 {
    let mut threads = Vec::new();
    for (i, &way) in ways.iter().enumerate().skip(1) {
        let world = world.clone();
        threads.push(thread::spawn(move || u32::from(add(&world, 0, i as u32 + 1, way))));
    }
    if !modes.is_empty() {
        let world = world.clone();
        threads.push(thread::spawn(move || {
            for &mode in modes {
                world.preempted.store(mode, Relaxed);
            }
            0
        }));
    }
    let mine = u32::from(add(world, 0, 1, ways[0]));
    mine + threads.into_iter().map(|t| t.join().unwrap()).sum::<u32>()
}

/// Afterwards the lock is free, nobody is in the queue, and each success was counted.
fn check(world: &World, successes: u32) {
    for lock in &world.locks {
        assert_eq!(lock.word.load(Acquire), FREE);
        assert_eq!(lock.tail.load(Acquire), 0, "somebody is left in the queue");
    }
    // SAFETY: all threads have ended.
    let sum: u32 = world.locks.iter().map(|l| l.value.with(|v| unsafe { *v })).sum();
    assert_eq!(sum, successes);
}

fn model(preemptions: usize, ways: &'static [Way], modes: &'static [u32]) {
    explore(preemptions, move || {
        let world = World::new(ways.len());
        let successes = crowd(&world, ways, modes);
        let untimed = ways.iter().filter(|w| !w.timed).count() as u32;
        assert!(successes >= untimed);
        check(&world, successes);
    });
}

#[test]
fn two_block() {
    model(6, &[BLOCK, BLOCK], &[]);
}

#[test]
fn three_block() {
    model(3, &[BLOCK, BLOCK, BLOCK], &[]);
}

#[test]
fn two_spin_until_patience_ends() {
    model(5, &[SPIN, SPIN], &[]);
}

#[test]
fn three_queue_and_give_up_in_any_order() {
    model(3, &[SPIN, SPIN, SPIN], &[]);
}

/// Without a budget, only the word of the one before brings a thread on. Loom reports an execution
/// that does not end.
#[test]
fn each_tells_the_next() {
    model(2, &[TRUST, TRUST, TRUST], &[]);
}

#[test]
fn a_spinner_beside_sleepers() {
    model(3, &[SPIN, BLOCK, BLOCK], &[]);
}

#[test]
fn the_mode_changes_at_any_time() {
    model(4, &[SPIN, SPIN], &[1, 0]);
}

#[test]
fn the_mode_changes_beside_a_sleeper() {
    model(2, &[SPIN, SPIN, BLOCK], &[1, 0]);
}

/// A waiter that leaves after its deadline takes no wake-up with it.
#[test]
fn a_deadline_takes_no_wake_up() {
    model(3, &[BLOCK, BLOCK, Way { patience: 0, timed: true }], &[]);
}

#[test]
fn a_deadline_in_the_queue() {
    model(3, &[SPIN, SPIN, Way { patience: 1, timed: true }], &[]);
}

/// Who gave up waits for another lock when it is told that it is first.
#[test]
fn a_late_word_reaches_another_queue() {
    explore(2, || {
        let world = World::new(3);
        let both = |me: u32, locks: [usize; 2]| {
            let world = world.clone();
            thread::spawn(move || {
                for lock in locks {
                    assert!(add(&world, lock, me, Way { patience: 1, timed: false }));
                }
            })
        };
        let others = [both(2, [0, 1]), both(3, [1, 0])];
        assert!(add(&world, 0, 1, SPIN));
        for t in others {
            t.join().unwrap();
        }
        check(&world, 5);
    });
}
