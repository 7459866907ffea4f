//! Parking of ordinary kernel threads.
//!
//! # The token
//!
//! ```text
//!   EMPTY --park--> PARKED --unpark--> NOTIFIED --the sleeper--> EMPTY
//!   EMPTY --unpark--> NOTIFIED --park--> EMPTY          (without sleeping)
//!   PARKED --timeout--> EMPTY
//! ```
//!
//! Only the owner moves to PARKED and EMPTY; anybody may move to NOTIFIED. Who finds PARKED when
//! moving to NOTIFIED must wake the futex. With NOTIFIED = EMPTY + 1 and PARKED = EMPTY - 1, `park`
//! is one subtraction.
//!
//! # Lifetime
//!
//! A parker is made when a kernel thread first waits, leaked, and returned to a pool when the
//! thread ends. So the number of parkers is the largest number of kernel threads that existed at a
//! time (plus one for each thread that waits in a thread-local destructor after its parker has been
//! returned: that one is not recycled), and a reference to one is good for ever. A token left by a
//! late `unpark` is a spurious wake-up for the next owner.

use super::shim::Futex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = u32::MAX;

/// The token of a kernel thread and the futex on which the thread sleeps.
pub(crate) struct KernelParker {
    token: Futex,
    #[cfg(not(loom))]
    pooled: pool::PoolLink,
}

impl KernelParker {
    fn new() -> KernelParker {
        KernelParker {
            token: Futex::new(EMPTY),
            #[cfg(not(loom))]
            pooled: pool::PoolLink::new(),
        }
    }

    /// Owner only: waits for the token and takes it. `false`: `deadline` came first.
    pub(crate) fn park_deadline(&self, deadline: Option<Instant>) -> bool {
        let word = self.token.word();
        if word.fetch_sub(1, Acquire) == NOTIFIED {
            return true;
        }
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return word.swap(EMPTY, Acquire) == NOTIFIED;
            }
            self.token.wait(PARKED, left);
            if word.compare_exchange(NOTIFIED, EMPTY, Acquire, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Anybody, at any time: makes the token available.
    pub(crate) fn unpark(&self) {
        if self.token.word().swap(NOTIFIED, Release) == PARKED {
            self.token.wake();
        }
    }
}

#[cfg(not(loom))]
pub(super) use pool::{current, in_child};

#[cfg(not(loom))]
mod pool {
    use super::KernelParker;
    use crate::park::SpinLock;
    use std::cell::{Cell, UnsafeCell};

    /// The next free parker.
    pub(super) struct PoolLink(UnsafeCell<Option<&'static KernelParker>>);

    // SAFETY: the cell is accessed only by the holder of the pool's lock.
    unsafe impl Sync for PoolLink {}

    impl PoolLink {
        pub(super) fn new() -> PoolLink {
            PoolLink(UnsafeCell::new(None))
        }
    }

    static FREE: SpinLock<Option<&'static KernelParker>> = SpinLock::new(None);

    thread_local! {
        static MINE: Cell<Option<&'static KernelParker>> = const { Cell::new(None) };
        static AT_EXIT: GiveBack = const { GiveBack };
    }

    /// Returns the thread's parker when the thread ends.
    struct GiveBack;

    impl Drop for GiveBack {
        fn drop(&mut self) {
            if let Some(parker) = MINE.take() {
                let mut free = FREE.lock();
                // SAFETY: we hold the pool's lock.
                unsafe { *parker.pooled.0.get() = *free };
                *free = Some(parker);
            }
        }
    }

    /// The calling kernel thread's parker.
    #[inline]
    pub(in crate::park) fn current() -> &'static KernelParker {
        MINE.get().unwrap_or_else(obtain)
    }

    /// In the child of a fork another thread may seem to hold the pool's lock. The parkers in it,
    /// and those of threads that do not exist here, are left alone.
    ///
    /// # Safety
    ///
    /// There is no other thread.
    pub(in crate::park) unsafe fn in_child() {
        // SAFETY: nobody else is there to use it.
        unsafe { (&raw const FREE).cast_mut().write(SpinLock::new(None)) };
    }

    #[cold]
    fn obtain() -> &'static KernelParker {
        let parker = take_free().unwrap_or_else(|| Box::leak(Box::new(KernelParker::new())));
        MINE.set(Some(parker));
        // Fails while the thread's destructors run: then nobody gives the parker back, which the
        // module documents.
        let _ = AT_EXIT.try_with(|_| ());
        parker
    }

    fn take_free() -> Option<&'static KernelParker> {
        let mut free = FREE.lock();
        let parker = (*free)?;
        // SAFETY: we hold the pool's lock.
        *free = unsafe { *parker.pooled.0.get() };
        Some(parker)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn one_parker_for_each_thread() {
            let mine = current();
            assert!(std::ptr::eq(mine, current()));
            let theirs = std::thread::spawn(|| std::ptr::from_ref(current()) as usize).join();
            assert_ne!(std::ptr::from_ref(mine) as usize, theirs.unwrap());
        }

        #[test]
        fn a_parker_in_a_thread_local_destructor_is_still_good() {
            struct WaitsAtExit;
            impl Drop for WaitsAtExit {
                fn drop(&mut self) {
                    let parker = current();
                    parker.unpark();
                    assert!(parker.park_deadline(None));
                }
            }
            thread_local!(static LAST: WaitsAtExit = const { WaitsAtExit });
            std::thread::spawn(|| {
                LAST.with(|_| ());
                current();
            })
            .join()
            .unwrap();
        }
    }
}

/// The calling thread's parker in a model: never pooled, since nothing may pass from one execution
/// to the next.
#[cfg(loom)]
pub(super) fn current() -> &'static KernelParker {
    super::shim::thread_local! {
        static MINE: &'static KernelParker = Box::leak(Box::new(KernelParker::new()));
    }
    MINE.with(|parker| *parker)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_early_unpark_is_kept_once() {
        let p = KernelParker::new();
        p.unpark();
        p.unpark();
        assert!(p.park_deadline(None));
        assert!(!p.park_deadline(Some(Instant::now())));
    }

    #[test]
    fn a_timeout_leaves_no_trace() {
        let p = KernelParker::new();
        let start = Instant::now();
        assert!(!p.park_deadline(Some(start + Duration::from_millis(5))));
        assert!(start.elapsed() >= Duration::from_millis(5));
        p.unpark();
        assert!(p.park_deadline(None));
    }

    #[test]
    fn a_past_deadline_still_takes_the_token() {
        let p = KernelParker::new();
        p.unpark();
        assert!(p.park_deadline(Some(Instant::now() - Duration::from_secs(1))));
    }

    #[test]
    fn unpark_wakes_a_sleeper() {
        let p: &'static KernelParker = Box::leak(Box::new(KernelParker::new()));
        let sleeper = std::thread::spawn(move || p.park_deadline(None));
        while p.token.word().load(Relaxed) != PARKED {
            std::thread::yield_now();
        }
        p.unpark();
        assert!(sleeper.join().unwrap());
    }
}
