//! Fairness of every lock in simulated time: nobody starves, and nobody waits longer than is
//! stated, also where the scheduler does its worst.
//!
//! ```text
//! RUSTFLAGS="--cfg loom --cfg shuttle" cargo test -p quaver --profile loom --lib fairness
//! ```
//!
//! The locks are the real ones, on shuttle's atomics. Time is the number of atomic operations. User
//! threads and kernel threads take turn after turn, with hardly a pause, on a simulated
//! [`Machine`].
//!
//! The locks for C are as fair as those of the C library: who has been woken competes with those
//! that come by. A scheduler that stops threads only while they have such a lock gives it to one
//! thread for ever, so that is asked of none but the read-write lock and the condition variable.

pub(crate) mod futex;
mod machine;

use super::mutex::raw::LOSSES;
use super::{Condvar, Mutex, RwLock, Semaphore, mpsc};
use crate::foreign::futex::Limits;
use crate::foreign::{condvar, lock, rwlock, semaphore};
use crate::park::shim::AtomicU32;
use machine::{Ends, Machine, SPAN, Seat, Tally, now, work};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Workers, user threads, kernel threads.
const MACHINES: [(usize, usize, usize); 5] =
    [(1, 4, 0), (2, 5, 0), (1, 3, 1), (2, 4, 2), (1, 0, 4)];
const QUANTA: [usize; 4] = [1, 10, 100, 1000];
/// Steps for which a turn holds what it has taken.
const HOLD: usize = 8;
/// Steps of a whole turn, in which somebody waits and is woken: at most.
const TURN: usize = 50;

/// What is asked of a lock.
#[derive(Clone, Copy)]
struct Fair {
    /// A wait may last as long as so many turns of each thread, each with a quantum.
    rounds: usize,
    /// Each thread has at least this part of an equal share, where quanta are short enough that
    /// threads meet at the lock.
    part: usize,
    /// The first so many threads are not asked for: they serve the others.
    servers: usize,
}

impl Fair {
    const fn new(rounds: usize, part: usize) -> Fair {
        Fair { rounds, part, servers: 0 }
    }

    const fn but_for_the_first(self) -> Fair {
        Fair { servers: 1, ..self }
    }

    fn check(&self, m: &Machine, all: &[Tally]) {
        let tallies = &all[self.servers..];
        let longest = self.rounds * m.threads() * (TURN + m.longest_quantum());
        let equal = tallies.iter().map(|t| t.turns).sum::<usize>() / tallies.len();
        for t in tallies {
            let share = m.quantum > 2 * TURN || t.turns * self.part >= equal;
            assert!(t.longest <= longest && share, "{m:?}: more than {longest}: {all:?}");
        }
    }
}

/// On all machines.
fn simulate<T: Send + Sync + 'static>(
    all_ends: &[Ends],
    fair: Fair,
    make: impl Fn() -> T + Copy + Send + Sync + 'static,
    turn: impl Fn(&T, &Seat) + Copy + Send + Sync + 'static,
) {
    for (workers, users, kernels) in MACHINES {
        // Kernel threads have no quantum.
        let quanta = if users == 0 { 1 } else { QUANTA.len() };
        for &quantum in &QUANTA[..quanta] {
            for &ends in all_ends {
                let m = Machine { workers, users, kernels, quantum, ends };
                m.run(make, turn, move |tallies| fair.check(&m, tallies));
            }
        }
    }
}

const ALL: &[Ends] = &[Ends::Anywhere, Ends::Holding];

/// Who has been passed over [`LOSSES`] times gets it.
const ROUNDS: usize = LOSSES as usize + 1;

#[test]
fn mutex() {
    simulate(
        ALL,
        Fair::new(ROUNDS, 8),
        || Mutex::new(()),
        |mutex, me| {
            let guard = me.take(|| mutex.lock().unwrap());
            me.hold(HOLD);
            drop(guard);
            work(1);
        },
    );
}

fn read_and_write(writes: impl Fn(&Seat) -> bool + Copy + Send + Sync + 'static) {
    simulate(
        ALL,
        Fair::new(ROUNDS, 20),
        || RwLock::new(()),
        move |lock, me| {
            if writes(me) {
                let guard = me.take(|| lock.write().unwrap());
                me.hold(HOLD);
                drop(guard);
            } else {
                let guard = me.take(|| lock.read().unwrap());
                me.hold(HOLD);
                drop(guard);
            }
            work(1);
        },
    );
}

#[test]
fn readers_and_writers() {
    read_and_write(|me| me.number % 2 == 0);
}

