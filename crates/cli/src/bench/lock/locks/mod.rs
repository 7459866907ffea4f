//! The locks that are compared, behind one interface.

mod futex;
mod mcs;
mod pthread;

pub use futex::Futex;
pub use mcs::Mcs;
pub use pthread::Pthread;

/// A lock that threads contend for.
pub trait BenchLock: Sync {
    /// What each thread brings.
    type Node: Default;

    /// A free lock.
    fn create() -> Self;

    /// Waits for the lock.
    fn lock(&self, node: &mut Self::Node);

    /// Frees the lock.
    ///
    /// # Safety
    ///
    /// The calling thread has taken it, with this `node`, which has not moved.
    unsafe fn unlock(&self, node: &mut Self::Node);
}

impl BenchLock for quaver_lock::Lock {
    type Node = ();

    fn create() -> Self {
        Self::new()
    }

    fn lock(&self, (): &mut ()) {
        quaver_lock::Lock::lock(self);
    }

    unsafe fn unlock(&self, (): &mut ()) {
        // SAFETY: held by the calling thread, as the caller sees to.
        unsafe { quaver_lock::Lock::unlock(self) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::contend;
    use super::*;

    #[test]
    fn all_locks_exclude() {
        fn check<L: BenchLock>() {
            for threads in [1, 2, 5] {
                let done = contend::run::<L>(threads, Duration::from_millis(30));
                assert!(done.lost == 0 && done.ops > 0, "{done:?}");
            }
        }
        check::<Pthread>();
        check::<Futex<0>>();
        check::<Futex<100>>();
        check::<Mcs>();
        check::<quaver_lock::Lock>();
    }
}
