//! What interfaces for other languages are built from: `quaver-capi` and `quaver-shim`.
//!
//! Not for programs, and without promises about its stability: use the crate's public interface, or `quaver.h`.
//!
//! The synchronisation objects here are the algorithms of C: each lives in a few 32-bit words that the caller owns, is ready
//! when they are zero, has no destructor, and can be waited for with a limit ([`futex::Limits`]): a deadline, or an
//! interruption such as the cancellation of a thread. User threads and kernel threads may share any of them. A thread may
//! be preempted anywhere in them: whoever meets its traces waits as a user thread.
//!
//! Like those of the C library, they are not fair: a woken thread competes with those that come by. Rust programs have
//! better ones in [`crate::sync`].

pub mod barrier;
pub mod blocking;
pub mod condvar;
pub mod fork;
pub mod futex;
pub mod lock;
pub mod once;
pub mod region;
pub mod reserved;
pub mod rwlock;
pub mod semaphore;
pub mod sleep;
pub mod thread;
