//! A word and `futex`, after a number of looks at the word. Without any, it is the purely blocking
//! lock to which FlexGuard normalises its figures. (Drepper, "Futexes are tricky", the second
//! mutex.)

use std::hint::spin_loop;
use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::BenchLock;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A lock that looks `SPINS` times and then sleeps.
pub struct Futex<const SPINS: u32>(AtomicU32);

impl<const SPINS: u32> Futex<SPINS> {
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    fn call(&self, operation: i32, value: u32) {
        // SAFETY: the word outlives the call.
        unsafe {
            let operation = operation | libc::FUTEX_PRIVATE_FLAG;
            let no_limit = null::<libc::timespec>();
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, value, no_limit);
        }
    }
}

impl<const SPINS: u32> BenchLock for Futex<SPINS> {
    type Node = ();

    fn create() -> Self {
        Self(AtomicU32::new(FREE))
    }

    fn lock(&self, (): &mut ()) {
        if self.try_lock() {
            return;
        }
        for _ in 0..SPINS {
            spin_loop();
            if self.0.load(Relaxed) == FREE && self.try_lock() {
                return;
            }
        }
        while self.0.swap(AWAITED, Acquire) != FREE {
            self.call(libc::FUTEX_WAIT, AWAITED);
        }
    }

    unsafe fn unlock(&self, (): &mut ()) {
        if self.0.swap(FREE, Release) == AWAITED {
            self.call(libc::FUTEX_WAKE, 1);
        }
    }
}
