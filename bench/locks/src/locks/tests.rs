//! All locks exclude; those that promise more keep it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::*;
use crate::work::crew::{Crew, Done};
use crate::work::shared::SharedMemory;

/// Locks that are on this kernel.
fn here() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| match kind.prepare() {
        Ok(()) => true,
        Err(why) => {
            eprintln!("skipped: {}: {why}", kind.name());
            false
        }
    })
}

fn run(kind: Kind, threads: usize, millis: u64) -> Done {
    let time = Duration::from_millis(millis);
    let crew = Crew { threads, background: 0, time, watch: false };
    let (done, lost) = kind.with(SharedMemory { crew, between: 100 });
    assert_eq!(lost, 0, "{} with {threads} threads", kind.name());
    assert!(done.total() > 0, "{} with {threads} threads", kind.name());
    done
}

#[test]
fn all_locks_exclude() {
    for kind in here() {
        for threads in [1, 2, 5, 16] {
            run(kind, threads, 30);
        }
    }
}

/// With many more threads than CPUs each comes to its turn, where turns are in order.
#[test]
fn queues_are_fair() {
    for kind in [Kind::Mcs, Kind::Malthusian] {
        let done = run(kind, 4, 400);
        assert!(done.ops.iter().all(|&ops| ops > 0), "{}: {:?}", kind.name(), done.ops);
    }
}

/// Threads that hold the lock for a short and for a long time get as much time with it.
#[test]
fn slices_of_ownership_share_the_time() {
    fn held<L: BenchLock>(time: Duration) -> [u64; 2] {
        let (lock, stop) = (L::create(), AtomicBool::new(false));
        let one = |length: u64| {
            let (mut node, mut sum) = (L::Node::default(), 0);
            while !stop.load(Relaxed) {
                lock.lock(&mut node);
                let since = cycles();
                while cycles() - since < length {}
                sum += cycles() - since;
                // SAFETY: taken above, with this node.
                unsafe { lock.unlock(&mut node) };
            }
            sum
        };
        std::thread::scope(|s| {
            let both = [3_000_000, 30_000].map(|length| s.spawn(move || one(length)));
            std::thread::sleep(time);
            stop.store(true, Relaxed);
            both.map(|thread| thread.join().unwrap())
        })
    }
    let [long, short] = held::<UScl>(Duration::from_millis(600));
    let share = short as f64 / (long + short) as f64;
    // By their sections alone it would have a hundredth. A busy machine takes some of its share.
    assert!(share > 0.06, "the short one had {share:.2} of {long} + {short}");
}

/// Calls a function of a type with each lock whose waits can end early.
macro_rules! with_timed_locks {
    ($check:ident) => {
        $check::<Pthread>();
        $check::<Futex<0>>();
        $check::<SpinPark>();
        $check::<Tatas>();
        $check::<McsTp>();
        $check::<quaver_lock::Lock>();
    };
}

/// A wait ends in time, and leaves a lock that works.
#[test]
fn timed_waits_end_in_time() {
    fn check<L: Timed>() {
        let lock = L::create();
        let mut node = L::Node::default();
        lock.lock(&mut node);
        std::thread::scope(|s| {
            let late = s.spawn(|| {
                let mut node = L::Node::default();
                let begun = Instant::now();
                for _ in 0..3 {
                    assert!(!lock.lock_for(&mut node, Duration::from_millis(10)));
                }
                begun.elapsed()
            });
            let took = late.join().unwrap();
            assert!(took >= Duration::from_millis(30), "{took:?}");
            assert!(took < Duration::from_secs(3), "{took:?}");
            let waits = s.spawn(|| {
                let mut node = L::Node::default();
                assert!(lock.lock_for(&mut node, Duration::from_secs(60)));
                // SAFETY: taken above.
                unsafe { lock.unlock(&mut node) };
            });
            std::thread::sleep(Duration::from_millis(5));
            // SAFETY: taken above.
            unsafe { lock.unlock(&mut node) };
            waits.join().unwrap();
        });
        assert!(lock.lock_for(&mut node, Duration::ZERO));
        // SAFETY: taken above.
        unsafe { lock.unlock(&mut node) };
    }
    with_timed_locks!(check);
}

/// Waits that end and waits that succeed, mixed: nothing is lost, nobody hangs.
#[test]
fn timed_waits_exclude() {
    fn check<L: Timed>() {
        struct Shared<L>(L, std::cell::UnsafeCell<u64>);
        // SAFETY: the number is used under the lock only.
        unsafe impl<L: Sync> Sync for Shared<L> {}
        let shared = Shared(L::create(), std::cell::UnsafeCell::new(0));
        let one = |index: u64| {
            let shared = &shared;
            let (mut node, mut taken) = (L::Node::default(), 0);
            for round in 0..3000 {
                let limit = Duration::from_micros((round * 7 + index * 13) % 40);
                if !shared.0.lock_for(&mut node, limit) {
                    continue;
                }
                taken += 1;
                // SAFETY: under the lock.
                unsafe { *shared.1.get() += 1 };
                if round % 64 == index {
                    std::thread::sleep(Duration::from_micros(60));
                }
                // SAFETY: taken above, with this node.
                unsafe { shared.0.unlock(&mut node) };
            }
            taken
        };
        let taken: u64 = std::thread::scope(|s| {
            let all: Vec<_> = (0..4).map(|index| s.spawn(move || one(index))).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(taken > 0);
        assert_eq!(shared.1.into_inner(), taken);
    }
    with_timed_locks!(check);
}

#[test]
fn names_are_different() {
    let mut names = Kind::ALL.map(Kind::name);
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}
