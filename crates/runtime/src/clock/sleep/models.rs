//! One worker, one queue. A lost wake-up leaves a thread due and the clock asleep: loom reports
//! that all threads are blocked.

use super::Sleep;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};

/// A worker as the clock sees it.
struct Worker {
    sleep: Sleep,
    /// The dispatch, 0 when nothing runs.
    run: AtomicU64,
    waiting: AtomicUsize,
    stopping: AtomicBool,
}

impl Worker {
    fn new(run: u64, waiting: usize) -> Arc<Worker> {
        Arc::new(Worker {
            sleep: Sleep::new(),
            run: AtomicU64::new(run),
            waiting: AtomicUsize::new(waiting),
            stopping: AtomicBool::new(false),
        })
    }

    /// What `preempt_at` says: at once, where something runs and something waits.
    fn due(&self) -> Option<u64> {
        (self.run.load(Acquire) != 0 && self.waiting.load(Acquire) != 0).then_some(1)
    }

    /// The clock's thread, until it has found the worker's thread due or must stop.
    fn keep_time(&self) {
        let ends = || self.due().is_some() || self.stopping.load(Relaxed);
        loop {
            self.sleep.begin_to_look();
            if ends() {
                return;
            }
            if self.sleep.announce() {
                if ends() {
                    return;
                }
                self.sleep.sleep(super::NEVER, None);
            }
        }
    }
}

fn explore(program: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(program);
}

fn with_clock(worker: &Arc<Worker>, program: impl FnOnce()) {
    let clock = loom::thread::spawn({
        let worker = worker.clone();
        move || worker.keep_time()
    });
    program();
    clock.join().unwrap();
}

/// A worker's thread yields to another: the dispatch comes first, then the queue.
#[test]
fn a_thread_is_queued_behind_the_one_that_it_gave_way_to() {
    explore(|| {
        let worker = Worker::new(1, 0);
        with_clock(&worker, || {
            worker.run.store(2, Release);
            worker.waiting.store(1, Release);
            Sleep::publish();
            worker.sleep.wants(|| worker.due());
        });
    });
}

/// Somebody else makes work while the worker begins to run a thread.
#[test]
fn work_and_dispatch_come_from_two_sides() {
    explore(|| {
        let worker = Worker::new(0, 0);
        let maker = worker.clone();
        let maker = loom::thread::spawn(move || {
            maker.waiting.fetch_add(1, Release);
            fence(SeqCst);
            maker.sleep.wants(|| maker.due());
        });
        with_clock(&worker, || {
            worker.run.store(2, Release);
            // As a worker does that comes from idling.
            fence(SeqCst);
            worker.sleep.wants(|| worker.due());
            maker.join().unwrap();
        });
    });
}

/// The clock knows when its sleep ends, and is woken for what is due earlier.
#[test]
fn a_nudge_is_not_lost() {
    explore(|| {
        let worker = Worker::new(0, 0);
        with_clock(&worker, || {
            worker.run.store(2, Relaxed);
            worker.waiting.store(1, Relaxed);
            worker.sleep.nudge();
        });
    });
}

/// The end, told again and again as a shutdown does it, or once after a fence.
#[test]
fn a_clock_that_must_stop_does() {
    explore(|| {
        let worker = Worker::new(1, 0);
        with_clock(&worker, || {
            worker.stopping.store(true, SeqCst);
            worker.sleep.nudge();
        });
    });
}
