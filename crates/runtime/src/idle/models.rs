//! Tasks are numbers in one counter; workers take one at a time. A lost wake-up leaves tasks and
//! sleeping workers: loom reports that all threads are blocked.
//!
//! What arrives in files is a number, too, of which only the listener hears, and makes tasks of it.

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
    files: Files,
}

/// What the kernel does.
struct Files {
    in_use: AtomicBool,
    /// The listener, and one more.
    listener: AtomicUsize,
    arrived: AtomicUsize,
    /// 1: called, or something has arrived.
    ear: Futex,
}

impl Files {
    fn new(in_use: bool) -> Files {
        Files {
            in_use: AtomicBool::new(in_use),
            listener: AtomicUsize::new(0),
            arrived: AtomicUsize::new(0),
            ear: Futex::new(0),
        }
    }

    fn ring(&self) {
        self.ear.word().store(1, SeqCst);
        self.ear.wake();
    }

    fn arrive(&self) {
        self.arrived.fetch_add(1, SeqCst);
        self.ring();
    }
}

impl Office {
    fn new(workers: usize) -> Arc<Office> {
        Office::with_files(workers, Files::new(false))
    }

    fn with_files(workers: usize, files: Files) -> Arc<Office> {
        Arc::new(Office {
            files,
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

    type Heard = usize;

    fn begin_listening(&self, worker: usize) -> bool {
        self.files.in_use.load(Acquire)
            && self.files.listener.compare_exchange(0, worker + 1, SeqCst, Relaxed).is_ok()
    }

    fn lacks_listener(&self) -> bool {
        self.files.in_use.load(Acquire) && self.files.listener.load(SeqCst) == 0
    }

    fn listen(&self, _worker: usize, _limit: Option<Duration>) -> usize {
        self.files.ear.wait(0, None);
        self.files.ear.word().store(0, SeqCst);
        self.files.arrived.swap(0, SeqCst)
    }

    fn call_listener(&self) {
        self.files.ring();
    }

    fn end_listening(&self) {
        self.files.listener.store(0, SeqCst);
    }

    fn heard(&self, _worker: usize, arrived: usize) {
        self.tasks.fetch_add(arrived, SeqCst);
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

#[test]
fn the_listener_hears_arrivals_and_calls() {
    explore(3, || {
        let office = Office::with_files(1, Files::new(true));
        let worker = loom::thread::spawn({
            let office = office.clone();
            move || office.work(0, 2)
        });
        office.files.arrive();
        office.add();
        assert_eq!(worker.join().unwrap(), 2);
    });
}

#[test]
fn one_listens_while_another_sleeps() {
    explore(2, || {
        let office = Office::with_files(2, Files::new(true));
        let done = Arc::new(AtomicUsize::new(0));
        let workers = [0, 1].map(|me| {
            let (office, done) = (office.clone(), done.clone());
            loom::thread::spawn(move || {
                // Who has worked listens again: nobody is busy for long.
                while office.work(me, 1) == 1 {
                    if done.fetch_add(1, SeqCst) == 1 {
                        office.close();
                    }
                }
            })
        });
        office.add();
        office.files.arrive();
        for w in workers {
            w.join().unwrap();
        }
        assert_eq!(done.load(SeqCst), 2);
    });
}

#[test]
fn files_come_into_use_while_all_sleep() {
    explore(3, || {
        let office = Office::with_files(1, Files::new(false));
        let worker = loom::thread::spawn({
            let office = office.clone();
            move || office.work(0, 1)
        });
        // Somebody without a worker begins to wait for a file.
        office.files.in_use.store(true, SeqCst);
        if office.lacks_listener() {
            office.idle.wake_to_listen(&*office);
        }
        office.files.arrive();
        assert_eq!(worker.join().unwrap(), 1);
    });
}
