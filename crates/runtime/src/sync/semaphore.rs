//! Counting semaphore.
//!
//! All state lies under one spin lock, so that taking a permit costs one atomic operation. Permits
//! are handed over: while anybody waits, a released permit goes to the one who has waited longest
//! and is never seen in `permits`. So `permits > 0` and a non-empty list exclude each other, and so
//! do `closed` and a non-empty list (but for the time that closing takes).

use super::list::{Batch, Node, Signal, WaitList};
use crate::park::shim::const_unless_loom;
use crate::park::{self, SpinLock};
use std::error::Error;
use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A counting semaphore: a number of permits that threads take and give back.
///
/// A user thread that waits gives its worker to others; an ordinary kernel thread sleeps. Both may
/// use the same semaphore.
///
/// **Order.** Strictly first come, first served: a permit that becomes free goes to the thread that
/// has waited longest.
///
/// A permit is a guard that gives itself back when it is dropped. To let permits come and go
/// independently, as between the two sides of a queue, [`forget`](SemaphorePermit::forget) the
/// permit and [`add_permits`](Self::add_permits) elsewhere.
///
/// # Examples
///
/// At most two at a time:
///
/// ```
/// use quaver::sync::Semaphore;
///
/// let slots = Semaphore::new(2);
/// let a = slots.acquire().unwrap();
/// let _b = slots.acquire().unwrap();
/// assert!(slots.try_acquire().is_err());
/// drop(a);
/// assert_eq!(slots.available_permits(), 1);
/// ```
pub struct Semaphore {
    state: SpinLock<SemaphoreState>,
}

struct SemaphoreState {
    permits: usize,
    closed: bool,
    waiting: WaitList<()>,
}

impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Semaphore {}

impl Semaphore {
    /// The largest number of permits a semaphore can hold.
    pub const MAX_PERMITS: usize = usize::MAX >> 3;

    const_unless_loom! {
        /// Creates a semaphore that holds `permits` permits.
        ///
        /// # Panics
        ///
        /// If `permits` exceeds [`MAX_PERMITS`](Self::MAX_PERMITS).
        pub fn new(permits: usize) -> Semaphore {
            assert!(permits <= Semaphore::MAX_PERMITS, "too many permits");
            let state = SemaphoreState { permits, closed: false, waiting: WaitList::new() };
            Semaphore { state: SpinLock::new(state) }
        }
    }

    /// Takes a permit, waiting until there is one.
    ///
    /// # Errors
    ///
    /// If the semaphore is [closed](Self::close).
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, Closed> {
        match self.take(None) {
            Ok(()) => Ok(SemaphorePermit { semaphore: self }),
            Err(_) => Err(Closed),
        }
    }

    /// As [`acquire`](Self::acquire), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`AcquireTimeoutError::TimedOut`] or [`AcquireTimeoutError::Closed`].
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, AcquireTimeoutError> {
        self.take(Some(timeout))?;
        Ok(SemaphorePermit { semaphore: self })
    }

