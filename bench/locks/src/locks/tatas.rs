//! Test and test-and-set: all waiters read one word, and try when it is free. (Thomas Anderson,
//! "The performance of spin lock alternatives for shared-memory multiprocessors", 1990.)

use std::hint::spin_loop;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::{BenchLock, Timed};

/// One word.
pub struct Tatas(AtomicBool);

impl Tatas {
    fn try_lock(&self) -> bool {
        !self.0.load(Relaxed) && !self.0.swap(true, Acquire)
    }
}

impl BenchLock for Tatas {
    type Node = ();

    fn create() -> Self {
        Self(AtomicBool::new(false))
    }

    fn lock(&self, (): &mut ()) -> u64 {
        let mut spins = 0;
        while !self.try_lock() {
            spin_loop();
            spins += 1;
        }
        spins
    }

    unsafe fn unlock(&self, (): &mut ()) {
        self.0.store(false, Release);
    }
}

impl Timed for Tatas {
    fn lock_for(&self, (): &mut (), limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.try_lock() {
            if Instant::now() >= until {
                return false;
            }
            spin_loop();
        }
        true
    }
}
