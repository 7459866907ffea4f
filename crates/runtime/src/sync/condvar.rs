//! Condition variables.
//!
//! # Protocol
//!
//! A waiter puts its node into the condition variable's list, then unlocks the mutex. A notifier
//! takes nodes out and has them [admitted](super::mutex::raw::RawMutex::admit) to their mutex: when
//! the mutex is locked, as it is by a notifier that holds it, the node moves to the mutex's list
//! and its thread sleeps on until the mutex is released. When the mutex is free one thread is
//! woken, and the others queue behind it. So notifying wakes nobody who would only block again, and
//! `notify_all` causes no stampede.
//!
//! # Timeouts
//!
//! A waiter that times out locks the list. If its node is still in it (`on_condvar`), it takes the
//! node out: the wait timed out. If not, it has been notified: the node is in the mutex's list or
//! on its way there, and the thread waits for the mutex like any other; the wait did not time out.
//!
//! # No waiters
//!
//! `notify` looks at the QUEUED bit without locking. A waiter sets it before it unlocks the mutex,
//! so a notifier that has held the mutex since sees it.

use super::list::{Node, Popped, Signal};
use super::mutex::MutexGuard;
use super::mutex::raw::WantedMutex;
use super::word::{QUEUED, WaitWord};
use crate::park::shim::const_unless_loom;
use crate::park::{self, Section};
use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

/// A condition variable, with the interface of [`std::sync::Condvar`], for
/// [`quaver::sync::Mutex`](super::Mutex).
///
/// Waiting releases the mutex and gives the worker to others (or puts a kernel thread to sleep).
/// Waiters are notified first come, first served. Like any condition variable it may wake a thread
/// that nobody notified, so wait in a loop or with [`wait_while`](Self::wait_while). Different
/// mutexes may be used with one condition variable, though one for each is the custom.
///
/// Notifying while holding the mutex is cheap: the notified threads are not run before the mutex is
/// released.
///
/// # Examples
///
/// ```
/// use quaver::sync::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         *READY.lock().unwrap() = true;
///         CHANGED.notify_one();
///     });
///     let ready = CHANGED.wait_while(READY.lock().unwrap(), |ready| !*ready).unwrap();
///     assert!(*ready);
/// });
/// ```
pub struct Condvar {
    word: WaitWord<WantedMutex>,
}

impl UnwindSafe for Condvar {}
impl RefUnwindSafe for Condvar {}

/// Did a timed wait on a [`Condvar`] end because its time was up?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// `true` if nobody notified the thread in time.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    const_unless_loom! {
        /// Creates a condition variable on which nobody waits.
        pub fn new() -> Condvar {
            Condvar { word: WaitWord::new(0) }
        }
    }

    /// Releases the mutex, waits for a notification, and locks the mutex again. May return without
    /// a notification.
    ///
    /// # Errors
    ///
    /// If the mutex is poisoned when it has been locked again; the error contains the guard.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_deadline(guard, None)
            .map(|(guard, _)| guard)
            .map_err(|e| PoisonError::new(e.into_inner().0))
    }

    /// Waits while `condition` holds, which is asked before the first wait and after each.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_while<'a, T: ?Sized, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait`](Self::wait), for at most `timeout` (locking the mutex again may take longer).
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_deadline(guard, park::deadline_after(timeout))
    }

    /// As [`wait_while`](Self::wait_while), for at most `timeout` in all. The result says
    /// `timed_out` only if the condition still held when the time was up.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout_while<'a, T: ?Sized, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let deadline = park::deadline_after(timeout);
        let mut timed_out = false;
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if timed_out {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let (again, result) = self.wait_deadline(guard, deadline)?;
            (guard, timed_out) = (again, result.timed_out());
        }
    }

    /// Notifies the thread that has waited longest, if any.
    #[inline]
    pub fn notify_one(&self) {
        if self.word.load(Relaxed) & QUEUED != 0 {
            self.notify_queued(1);
        }
    }

    /// Notifies all threads that wait at this moment.
    #[inline]
    pub fn notify_all(&self) {
        if self.word.load(Relaxed) & QUEUED != 0 {
            let mut held = self.word.hold();
            let waiting = held.list().len();
            drop(held.release(0));
            self.notify_queued(waiting);
        }
    }

    /// Notifies up to `n` waiters, one by one, so that preemption can happen in between. Waiters
    /// leave the list by timing out too, so with `n` the length of the list at some moment, all who
    /// were in it then have left it in the end.
    fn notify_queued(&self, n: usize) {
        for _ in 0..n {
            let mut held = self.word.hold();
            let Some(first) = held.list().pop_live() else {
                drop(held.release(0));
                return;
            };
            first.payload().on_condvar.set(false);
            let _quiet: Section = held.release(0);
            admit(first);
        }
    }

    fn wait_deadline<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex();
        let raw = mutex.raw();
        // The lock is released and taken by hand. A panic of the thread's own cannot begin in
        // between.
        mem::forget(guard);
        // The new guard counts again. Nothing is put off for this one: the thread is about to wait.
        #[cfg(not(loom))]
        crate::preempt::extension::given_up();

        let wanted = WantedMutex { mutex: ptr::from_ref(raw), on_condvar: Cell::new(true) };
        let node = Node::new(park::current(), wanted);
        let mut held = self.word.hold();
        // SAFETY: the node is new. Below, either it is removed again or `acquire_queued` has seen
        // its signal.
        unsafe { held.list().push_back(NonNull::from(&node)) };
        drop(held.release(0));
        raw.unlock();

        let waiting = park::waits_for(c"condvar", self);
        let timed_out = node.wait_deadline(deadline).is_none() && self.remove(&node);
        drop(waiting);
        if timed_out {
            raw.lock();
        } else {
            raw.acquire_queued(&node, None);
            raw.note_owner();
        }
        mutex.poison().check((mutex.guard(), WaitTimeoutResult(timed_out)))
    }

    /// Takes the node of a waiter whose time is up out of the list; `false` if it has been
    /// notified.
    #[cold]
    fn remove(&self, node: &Node<WantedMutex>) -> bool {
        let mut held = self.word.hold();
        let here = node.payload().on_condvar.get() && node.signal() == Signal::Waiting;
        if here {
            // SAFETY: `on_condvar` is cleared, or a signal set, whenever a node is taken out.
            unsafe { held.list().remove(node) };
        }
        drop(held.release(0));
        here
    }

    /// How many wait.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn waiting(&self) -> usize {
        let mut held = self.word.hold();
        let n = held.list().len();
        drop(held.release(0));
        n
    }
}