    /// Takes a permit if there is one at this moment. Never waits.
    ///
    /// # Errors
    ///
    /// [`TryAcquireError::NoPermits`] or [`TryAcquireError::Closed`].
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(TryAcquireError::Closed);
        }
        if state.permits == 0 {
            return Err(TryAcquireError::NoPermits);
        }
        state.permits -= 1;
        drop(state);
        Ok(SemaphorePermit { semaphore: self })
    }

    /// As [`acquire`](Self::acquire), with a permit that can be moved to another thread.
    ///
    /// # Errors
    ///
    /// If the semaphore is [closed](Self::close).
    pub fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, Closed> {
        match self.take(None) {
            Ok(()) => Ok(OwnedSemaphorePermit { semaphore: self }),
            Err(_) => Err(Closed),
        }
    }

    /// Adds `n` permits, which go to those who wait first.
    ///
    /// # Panics
    ///
    /// If the semaphore would hold more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    pub fn add_permits(&self, mut n: usize) {
        while n > 0 {
            let mut state = self.state.lock();
            let mut batch = Batch::new();
            while n > 0 && !batch.is_full() {
                let Some(first) = state.waiting.pop_live() else { break };
                batch.push(first.signal(Signal::Granted));
                n -= 1;
            }
            let mut fits = true;
            if state.waiting.is_empty() {
                // No overflow: MAX_PERMITS leaves room, and `n` is compared alone first.
                fits = n <= Self::MAX_PERMITS && state.permits + n <= Self::MAX_PERMITS;
                if fits {
                    state.permits += n;
                    n = 0;
                }
            }
            batch.unpark(state.unlock());
            assert!(fits, "too many permits");
        }
    }

    /// How many permits are there at this moment.
    pub fn available_permits(&self) -> usize {
        self.state.lock().permits
    }

    /// Closes the semaphore for good: those who wait, and all who come later, get an error. Permits
    /// that were taken stay valid.
    pub fn close(&self) {
        loop {
            let mut state = self.state.lock();
            state.closed = true;
            let mut batch = Batch::new();
            while !batch.is_full() {
                let Some(first) = state.waiting.pop_live() else { break };
                batch.push(first.signal(Signal::Closed));
            }
            let done = state.waiting.is_empty();
            batch.unpark(state.unlock());
            if done {
                return;
            }
        }
    }

    /// Is the semaphore closed?
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn take(&self, timeout: Option<Duration>) -> Result<(), AcquireTimeoutError> {
        let me = park::current();
        let mut state = self.state.lock();
        if state.closed {
            return Err(AcquireTimeoutError::Closed);
        }
        if state.permits > 0 {
            state.permits -= 1;
            return Ok(());
        }
        let node = Node::new(me, ());
        // SAFETY: the node is new, and `wait` returns when it has been signalled or has removed it.
        unsafe { state.waiting.push_back(NonNull::from(&node)) };
        drop(state);
        self.wait(&node, timeout.and_then(park::deadline_after))
    }

    fn wait(&self, node: &Node<()>, deadline: Option<Instant>) -> Result<(), AcquireTimeoutError> {
        let _waiting = park::waits_for(c"semaphore", self);
        let signal = node.wait_deadline(deadline).unwrap_or_else(|| {
            let mut state = self.state.lock();
            let signal = node.signal();
            if signal == Signal::Waiting {
                // SAFETY: list invariant 5: signals of these nodes are set under this lock, so it
                // is still in the list.
                unsafe { state.waiting.remove(node) };
            }
            signal
        });
        match signal {
            Signal::Granted => Ok(()),
            Signal::Waiting | Signal::Abandoned => Err(AcquireTimeoutError::TimedOut),
            Signal::Woken | Signal::Closed => Err(AcquireTimeoutError::Closed),
        }
    }

    /// Gives one permit back.
    fn release(&self) {
        let mut state = self.state.lock();
        match state.waiting.pop_live() {
            Some(first) => {
                let waiter = first.signal(Signal::Granted);
                let _quiet = state.unlock();
                park::unpark(waiter);
            }
            None => state.permits += 1,
        }
    }

    #[cfg(all(test, not(loom)))]
    fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (permits, closed, waiting) = (state.permits, state.closed, state.waiting.len());
        drop(state);
        f.debug_struct("Semaphore")
            .field("permits", &permits)
            .field("waiting", &waiting)
            .field("closed", &closed)
            .finish()
    }
}

/// A permit of a [`Semaphore`], given back when dropped.
#[must_use = "if unused the permit is given back at once"]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
}

impl SemaphorePermit<'_> {
    /// Never gives the permit back: the semaphore has one less.
    pub fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        self.semaphore.release();
    }
}

/// A permit that keeps its [`Semaphore`] alive, given back when dropped.
///
/// # Examples
///
/// ```
/// use quaver::sync::Semaphore;
/// use std::sync::Arc;
///
/// let slots = Arc::new(Semaphore::new(1));
/// let permit = slots.clone().acquire_owned().unwrap();
/// std::thread::spawn(move || drop(permit)).join().unwrap();
/// assert_eq!(slots.available_permits(), 1);
/// ```
#[must_use = "if unused the permit is given back at once"]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
}

