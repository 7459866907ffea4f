//! Tasks are numbers in one counter; workers take one at a time. A lost wake-up leaves tasks and
//! sleeping workers: loom reports that all threads are blocked.

use super::{Idle, Workers};
use crate::park::shim::Futex;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Duration;

struct Office {
    idle: Idle,
    beds: Vec<Futex>,
    tasks: AtomicUsize,
    closed: AtomicBool,
}

impl Office {
    fn new(workers: usize) -> Arc<Office> {
        Arc::new(Office {
            idle: Idle::new(),
            beds: (0..workers).map(|_| Futex::new(0)).collect(),
            tasks: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        })
    }

    fn add(&self) {
        self.tasks.fetch_add(1, Relaxed);
        self.idle.wake_one(self);
    }

    fn take(&self) -> bool {
        self.tasks.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok()
    }

    fn close(&self) {
        self.closed.store(true, SeqCst);
        loom::sync::atomic::fence(SeqCst);
        self.idle.wake_all(self);
    }

    /// Works until `quota` tasks are done or the office is closed.
    fn work(&self, me: usize, quota: usize) -> usize {
        let mut done = 0;
        while done < quota && !self.closed.load(Relaxed) {
            if self.take() {
                done += 1;
            } else {
                self.idle.wait(self, me);
            }
        }
        done
    }
}

impl Workers for Office {
    fn count(&self) -> usize {
        self.beds.len()
    }

    fn bed(&self, worker: usize) -> &Futex {
        &self.beds[worker]
    }

    fn ready(&self, _worker: usize) -> bool {
        self.tasks.load(Relaxed) != 0 || self.closed.load(Relaxed)
    }

    fn spin(&self, worker: usize) -> bool {
        self.ready(worker)
    }

    fn sleep_limit(&self, _worker: usize) -> Option<Duration> {
        None
    }

    fn is_plenty(&self) -> bool {
        self.tasks.load(Relaxed) > 1
    }

    fn all_busy(&self) {}
}

/// With so many preemptions; one more in the full form of the tests.
fn explore(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let more = usize::from(std::env::var_os("QUAVER_TEST_FULL").is_some());
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions + more);
    model.check(program);
}

#[test]
fn a_worker_finds_every_task() {
    explore(3, || {
        let office = Office::new(1);
        let worker = loom::thread::spawn({
            let office = office.clone();
            move || office.work(0, 2)
        });
        office.add();
        office.add();
        assert_eq!(worker.join().unwrap(), 2);
    });
}

#[test]
fn two_makers_and_a_worker() {
    explore(2, || {
        let office = Office::new(1);
        let maker = loom::thread::spawn({
            let office = office.clone();
            move || office.add()
        });
        let worker = loom::thread::spawn({
            let office = office.clone();
            move || office.work(0, 2)
        });
        office.add();
        assert_eq!(worker.join().unwrap(), 2);
        maker.join().unwrap();
    });
}

#[test]
fn each_of_two_workers_gets_one() {
    explore(2, || {
        let office = Office::new(2);
        let workers = [0, 1].map(|me| {
            let office = office.clone();
            loom::thread::spawn(move || office.work(me, 1))
        });
        office.add();
        office.add();
        for w in workers {
            assert_eq!(w.join().unwrap(), 1);
        }
    });
}

#[test]
fn closing_wakes_sleepers() {
    explore(3, || {
        let office = Office::new(2);
        let workers = [0, 1].map(|me| {
            let office = office.clone();
            loom::thread::spawn(move || office.work(me, 9))
        });
        office.close();
        // As the runtime does: until all have gone, whoever has fallen asleep since is woken again.
        for w in workers {
            assert_eq!(w.join().unwrap(), 0);
        }
    });
}