/// Hands a notified node to its mutex.
fn admit(popped: Popped<WantedMutex>) {
    // SAFETY: the node's owner borrows the mutex, and stays in `wait_deadline`, on its way to
    // `acquire_queued`, until the node is signalled: its timeout finds `on_condvar` cleared.
    unsafe { (*popped.payload().mutex).admit(popped) };
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Mutex;
    use std::sync::Arc;
    use std::thread::{self, JoinHandle};

    const N: usize = 20;

    type Shared = Arc<(Mutex<Vec<usize>>, Condvar)>;

    /// Starts threads that wait once, in order, and write down in which order they come back.
    fn waiters(shared: &Shared) -> Vec<JoinHandle<()>> {
        let waiting = |i| {
            let waiter = thread::spawn({
                let shared = shared.clone();
                move || {
                    let guard = shared.0.lock().unwrap();
                    shared.1.wait(guard).unwrap().push(i);
                }
            });
            while shared.1.waiting() != i + 1 {
                thread::yield_now();
            }
            waiter
        };
        (0..N).map(waiting).collect()
    }

    fn join(threads: Vec<JoinHandle<()>>) {
        for t in threads {
            t.join().unwrap();
        }
    }

    #[test]
    fn a_notifier_who_holds_the_mutex_wakes_nobody() {
        let shared: Shared = Arc::default();
        let threads = waiters(&shared);
        let guard = shared.0.lock().unwrap();
        shared.1.notify_one();
        assert_eq!((shared.1.waiting(), shared.0.raw().waiting()), (N - 1, 1));
        shared.1.notify_all();
        assert_eq!((shared.1.waiting(), shared.0.raw().waiting()), (0, N));
        drop(guard);
        join(threads);
        assert_eq!(*shared.0.lock().unwrap(), (0..N).collect::<Vec<_>>());
    }

    #[test]
    fn waiters_are_notified_in_order() {
        let shared: Shared = Arc::default();
        let threads = waiters(&shared);
        for i in 0..N {
            shared.1.notify_one();
            while shared.0.lock().unwrap().len() <= i {
                thread::yield_now();
            }
        }
        join(threads);
        assert_eq!(*shared.0.lock().unwrap(), (0..N).collect::<Vec<_>>());
    }

    #[test]
    fn notify_all_without_the_mutex_wakes_one_after_the_other() {
        let shared: Shared = Arc::default();
        let threads = waiters(&shared);
        shared.1.notify_all();
        join(threads);
        assert_eq!(*shared.0.lock().unwrap(), (0..N).collect::<Vec<_>>());
    }
}
