//! Reader-writer lock. The protocol is in [`raw`].

mod raw;

use super::poison;
use crate::park;
use crate::park::shim::const_unless_loom;
use raw::RawRwLock;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// A lock for many readers or one writer, with the interface of [`std::sync::RwLock`].
///
/// A user thread that waits gives its worker to others; an ordinary kernel thread sleeps. Both may
/// use the same lock, and owners may be preempted.
///
/// **Order.** First come, first served, with two exceptions: a thread that finds the lock free
/// takes it, and readers that wait next to each other come in together. A reader does not join
/// other readers while anybody waits, so readers cannot starve writers; a writer that was woken and
/// found the lock taken twice gets it by direct hand-over. It follows that a thread which already
/// reads must not lock for reading again: with a writer waiting in between, both would wait for
/// ever.
///
/// **Poisoning** is as in `std`: when a thread panics while it writes, later calls return an error
/// that still gives access.
///
/// # Examples
///
/// ```
/// use quaver::sync::RwLock;
///
/// let settings = RwLock::new(vec!["quantum"]);
/// {
///     let a = settings.read().unwrap();
///     let b = settings.try_read().unwrap();
///     assert_eq!(a.len(), b.len());
/// }
/// settings.write().unwrap().push("policy");
/// assert_eq!(settings.read().unwrap().len(), 2);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    poison: poison::Flag,
    data: UnsafeCell<T>,
}

// SAFETY: values move between threads only by exclusive access.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share `&T` between threads, writers get `&mut T` one at a time.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// Shared access to the data of a [`RwLock`]; dropping it unlocks.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    _not_send: PhantomData<*const ()>,
}

/// Exclusive access to the data of a [`RwLock`]; dropping it unlocks.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    entry: poison::WasPanicking,
    _not_send: PhantomData<*const ()>,
}

