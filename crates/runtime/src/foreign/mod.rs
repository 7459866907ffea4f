//! What interfaces for other languages are built from: `quaver-capi` and `quaver-shim`.
//!
//! Not for programs, and without promises about its stability: use the crate's public interface, or
//! `quaver.h`.
//!
//! The synchronisation objects here are the algorithms of C: each lives in a few 32-bit words that
//! the caller owns, is ready when they are zero, has no destructor, and can be waited for with a
//! limit ([`futex::Limits`]): a deadline, or an interruption such as the cancellation of a thread.
//! User threads and kernel threads may share any of them. A thread may be preempted anywhere in
//! them: whoever meets its traces waits as a user thread.
//!
//! Like those of the C library, they are not fair: a woken thread competes with those that come by.
//! Rust programs have better ones in [`crate::sync`].

// With `--cfg loom` only what has a model is compiled.
pub mod barrier;
#[cfg(not(loom))]
pub mod blocking;
#[cfg(not(loom))]
pub mod calls;
#[cfg(not(loom))]
pub mod condvar;
#[cfg(not(loom))]
pub mod confined;
#[cfg(not(loom))]
pub mod files;
#[cfg(not(loom))]
pub mod futex;
#[cfg(not(loom))]
pub mod lock;
#[cfg(not(loom))]
pub mod names;
#[cfg(not(loom))]
pub mod once;
#[cfg(not(loom))]
pub mod overlay;
#[cfg(not(loom))]
pub mod preempt;
#[cfg(not(loom))]
pub mod region;
#[cfg(not(loom))]
pub mod rwlock;
#[cfg(not(loom))]
pub mod semaphore;
#[cfg(not(loom))]
pub mod sys;
#[cfg(not(loom))]
pub mod thread;
#[cfg(not(loom))]
pub mod watch;

#[cfg(not(loom))]
pub use crate::interpose::{pthread, sleep};
#[cfg(not(loom))]
pub use crate::os::{fork, reserved};
