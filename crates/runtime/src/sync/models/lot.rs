//! The parking lot: a thread that stands in a list and one that sleeps in the kernel, and who wakes
//! them.

use super::{explore_crowd, join};
use crate::park;
use crate::park::lot::{Lot, Sleepers};
use loom::sync::atomic::{AtomicU32, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const ADDRESS: usize = 64;

/// The kernel's list of sleepers: how many there are, and how many of them have been woken.
#[derive(Default)]
struct Kernel(Mutex<(u32, u32)>, Condvar);

struct Shared {
    word: AtomicU32,
    lot: Lot<1>,
    kernel: Kernel,
}

impl Shared {
    fn sleep_in_kernel(&self) {
        let _counted = self.lot.in_kernel(ADDRESS);
        let mut sleepers = self.kernel.0.lock().unwrap();
        if self.word.load(SeqCst) == 0 {
            sleepers.0 += 1;
            while sleepers.1 == 0 {
                sleepers = self.kernel.1.wait(sleepers).unwrap();
            }
            sleepers.1 -= 1;
        }
    }

    fn stand_in_list(&self) {
        let me = park::current();
        let unchanged = || self.word.load(SeqCst) == 0;
        let sleep = || {
            park::park(me);
            Ok(())
        };
        let _ = self.lot.wait(me, ADDRESS, u32::MAX, unchanged, sleep);
    }

    fn wake(&self, n: u32) -> u32 {
        self.lot.wake(ADDRESS, n, u32::MAX, Sleepers::Counted, |n| {
            let mut sleepers = self.kernel.0.lock().unwrap();
            let woken = n.min(sleepers.0);
            sleepers.0 -= woken;
            sleepers.1 += woken;
            self.kernel.1.notify_all();
            woken
        })
    }
}

fn model(wake: impl Fn(&Shared) + Sync + Send + 'static) {
    explore_crowd(2, move || {
        let shared = Arc::new(Shared {
            word: AtomicU32::new(0),
            lot: Lot::new(),
            kernel: Kernel::default(),
        });
        let waiters = [Shared::sleep_in_kernel, Shared::stand_in_list].map(|wait| {
            let shared = shared.clone();
            thread::spawn(move || wait(&shared))
        });
        shared.word.store(1, SeqCst);
        wake(&shared);
        join(waiters);
        assert_eq!(shared.wake(2), 0);
    });
}

#[test]
fn two_wakes_of_one_reach_both_sides() {
    model(|shared| {
        let woken = shared.wake(1) + shared.wake(1);
        assert!(woken <= 2);
    });
}

#[test]
fn a_wake_of_all_reaches_both_sides() {
    model(|shared| assert!(shared.wake(u32::MAX) <= 2));
}
