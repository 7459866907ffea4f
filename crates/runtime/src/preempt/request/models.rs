//! A carrier, its threads and a clock. A request that is lost leaves all of them waiting, which
//! loom reports.

use super::Request;
use crate::park::shim::Futex;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::*};

const FIRST: u64 = 2;
/// The dispatch that lasts until it is preempted.
const HOG: u64 = 4;
/// Nothing is due any more.
const LAST: u64 = 6;

/// A number that one thread waits for.
struct Counter(Futex);

impl Counter {
    fn new() -> Counter {
        Counter(Futex::new(0))
    }

    fn ring(&self) {
        self.0.word().fetch_add(1, AcqRel);
        self.0.wake();
    }

    /// Waits until the bell has been rung more often than `seen`, and counts one of those times.
    fn wait(&self, seen: &mut u32) {
        while self.0.word().fetch_add(0, AcqRel) == *seen {
            self.0.wait(*seen, None);
        }
        *seen += 1;
    }
}

struct Worker {
    request: Request,
    run: AtomicU64,
    /// Signals that were sent.
    signals: Counter,
    /// What clocks wait for: a dispatch, or a request that was judged.
    news: Counter,
}

impl Worker {
    fn dispatch(&self, run: u64) {
        self.run.store(run, Release);
        self.request.new_run();
        self.news.ring();
    }

    /// Without a switch.
    fn judged(&self) {
        self.request.over();
        self.news.ring();
    }

    /// Runs the hog until it is preempted: the handler with an open gate, for each signal.
    fn hog(&self, seen: &mut u32) {
        loop {
            self.signals.wait(seen);
            if self.request.is_for(HOG) {
                return self.dispatch(LAST);
            }
            self.judged();
        }
    }

    /// A clock that finds due whatever runs, and asks again whenever something has changed.
    fn keep_time(&self) {
        let mut seen = 0;
        loop {
            let run = self.run.load(Acquire);
            if run == LAST {
                return;
            }
            if self.request.begin(run, 0, 1, false) {
                self.signals.ring();
            }
            self.news.wait(&mut seen);
        }
    }
}

fn explore(carrier: fn(&Worker)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let worker = Arc::new(Worker {
            request: Request::new(),
            run: AtomicU64::new(FIRST),
            signals: Counter::new(),
            news: Counter::new(),
        });
        let clock = loom::thread::spawn({
            let worker = worker.clone();
            move || worker.keep_time()
        });
        carrier(&worker);
        clock.join().unwrap();
    });
}

/// Requests for the dispatch before come late, and do not keep those for the hog away.
#[test]
fn a_hog_is_preempted() {
    explore(|worker| {
        worker.dispatch(HOG);
        worker.hog(&mut 0);
    });
}

/// A request that finds a section is a flag until its end, whatever runs then.
#[test]
fn a_flag_ends_with_its_section() {
    explore(|worker| {
        // The section of a switch, which the first signal meets.
        let mut seen = 0;
        worker.signals.wait(&mut seen);
        worker.dispatch(HOG);
        worker.judged();
        worker.hog(&mut seen);
    });
}
