//! A thread, its handle, and the end of the runtime. Cells stand for what the word protects: loom
//! reports two who use one at once, and threads that all sleep.

use super::{Leaving, Life, Wait};
use crate::park::{self, Waiter};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

struct Model {
    life: Life,
    /// Is there one?
    result: UnsafeCell<bool>,
    joiner: UnsafeCell<Option<Waiter>>,
    stack_in_use: UnsafeCell<bool>,
    recycled: AtomicUsize,
    stopped: AtomicBool,
}

impl Model {
    fn new() -> Arc<Model> {
        let thread = Model {
            life: Life::new(),
            result: UnsafeCell::new(false),
            joiner: UnsafeCell::new(None),
            stack_in_use: UnsafeCell::new(false),
            recycled: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        };
        thread.begin(false);
        Arc::new(thread)
    }

    fn begin(&self, detached: bool) {
        self.life.begin(detached);
        put(&self.stack_in_use, true);
    }

    /// The thread, from its result to its end.
    fn run(&self) {
        assert!(!put(&self.result, true));
        let dropped = self.life.is_detached();
        self.end(dropped);
    }

    /// The same for a thread of a scope.
    fn run_scoped(&self) {
        assert!(!put(&self.result, true));
        let dropped = self.life.ready();
        self.end(dropped);
    }

    fn end(&self, dropped: bool) {
        if dropped {
            self.take();
        }
        match self.life.exiting(dropped) {
            Leaving::Alone => {}
            Leaving::Joined | Leaving::Suspended => self.wake_joiner(),
            Leaving::Detached => self.take(),
        }
        assert!(put(&self.stack_in_use, false));
        if self.life.done() {
            self.recycle();
        }
    }

    /// Its token stands for making it runnable.
    fn wake_joiner(&self) {
        // SAFETY: loom checks the access.
        let joiner = self.joiner.with(|j| unsafe { *j });
        park::unpark(joiner.expect("a joiner"));
    }

    /// Takes or drops the result.
    fn take(&self) {
        assert!(put(&self.result, false), "there is no result");
    }

    /// The handle waits, for ever or not.
    fn wait(&self, deadline: Option<Instant>) -> Wait {
        if self.life.is_done() {
            return Wait::Done;
        }
        let me = park::current();
        put(&self.joiner, Some(me));
        self.life.wait(|| park::park_deadline(me, deadline), || self.stopped.load(Acquire))
    }

    /// A user thread waits for ever.
    fn suspend(&self) {
        if self.life.is_done() {
            return;
        }
        let me = park::current();
        put(&self.joiner, Some(me));
        if !self.life.suspend() {
            park::park(me);
        }
        self.life.wait_until_done();
    }

    /// The handle has waited.
    fn joined(&self) {
        self.take();
        self.recycle();
    }

    /// The handle is dropped.
    fn drop_handle(&self) {
        if self.life.detach() {
            self.take();
        }
        if self.life.release() {
            self.recycle();
        }
    }

    /// Nobody uses the thread. It lives once more, without a handle: whatever is done to the word
    /// too late disturbs that.
    fn recycle(&self) {
        assert!(!put(&self.result, false), "the result was kept");
        assert!(!put(&self.stack_in_use, false), "it is on its stack");
        put(&self.joiner, None);
        if self.recycled.fetch_add(1, Relaxed) == 0 {
            self.begin(true);
            self.run();
        }
    }

    /// The runtime ends, and the thread never does.
    fn stop(&self) {
        self.stopped.store(true, SeqCst);
        if self.life.is_joined() {
            self.wake_joiner();
        }
    }
}

/// Puts a value into a cell and returns what was there.
fn put<T>(cell: &UnsafeCell<T>, value: T) -> T {
    // SAFETY: loom checks the access.
    cell.with_mut(|old| unsafe { core::mem::replace(&mut *old, value) })
}

/// A deadline that has passed: a timeout at any moment.
fn past() -> Option<Instant> {
    Instant::now().checked_sub(Duration::from_secs(1))
}

/// Explores what the handle does beside `other`, after which so many `lives` have ended.
fn explore(lives: usize, other: fn(&Model), handle: fn(&Model)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(move || {
        let thread = Model::new();
        let beside = loom::thread::spawn({
            let thread = thread.clone();
            move || other(&thread)
        });
        handle(&thread);
        beside.join().unwrap();
        assert_eq!(thread.recycled.load(Relaxed), lives);
    });
}

#[test]
fn a_join_races_with_the_end() {
    explore(2, Model::run, |t| {
        assert_eq!(t.wait(None), Wait::Done);
        t.joined();
    });
}

#[test]
fn a_suspended_joiner_races_with_the_end() {
    for run in [Model::run, Model::run_scoped] {
        explore(2, run, |t| {
            t.suspend();
            t.joined();
        });
    }
}

#[test]
fn a_handle_is_dropped_at_the_end() {
    explore(2, Model::run, Model::drop_handle);
    explore(2, Model::run_scoped, Model::drop_handle);
}

#[test]
fn a_timed_join_gives_up_and_detaches() {
    explore(2, Model::run, |t| match t.wait(past()) {
        Wait::Done => t.joined(),
        _ => t.drop_handle(),
    });
}

#[test]
fn a_timed_join_gives_up_and_joins_again() {
    explore(2, Model::run, |t| {
        if t.wait(past()) == Wait::TimedOut {
            assert_eq!(t.wait(None), Wait::Done);
        }
        t.joined();
    });
}

#[test]
fn a_joiner_learns_of_the_shutdown() {
    explore(0, Model::stop, |t| assert_eq!(t.wait(None), Wait::ShutDown));
}

#[test]
fn a_timed_join_races_with_the_shutdown() {
    explore(0, Model::stop, |t| {
        assert_ne!(t.wait(past()), Wait::Done);
        t.drop_handle();
    });
}