impl OwnedSemaphorePermit {
    /// Never gives the permit back: the semaphore has one less.
    pub fn forget(self) {
        let this = mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped again: the reference goes, the permit stays taken.
        drop(unsafe { ptr::read(&this.semaphore) });
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.semaphore.release();
    }
}

/// The semaphore is closed and gives no more permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

/// Why [`Semaphore::try_acquire`] gave no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryAcquireError {
    /// There is none at this moment.
    NoPermits,
    /// The semaphore is closed.
    Closed,
}

/// Why [`Semaphore::acquire_timeout`] gave no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireTimeoutError {
    /// None came in time.
    TimedOut,
    /// The semaphore is closed.
    Closed,
}

const CLOSED: &str = "the semaphore is closed";

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLOSED)
    }
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::NoPermits => "the semaphore has no permit at the moment",
            TryAcquireError::Closed => CLOSED,
        })
    }
}

impl fmt::Display for AcquireTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcquireTimeoutError::TimedOut => "timed out waiting for a permit",
            AcquireTimeoutError::Closed => CLOSED,
        })
    }
}

impl Error for Closed {}
impl Error for TryAcquireError {}
impl Error for AcquireTimeoutError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::thread;

    fn until(mut done: impl FnMut() -> bool) {
        while !done() {
            thread::yield_now();
        }
    }

    #[test]
    fn permits_go_to_the_longest_waiting() {
        const N: usize = 40;
        let semaphore = Arc::new(Semaphore::new(0));
        let order = Arc::new(Mutex::new(Vec::new()));
        let threads: Vec<_> = (0..N)
            .map(|i| {
                let waiter = thread::spawn({
                    let (semaphore, order) = (semaphore.clone(), order.clone());
                    move || {
                        semaphore.acquire().unwrap().forget();
                        order.lock().unwrap().push(i);
                    }
                });
                until(|| semaphore.waiting() == i + 1);
                waiter
            })
            .collect();
        for i in 0..4 {
            semaphore.add_permits(1);
            until(|| order.lock().unwrap().len() == i + 1);
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
        // More than one batch, and one permit too many.
        semaphore.add_permits(N - 4 + 1);
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!((semaphore.waiting(), semaphore.available_permits()), (0, 1));
    }

    #[test]
    fn nobody_overtakes_a_waiter() {
        let semaphore = Arc::new(Semaphore::new(1));
        let held = semaphore.acquire().unwrap();
        let waiter = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.acquire().unwrap().forget()
        });
        until(|| semaphore.waiting() == 1);
        drop(held);
        // The permit is the waiter's from this moment, whether or not it has run.
        assert_eq!(semaphore.try_acquire().err(), Some(TryAcquireError::NoPermits));
        waiter.join().unwrap();
    }

    #[test]
    fn closing_wakes_everybody() {
        let semaphore = Arc::new(Semaphore::new(0));
        let threads: Vec<_> = (0..40)
            .map(|_| {
                let semaphore = semaphore.clone();
                thread::spawn(move || semaphore.acquire().map(|p| p.forget()))
            })
            .collect();
        until(|| semaphore.waiting() == 40);
        semaphore.close();
        for t in threads {
            assert_eq!(t.join().unwrap(), Err(Closed));
        }
        assert_eq!(semaphore.waiting(), 0);
    }

    #[test]
    fn a_timeout_leaves_the_queue() {
        let semaphore = Semaphore::new(0);
        let result = semaphore.acquire_timeout(Duration::from_millis(2));
        assert_eq!(result.err(), Some(AcquireTimeoutError::TimedOut));
        assert_eq!(semaphore.waiting(), 0);
        semaphore.add_permits(1);
        assert!(semaphore.try_acquire().is_ok());
    }
}
