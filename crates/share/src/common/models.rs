//! Models of the lock: every order of events, up to a number of preemptions.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p quaver-share --profile loom --lib
//! ```
//!
//! Loom reports two holders at a time (its cell), a wake-up that is lost where nobody dies (all
//! threads blocked), and what a dead holder has left half done and its successor does not see.

use super::life::Life;
use super::lock::{self, Held, Members};
use super::word::Word;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::{Arc, Notify};
use loom::thread;

/// The value is even whenever the lock is free, unless its holder has died.
struct World {
    word: Word,
    value: UnsafeCell<u32>,
    /// By number: how a member does.
    ended: AtomicU32,
    stopped: AtomicU32,
    continued: AtomicU32,
    goes_on: Notify,
    taken_over: AtomicU32,
    marks: [Word; 3],
}

// SAFETY: the cell is used under the lock, which is what loom checks.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new(naps_end: bool) -> Arc<World> {
        Arc::new(World {
            word: Word::new(naps_end),
            value: UnsafeCell::new(0),
            ended: AtomicU32::new(0),
            stopped: AtomicU32::new(0),
            continued: AtomicU32::new(0),
            goes_on: Notify::new(),
            taken_over: AtomicU32::new(0),
            marks: [(); 3].map(|()| Word::new(naps_end)),
        })
    }

    fn lock(&self, me: usize, inherits: bool) -> Held<'_> {
        lock::acquire(&self.word, me, inherits, self)
    }

    /// Half of a change.
    fn step(&self) -> u32 {
        self.value.with_mut(|value| {
            // SAFETY: the lock is held; if another thread holds it too, the cell reports it.
            unsafe {
                *value += 1;
                *value
            }
        })
    }

    /// A change, after what a dead holder has left was mended.
    fn change(&self, me: usize, inherits: bool) {
        let held = self.lock(me, inherits);
        let first = self.step();
        if held.after.is_some() {
            self.taken_over.fetch_add(1, Relaxed);
            assert_eq!(first % 2, 0, "the dead one's half is seen, and nobody was here since");
        } else {
            assert_eq!((first + self.step()) % 2, 1);
        }
    }

    /// Dies in the middle of a change.
    fn die(&self, me: usize) {
        let held = self.lock(me, false);
        self.step();
        std::mem::forget(held);
        self.ended.fetch_or(1 << me, Release);
    }

    fn value(&self) -> u32 {
        // SAFETY: all threads have ended.
        self.value.with(|value| unsafe { *value })
    }
}

impl Members for World {
    fn life(&self, member: usize) -> Life {
        match 1 << member {
            it if self.ended.load(Acquire) & it != 0 => Life::Ended,
            it if self.stopped.load(Acquire) & it != 0 => Life::Stopped,
            _ => Life::Runs,
        }
    }

    fn go_on(&self, member: usize) {
        self.continued.fetch_add(1, Relaxed);
        self.stopped.fetch_and(!(1 << member), AcqRel);
        self.goes_on.notify();
    }

    fn mark(&self, member: usize) -> &Word {
        &self.marks[member]
    }
}

fn explore(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(program);
}

/// Runs these at the same time, the first one here.
fn together(world: &Arc<World>, members: &[fn(&World)]) {
    let start = |&member: &fn(&World)| {
        let world = world.clone();
        thread::spawn(move || member(&world))
    };
    let others: Vec<_> = members[1..].iter().map(start).collect();
    members[0](world);
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn one_at_a_time_and_nobody_sleeps_for_ever() {
    explore(3, || {
        let world = World::new(false);
        let twice = |world: &World| (0..2).for_each(|_| world.change(0, false));
        together(&world, &[twice, |world| world.change(1, false)]);
        assert_eq!(world.value(), 6);
    });
}

#[test]
fn three_wake_each_other() {
    explore(2, || {
        let world = World::new(false);
        together(
            &world,
            &[
                |world| world.change(0, false),
                |world| world.change(1, false),
                |world| world.change(2, false),
            ],
        );
        assert_eq!(world.value(), 6);
    });
}

/// Whoever finds the dead holder goes on where that one has stopped, once.
#[test]
fn one_takes_over_from_the_dead() {
    explore(2, || {
        let world = World::new(true);
        world.die(2);
        together(&world, &[|world| world.change(0, false), |world| world.change(1, false)]);
        assert_eq!((world.taken_over.load(Relaxed), world.value()), (1, 4));
    });
}

/// The same, dying at any time; the one that inherits the number must not wait for itself.
#[test]
fn a_death_beside_a_waiter() {
    explore(3, || {
        let world = World::new(true);
        together(
            &world,
            &[
                |world| world.die(1),
                |world| {
                    let held = world.lock(0, false);
                    let half = held.after == Some(1);
                    world.step();
                    if !half {
                        world.step();
                    }
                },
            ],
        );
        // The last one to hold it may be the dead one.
        world.change(1, true);
        assert_eq!(world.value() % 2, 0);
    });
}

/// One that is stopped with the lock is continued until it has released it, once.
#[test]
fn the_stopped_go_on_for_as_long() {
    explore(3, || {
        let world = World::new(true);
        let held = world.lock(1, false);
        world.step();
        world.stopped.store(1 << 1, Release);
        let other = {
            let world = world.clone();
            thread::spawn(move || world.change(0, false))
        };
        while world.stopped.load(Acquire) != 0 {
            world.goes_on.wait();
        }
        world.step();
        assert!(held.release(), "it is to be stopped again");
        assert!(!world.lock(1, false).release(), "once");
        other.join().unwrap();
        assert_eq!((world.value(), world.continued.load(Relaxed)), (4, 1));
    });
}