#[test]
fn readers_and_one_writer() {
    read_and_write(|me| me.number == 0);
}

#[test]
fn writers_and_one_reader() {
    read_and_write(|me| me.number != 0);
}

/// First come, first served.
#[test]
fn semaphore() {
    simulate(
        ALL,
        Fair::new(2, 2),
        || Semaphore::new(2),
        |semaphore, me| {
            let permit = me.take(|| semaphore.acquire().unwrap());
            me.hold(HOLD);
            drop(permit);
            work(1);
        },
    );
}

/// The first thread serves the others, until all have ended.
fn serve(ended: &AtomicUsize, me: &Seat, mut f: impl FnMut()) {
    f();
    while now() >= SPAN && ended.load(Relaxed) < me.others {
        f();
    }
}

/// It notifies, in its turns with the mutex.
fn serve_with(mutex: &Mutex<()>, ended: &AtomicUsize, me: &Seat, notify: impl Fn()) {
    serve(ended, me, || {
        let guard = mutex.lock().unwrap();
        notify();
        me.hold(HOLD);
        drop(guard);
        work(1);
    });
}

/// What the others do.
fn served(ended: &AtomicUsize, f: impl FnOnce()) {
    f();
    if now() >= SPAN {
        ended.fetch_add(1, Relaxed);
    }
}

/// One thread notifies, in its turns with the mutex.
#[test]
fn condvar() {
    simulate(
        ALL,
        Fair::new(ROUNDS, 2).but_for_the_first(),
        || (Mutex::new(()), Condvar::new(), AtomicUsize::new(0)),
        |(mutex, condvar, ended), me| {
            if me.number == 0 {
                serve_with(mutex, ended, me, || {
                    condvar.notify_one();
                });
            } else {
                served(ended, || {
                    let guard = mutex.lock().unwrap();
                    let guard = me.take(|| condvar.wait(guard).unwrap());
                    me.hold(HOLD);
                    drop(guard);
                    work(1);
                });
            }
        },
    );
}

/// Senders wait for room, which one thread makes.
#[test]
fn channel() {
    simulate(
        ALL,
        Fair::new(2, 4).but_for_the_first(),
        || {
            let (tx, rx) = mpsc::sync_channel(1);
            (tx, std::sync::Mutex::new(rx), AtomicUsize::new(0))
        },
        |(tx, rx, ended), me| {
            if me.number == 0 {
                serve(ended, me, || {
                    // Its sender exists; whether something is there does not matter.
                    let _ = rx.lock().unwrap().try_recv();
                    me.hold(HOLD);
                });
            } else {
                served(ended, || {
                    me.take(|| tx.send(()).unwrap());
                    work(1);
                });
            }
        },
    );
}

const FOREVER: &Limits<'static> = &Limits::NONE;

#[test]
fn mutex_for_c() {
    simulate(
        &[Ends::Anywhere],
        Fair::new(25, 6),
        || AtomicU32::new(lock::FREE),
        |word, me| {
            me.take(|| lock::lock(word, FOREVER));
            me.hold(HOLD);
            lock::unlock(word);
            work(1);
        },
    );
}

#[test]
fn rwlock_for_c() {
    simulate(ALL, Fair::new(30, 6), rwlock::RwLock::default, |lock, me| {
        if me.number % 2 == 0 {
            me.take(|| lock.write(1, FOREVER));
        } else {
            me.take(|| lock.read(true, FOREVER));
        }
        me.hold(HOLD);
        assert!(lock.unlock());
        work(1);
    });
}

#[test]
fn semaphore_for_c() {
    simulate(
        &[Ends::Anywhere],
        Fair::new(15, 5),
        || semaphore::Semaphore::new(2),
        |semaphore, me| {
            me.take(|| semaphore.take(FOREVER));
            me.hold(HOLD);
            assert!(semaphore.post());
            work(1);
        },
    );
}

/// Who waits in the kernel and who waits in the table, by turns.
#[test]
fn condvar_for_c() {
    simulate(
        ALL,
        Fair::new(6, 3).but_for_the_first(),
        || (Mutex::new(()), condvar::Condvar::default(), AtomicUsize::new(0)),
        |(mutex, condvar, ended), me| {
            if me.number == 0 {
                serve_with(mutex, ended, me, || {
                    condvar.notify(1);
                });
            } else {
                served(ended, || {
                    let guard = mutex.lock().unwrap();
                    let registered = condvar.register();
                    drop(guard);
                    me.take(|| condvar.wait(registered, FOREVER));
                    work(HOLD);
                });
            }
        },
    );
}
