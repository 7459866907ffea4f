//! Synchronisation of user threads and kernel threads.
//!
//! The primitives of [`std::sync`], with the same names, signatures and poisoning, and a few that
//! `std` lacks. A user thread that waits here gives its worker to other user threads. An ordinary
//! kernel thread that waits sleeps. Both may share any of these objects, at the same time and in
//! the same queue.
//!
//! | | |
//! |---|---|
//! | exclusion | [`Mutex`], [`RwLock`] |
//! | waiting for a change | [`Condvar`], [`Barrier`], [`WaitGroup`] |
//! | counting | [`Semaphore`] |
//! | once | [`Once`], [`OnceLock`], [`LazyLock`] |
//! | passing values | [`mpsc`], [`oneshot`] |
//! | one of several | [`select`] |
//! | stopping | [`CancelToken`] |
//!
//! **Preemption.** A thread may be preempted while it holds any of these locks. Nobody spins for
//! it: those who want the lock wait in a FIFO queue.
//!
//! **Wake-ups.** Nobody is woken only to wait again where that can be avoided: notifying under a
//! mutex moves threads to the mutex's queue, an unlocked mutex wakes one thread at a time, and
//! values and permits are handed over directly.
//!
//! **Lock types** return the error types of [`std::sync`], which are the same items:
//! [`LockResult`], [`PoisonError`], [`TryLockError`], [`TryLockResult`].
//!
//! **In signal handlers and in non-preemptible regions** none of this may be used.

// How it is built: `park` makes threads wait, `list` holds who waits, `word` joins a list with a
// word of state, and the primitives differ only in what they keep in that word. Each module states
// its invariants. `models` tries all orders of events of short programs; `fairness` simulates long
// ones.

mod barrier;
#[cfg(not(loom))]
mod cancel;
mod condvar;
mod lazy_lock;
pub(crate) mod list;
pub mod mpsc;
pub(crate) mod mutex;
mod once;
mod once_lock;
pub mod oneshot;
mod poison;
mod rwlock;
#[cfg(not(loom))]
mod select;
mod semaphore;
mod wait_group;
pub(crate) mod watch;
mod word;

#[cfg(all(test, shuttle))]
pub(crate) mod fairness;
#[cfg(all(test, loom))]
pub(crate) mod models;

pub use barrier::{Barrier, BarrierWaitResult};
#[cfg(not(loom))]
pub(crate) use cancel::watched;
#[cfg(not(loom))]
pub use cancel::{CancelToken, Cancelled};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
pub use select::{Source, select, select_timeout};
pub use semaphore::{
    AcquireTimeoutError, Closed, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
pub use wait_group::{WaitGroup, WaitGroupGuard};
