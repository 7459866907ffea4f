//! Operations on threads.

use std::sync::atomic::{AtomicU64, Ordering};

use quaver::sync::mpsc::sync_channel;
use quaver::sync::{Condvar, Mutex};
use quaver_bench_common::Op;
use quaver_bench_common::spec::DETACHED_BATCH;

/// Does `n` iterations of `op` on a user thread.
pub fn iterate(op: Op, n: u64) {
    match op {
        Op::Yield => in_two_threads(|_| (0..n).for_each(|_| quaver::yield_now())),
        Op::SpawnJoin => {
            for _ in 0..n {
                quaver::spawn(|| {}).join().expect("an empty thread does not panic");
            }
        }
        Op::SpawnDetached => (0..n).for_each(|_| spawn_detached()),
        Op::Mutex => {
            let mutex = Mutex::new(0u64);
            for _ in 0..n {
                *mutex.lock().expect("nobody panics") += 1;
            }
        }
        Op::Condvar => {
            let turn = Turn::default();
            in_two_threads(|me| turn.take(me, n));
        }
        Op::Channel => channel(n),
    }
}

/// `n` iterations of `op` in as many loops at once as there are workers.
pub fn everywhere(op: Op, n: u64, workers: u32) {
    quaver::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(move || iterate(op, n));
        }
    });
}

/// Runs `body(0)` and `body(1)` in two threads and waits for both.
fn in_two_threads(body: impl Fn(usize) + Sync) {
    quaver::scope(|scope| {
        for me in 0..2 {
            let body = &body;
            scope.spawn(move || body(me));
        }
    });
}

fn spawn_detached() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    let goal = RAN.load(Ordering::Relaxed) + DETACHED_BATCH;
    for _ in 0..DETACHED_BATCH {
        quaver::spawn_detached(|| {
            RAN.fetch_add(1, Ordering::Relaxed);
        });
    }
    while RAN.load(Ordering::Relaxed) < goal {
        quaver::yield_now();
    }
}

/// Whose turn it is, and a condition variable for each of the two threads.
#[derive(Default)]
struct Turn {
    of: Mutex<usize>,
    changed: [Condvar; 2],
}

impl Turn {
    /// Takes `me`'s turn `n` times.
    fn take(&self, me: usize, n: u64) {
        let mut of = self.of.lock().expect("nobody panics");
        for _ in 0..n {
            of = self.changed[me].wait_while(of, |of| *of != me).expect("nobody panics");
            *of = 1 - me;
            self.changed[1 - me].notify_one();
        }
    }
}

fn channel(n: u64) {
    let (ping, pings) = sync_channel(1);
    let (pong, pongs) = sync_channel(1);
    quaver::scope(|scope| {
        scope.spawn(move || {
            while let Ok(value) = pings.recv() {
                pong.send(value).expect("it listens");
            }
        });
        scope.spawn(move || {
            for i in 0..n {
                ping.send(i).expect("it listens");
                assert_eq!(pongs.recv(), Ok(i));
            }
        });
    });
}
