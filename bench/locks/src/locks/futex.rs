//! A word and `futex`, after a number of looks at the word. Without any, it is the purely blocking
//! lock to which FlexGuard normalises its figures; with some, spin-then-park (FlexGuard 2.2).
//! (Ulrich Drepper, "Futexes are tricky", 2011, the second mutex.)

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::{BenchLock, Timed, sleep};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A lock that looks `SPINS` times and then sleeps.
pub struct Futex<const SPINS: u32>(AtomicU32);

impl<const SPINS: u32> Futex<SPINS> {
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    /// How often it has looked, if it got the lock by that.
    fn spin(&self) -> Result<u64, u64> {
        for looks in 0..u64::from(SPINS) {
            spin_loop();
            if self.0.load(Relaxed) == FREE && self.try_lock() {
                return Ok(looks + 1);
            }
        }
        Err(u64::from(SPINS))
    }
}

impl<const SPINS: u32> BenchLock for Futex<SPINS> {
    type Node = ();

    fn create() -> Self {
        Self(AtomicU32::new(FREE))
    }

    fn lock(&self, (): &mut ()) -> u64 {
        if self.try_lock() {
            return 0;
        }
        match self.spin() {
            Ok(spins) => spins,
            Err(spins) => {
                while self.0.swap(AWAITED, Acquire) != FREE {
                    sleep::wait(&self.0, AWAITED, None);
                }
                spins
            }
        }
    }

    unsafe fn unlock(&self, (): &mut ()) {
        let word = self.0.as_ptr();
        if self.0.swap(FREE, Release) == AWAITED {
            sleep::wake(word, 1);
        }
    }
}

impl<const SPINS: u32> Timed for Futex<SPINS> {
    fn lock_for(&self, (): &mut (), limit: Duration) -> bool {
        let until = Instant::now() + limit;
        if self.try_lock() || self.spin().is_ok() {
            return true;
        }
        while self.0.swap(AWAITED, Acquire) != FREE {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            sleep::wait(&self.0, AWAITED, Some(left));
        }
        true
    }
}