// SAFETY: sharing the guard shares `&T`.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: sharing the guard shares `&T`.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    const_unless_loom! {
        /// Creates an unlocked lock.
        pub fn new(value: T) -> RwLock<T> {
            let data = UnsafeCell::new(value);
            RwLock { raw: RawRwLock::new(), poison: poison::Flag::new(), data }
        }
    }

    /// Takes the lock apart.
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

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading, waiting until it is possible.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error contains the guard.
    ///
    /// # Panics
    ///
    /// If there are more than 2^27 - 1 readers.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.raw.read();
        self.poison.check(self.read_guard())
    }

    /// As [`read`](Self::read), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it was not possible in time, [`TryLockError::Poisoned`] with
    /// the guard if a writer panicked.
    ///
    /// # Panics
    ///
    /// If there are more than 2^27 - 1 readers.
    pub fn read_timeout(&self, timeout: Duration) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.raw.read_deadline(park::deadline_after(timeout)) {
            self.poison.check(self.read_guard()).map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// As [`write`](Self::write), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it was not possible in time, [`TryLockError::Poisoned`] with
    /// the guard if a writer panicked.
    pub fn write_timeout(&self, timeout: Duration) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.raw.write_deadline(park::deadline_after(timeout)) {
            self.poison.check(self.write_guard()).map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Locks for reading if it is possible at this moment. Never waits. Fails while anybody waits
    /// behind other readers.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`], or [`TryLockError::Poisoned`] with the guard if a writer
    /// panicked.
    ///
    /// # Panics
    ///
    /// If there are more than 2^27 - 1 readers.
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.raw.try_read() {
            self.poison.check(self.read_guard()).map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Locks for writing, waiting until nobody else has the lock.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error contains the guard.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.raw.write();
        self.poison.check(self.write_guard())
    }

    /// Locks for writing if nobody has the lock at this moment. Never waits.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`], or [`TryLockError::Poisoned`] with the guard if a writer
    /// panicked.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.raw.try_write() {
            self.poison.check(self.write_guard()).map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Did a writer panic?
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Forgets that a writer panicked.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The data, without locking: `&mut self` proves that nobody else has the lock.
    ///
    /// # Errors
    ///
    /// If it is poisoned; the error contains the reference.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.poison.get();
        let value = self.data.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    fn read_guard(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { lock: self, _not_send: PhantomData }
    }

    fn write_guard(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { lock: self, entry: self.poison.enter(), _not_send: PhantomData }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Turns exclusive into shared access, without giving other writers a chance in between.
    /// Readers that wait at the head of the queue come in too.
    ///
    /// # Examples
    ///
    /// ```
    /// use quaver::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let mut writing = lock.write().unwrap();
    /// *writing = 2;
    /// let reading = RwLockWriteGuard::downgrade(writing);
    /// assert_eq!(*lock.try_read().unwrap(), *reading);
    /// ```
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let guard = ManuallyDrop::new(guard);
        let lock = guard.lock;
        lock.poison.leave(guard.entry);
        lock.raw.downgrade();
        lock.read_guard()
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.read_unlock();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.leave(self.entry);
        self.lock.raw.write_unlock();
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so the calling thread owns a share.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so the calling thread is the writer.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => d.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => d.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => d.field("data", &format_args!("<locked>")),
        };
        d.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    fn until(mut done: impl FnMut() -> bool) {
        while !done() {
            thread::yield_now();
        }
    }

    #[test]
    fn readers_do_not_pass_a_waiting_writer() {
        let lock = Arc::new(RwLock::new(0));
        let reading = lock.read().unwrap();
        let writer = thread::spawn({
            let lock = lock.clone();
            move || *lock.write().unwrap() += 1
        });
        until(|| lock.raw.waiting() == 1);
        assert!(lock.try_read().is_err());
        let reader = thread::spawn({
            let lock = lock.clone();
            move || *lock.read().unwrap()
        });
        until(|| lock.raw.waiting() == 2);
        assert_eq!(*reading, 0);
        drop(reading);
        // FIFO: the writer came first. Nobody else competes, so the reader sees its work.
        assert_eq!(reader.join().unwrap(), 1);
        writer.join().unwrap();
    }

    /// More readers than a batch holds are all inside at once after the writer leaves.
    #[test]
    fn waiting_readers_come_in_together() {
        const N: usize = 40;
        let lock = Arc::new(RwLock::new(()));
        let inside = Arc::new(AtomicUsize::new(0));
        let writing = lock.write().unwrap();
        let readers: Vec<_> = (0..N)
            .map(|_| {
                let (lock, inside) = (lock.clone(), inside.clone());
                thread::spawn(move || {
                    let _reading = lock.read().unwrap();
                    inside.fetch_add(1, SeqCst);
                    until(|| inside.load(SeqCst) == N);
                })
            })
            .collect();
        until(|| lock.raw.waiting() == N);
        drop(writing);
        for r in readers {
            r.join().unwrap();
        }
        assert!(lock.try_write().is_ok());
    }

    #[test]
    fn downgrading_lets_waiting_readers_in_but_no_writer() {
        let lock = Arc::new(RwLock::new(5));
        let writing = lock.write().unwrap();
        let reader = thread::spawn({
            let lock = lock.clone();
            move || *lock.read().unwrap()
        });
        until(|| lock.raw.waiting() == 1);
        let reading = RwLockWriteGuard::downgrade(writing);
        assert_eq!(reader.join().unwrap(), 5);
        assert!(lock.try_write().is_err());
        drop(reading);
        assert!(lock.try_write().is_ok());
    }

    /// A writer in the queue gets the lock even though readers come and go without pause.
    #[test]
    fn a_writer_is_not_starved() {
        let lock = Arc::new(RwLock::new(false));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || until(|| *lock.read().unwrap()))
            })
            .collect();
        *lock.write().unwrap() = true;
        for r in readers {
            r.join().unwrap();
        }
    }
}
