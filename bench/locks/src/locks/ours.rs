//! Quaver's lock, with a monitor if the process has attached one. (FlexGuard 3.)

use std::time::Duration;

use super::{BenchLock, Timed};

impl BenchLock for quaver_lock::Lock {
    type Node = ();

    fn create() -> Self {
        Self::new()
    }

    fn lock(&self, (): &mut ()) -> u64 {
        // It counts its pauses by itself: `quaver_lock::pauses`.
        quaver_lock::Lock::lock(self);
        0
    }

    unsafe fn unlock(&self, (): &mut ()) {
        // SAFETY: held by the calling thread, as the caller sees to.
        unsafe { quaver_lock::Lock::unlock(self) }
    }
}

impl Timed for quaver_lock::Lock {
    fn lock_for(&self, (): &mut (), limit: Duration) -> bool {
        self.try_lock_for(limit)
    }
}
