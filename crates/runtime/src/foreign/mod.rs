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

// With `--cfg loom` only what has a model is compiled; with `--cfg shuttle` what is simulated, too.
pub mod barrier;
#[cfg(not(loom))]
pub mod blocking;
#[cfg(not(loom))]
pub mod calls;
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod condvar;
#[cfg(not(loom))]
pub mod confined;
#[cfg(not(loom))]
pub mod files;
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod futex;
#[cfg(any(not(loom), all(test, shuttle)))]
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
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod rwlock;
#[cfg(any(not(loom), all(test, shuttle)))]
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
