//! Mutual exclusion. The protocol is in [`raw`].

pub(crate) mod raw;

use super::poison;
use crate::park;
use crate::park::shim::const_unless_loom;
use raw::RawMutex;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// A mutual exclusion lock, with the interface of [`std::sync::Mutex`].
///
/// A user thread that waits gives its worker to others; an ordinary kernel thread sleeps. Both may
/// use the same mutex. The owner may be preempted; threads that then want the lock wait in a queue
/// and cost no processor time.
///
/// **Order.** Waiters are served first come, first served, except that a thread that finds the
/// mutex free takes it, even when others wait. A waiter that was woken and found the mutex taken
/// twice gets it by direct hand-over, so nobody starves.
///
/// **Cost.** Without contention: one compare-and-swap to lock, one locked instruction to unlock.
///
/// **Poisoning** is as in `std`: when a thread panics while it owns the mutex, later calls return
/// an error that still gives access.
///
/// # Examples
///
/// ```
/// use quaver::sync::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// std::thread::scope(|s| {
///     for i in 1..=4 {
///         s.spawn(move || *TOTAL.lock().unwrap() += i);
///     }
/// });
/// assert_eq!(*TOTAL.lock().unwrap(), 10);
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    poison: poison::Flag,
    data: UnsafeCell<T>,
}

// SAFETY: the mutex gives `&mut T` to one thread at a time.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// The right to the data of a locked [`Mutex`]; dropping it unlocks.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized + 'a> {
    lock: &'a Mutex<T>,
    entry: poison::WasPanicking,
    _not_send: PhantomData<*const ()>,
}

// SAFETY: sharing the guard shares `&T`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    const_unless_loom! {
        /// Creates an unlocked mutex.
        pub fn new(value: T) -> Mutex<T> {
            let data = UnsafeCell::new(value);
            Mutex { raw: RawMutex::new(), poison: poison::Flag::new(), data }
        }
    }

    /// Takes the mutex apart.
    ///
    /// # Errors
    ///
    /// If it is poisoned; the error contains the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison.get();
        let value = self.data.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks, waiting until the mutex is free.
    ///
    /// Locking a mutex that the calling thread owns already waits for ever.
    ///
    /// # Errors
    ///
    /// If an owner panicked; the error contains the guard.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.raw.lock();
        self.poison.check(self.guard())
    }

    /// Locks if the mutex is free at this moment. Never waits.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it is locked, [`TryLockError::Poisoned`] with the guard if
    /// an owner panicked.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.raw.try_lock() {
            self.poison.check(self.guard()).map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// As [`lock`](Self::lock), for at most `timeout`. It is a waiter like any other meanwhile. A
    /// timeout of zero is [`try_lock`](Self::try_lock), but may give the worker to others.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if the mutex could not be had in time,
    /// [`TryLockError::Poisoned`] with the guard if an owner panicked.
    ///
    /// ```
    /// use quaver::sync::Mutex;
    /// use std::time::Duration;
    ///
    /// let mutex = Mutex::new(1);
    /// let held = mutex.lock().unwrap();
    /// assert!(mutex.lock_timeout(Duration::from_millis(1)).is_err());
    /// drop(held);
    /// assert_eq!(*mutex.lock_timeout(Duration::from_millis(1)).unwrap(), 1);
    /// ```
    pub fn lock_timeout(&self, timeout: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        if self.raw.try_lock() || self.raw.lock_deadline(park::deadline_after(timeout)) {
            self.poison.check(self.guard()).map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Did an owner panic?
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Forgets that an owner panicked.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The data, without locking: `&mut self` proves that nobody else has the mutex.
    ///
    /// # Errors
    ///
    /// If it is poisoned; the error contains the reference.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.poison.get();
        let value = self.data.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    pub(crate) fn raw(&self) -> &RawMutex {
        &self.raw
    }

    /// The calling thread must own the raw lock.
    #[inline]
    pub(crate) fn guard(&self) -> MutexGuard<'_, T> {
        debug_assert!(self.raw.is_locked());
        #[cfg(not(loom))]
        crate::preempt::extension::taken();
        MutexGuard { lock: self, entry: self.poison.enter(), _not_send: PhantomData }
    }

    pub(crate) fn poison(&self) -> &poison::Flag {
        &self.poison
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(crate) fn mutex(&self) -> &'a Mutex<T> {
        self.lock
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.leave(self.entry);
        self.lock.raw.unlock();
        #[cfg(not(loom))]
        crate::preempt::extension::freed();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so the calling thread owns the lock.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => d.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => d.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => d.field("data", &format_args!("<locked>")),
        };
        d.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    fn until(mut done: impl FnMut() -> bool) {
        while !done() {
            thread::yield_now();
        }
    }

    /// A thread in the queue gets the mutex even though another one locks it again and again
    /// without pause.
    #[test]
    fn a_waiter_is_not_starved_by_barging() {
        let mutex = Arc::new(Mutex::new(0u32));
        for _ in 0..20 {
            let guard = mutex.lock().unwrap();
            let waiter = thread::spawn({
                let mutex = mutex.clone();
                move || *mutex.lock().unwrap() += 1
            });
            until(|| mutex.raw().waiting() == 1);
            let before = *guard;
            drop(guard);
            // The lock is free only for the instant between these two calls.
            until(|| {
                let guard = mutex.lock().unwrap();
                // Keep it until the waiter has come and lost, so that only the hand-over can end
                // this.
                until(|| mutex.raw().waiting() == 1 || *guard > before);
                *guard > before
            });
            waiter.join().unwrap();
        }
        assert_eq!(*mutex.lock().unwrap(), 20);
    }

    #[test]
    fn waiters_are_served_in_order() {
        const N: usize = 6;
        let mutex = Arc::new(Mutex::new(Vec::new()));
        let guard = mutex.lock().unwrap();
        let threads: Vec<_> = (0..N)
            .map(|i| {
                let waiter = thread::spawn({
                    let mutex = mutex.clone();
                    move || mutex.lock().unwrap().push(i)
                });
                until(|| mutex.raw().waiting() == i + 1);
                waiter
            })
            .collect();
        drop(guard);
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(*mutex.lock().unwrap(), (0..N).collect::<Vec<_>>());
    }
}
