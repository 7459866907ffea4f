//! Waiting and waking: the contract under every blocking operation of this crate.
//!
//! # The contract
//!
//! A [`Waiter`] names a thread that can wait: a user thread by its handle, or an ordinary kernel
//! thread by its [`KernelParker`]. Four calls make it useful:
//!
//! * [`current`] is the calling thread's own `Waiter`;
//! * [`park`] and [`park_deadline`] block the calling thread (a user thread gives its worker to
//!   others, a kernel thread sleeps in a futex);
//! * [`unpark`] makes the thread's token available, and the thread runnable if it is parked.
//!
//! **Token.** Every thread has one token, as in [`std::thread::park`]. `unpark` puts it there
//! (once, however often it is called); `park` takes it, waiting until it is there. So an `unpark`
//! that comes before the `park` is not lost, and everything written before `unpark` is visible
//! after the `park` that took its token.
//!
//! **Spurious returns.** `park` may return for no reason: signals, tokens of an `unpark` that was
//! meant for an earlier wait, handles and parkers that are used again. Every waiter loops on a
//! condition of its own. In this crate that is the flag of a wait-list node (`sync::list`), set
//! before the `unpark`.
//!
//! **Late calls.** A `Waiter` may be kept and unparked at any later time, even after its thread has
//! ended. Kernel parkers are leaked and pooled, never freed; handles are indices into a table that
//! is never unmapped while the runtime lives. A late `unpark` costs some innocent thread a spurious
//! return and nothing else.
//!
//! **Abandoned waiters.** The user threads of a runtime that has been told to stop never run again,
//! wherever they wait. A `Waiter` knows its runtime, so wakers pass over those
//! ([`Waiter::is_abandoned`]): a wake-up that somebody must receive goes to the next.
//!
//! **One token, one owner.** These tokens belong to this crate's wait loops. A public
//! `park`/`unpark` must keep a flag of its own and loop on it, or a mutex in between would swallow
//! the user's token.
//!
//! **No unwinding.** `park` and `unpark` do not panic and do not unwind: nodes on the parked
//! thread's stack are in the lists of others. For the same reason the stack of a parked thread must
//! not be freed or reused.
//!
//! # Short critical sections
//!
//! [`SpinLock`] and [`Section`] guard the lists in which waiters stand. See `spin` for the rules.

mod kernel;
pub(crate) mod lot;
pub(crate) mod shim;
mod spin;

pub(crate) use kernel::KernelParker;
#[cfg(any(not(loom), shuttle))]
pub(crate) use spin::patience_here;
#[cfg(not(loom))]
pub(crate) use spin::set_workers;
pub(crate) use spin::{Relax, Section, SpinGuard, SpinLock, patience};

use std::ffi::CStr;
use std::fmt;
#[cfg(not(loom))]
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
#[cfg(not(loom))]
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Somebody who can be unparked. Copies may outlive the thread; see the module documentation.
#[derive(Clone, Copy)]
pub(crate) enum Waiter {
    /// A user thread.
    User {
        /// Its handle.
        handle: u32,
        /// The number of its runtime, below 2^31.
        runtime: u32,
    },
    /// A kernel thread, by the parker it holds.
    Kernel(&'static KernelParker),
}

#[cfg(not(loom))]
impl Waiter {
    /// As a word that is never null; [`from_raw`](Waiter::from_raw) reads it.
    pub(crate) fn into_raw(self) -> *mut () {
        match self {
            // Odd, as no address of a parker is.
            Waiter::User { handle, runtime } => {
                ptr::without_provenance_mut((runtime as usize) << 33 | (handle as usize) << 1 | 1)
            }
            Waiter::Kernel(parker) => ptr::from_ref(parker).cast_mut().cast(),
        }
    }

    /// `None` for null.
    ///
    /// # Safety
    ///
    /// The word is null or comes from [`into_raw`](Waiter::into_raw).
    pub(crate) unsafe fn from_raw(raw: *mut ()) -> Option<Waiter> {
        match raw.addr() {
            0 => None,
            word if word & 1 == 1 => {
                Some(Waiter::User { handle: (word >> 1) as u32, runtime: (word >> 33) as u32 })
            }
            // SAFETY: the caller's contract; parkers are never freed.
            _ => Some(Waiter::Kernel(unsafe { &*raw.cast_const().cast() })),
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiter::User { handle, .. } => f.debug_tuple("User").field(handle).finish(),
            Waiter::Kernel(parker) => {
                f.debug_tuple("Kernel").field(&std::ptr::from_ref(*parker)).finish()
            }
        }
    }
}

impl Waiter {
    /// Is this a user thread of a runtime that has been told to stop? It never runs again.
    #[inline]
    pub(crate) fn is_abandoned(self) -> bool {
        Self::is_number_abandoned(self.number())
    }

    /// The number of its runtime; [`NO_RUNTIME`](Self::NO_RUNTIME) for a kernel thread.
    pub(crate) fn number(self) -> u32 {
        match self {
            Waiter::User { runtime, .. } => runtime,
            Waiter::Kernel(_) => Self::NO_RUNTIME,
        }
    }

    /// No runtime has this number.
    pub(crate) const NO_RUNTIME: u32 = u32::MAX;

    /// As [`is_abandoned`](Self::is_abandoned), for those with this [`number`](Self::number).
    #[inline]
    pub(crate) fn is_number_abandoned(number: u32) -> bool {
        number != Self::NO_RUNTIME && (number == 0 || number != RUNNING.load(Relaxed))
    }
}

/// The number of the runtime that runs; 0 when there is none.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// A runtime starts. Its threads are told from those of earlier ones.
#[cfg(not(loom))]
pub(crate) fn runtime_starts() {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    RUNNING.store(NUMBER.fetch_add(1, Relaxed) % (u32::MAX >> 1) + 1, SeqCst);
}

/// The runtime's threads are not run any more.
#[cfg(not(loom))]
pub(crate) fn runtime_stops() {
    RUNNING.store(0, SeqCst);
}

/// In the child of a fork: nobody holds the locks of the parent's other threads.
///
/// # Safety
///
/// There is no other thread.
#[cfg(not(loom))]
pub(crate) unsafe fn in_child() {
    runtime_stops();
    // SAFETY: the caller's contract.
    unsafe { kernel::in_child() };
}

/// The calling thread. On a kernel thread's first call this may allocate.
#[inline]
pub(crate) fn current() -> Waiter {
    match shim::user::current_handle() {
        Some(handle) => Waiter::User { handle, runtime: RUNNING.load(Relaxed) },
        None => Waiter::Kernel(kernel::current()),
    }
}

/// While this lives, debuggers say that the calling thread waits for something.
pub(crate) struct Waiting(());

/// Says what the calling thread is about to wait for: `info uthreads` prints the text and the
/// address. For paths that wait only.
pub(crate) fn waits_for<T: ?Sized>(what: &'static CStr, at: *const T) -> Waiting {
    shim::user::set_waits(what.as_ptr(), at.addr());
    Waiting(())
}

impl Drop for Waiting {
    fn drop(&mut self) {
        shim::user::set_waits(core::ptr::null(), 0);
    }
}

/// Waits for the calling thread's token and takes it. `me` is what [`current`] returned on this
/// thread.
#[inline]
pub(crate) fn park(me: Waiter) {
    park_deadline(me, None);
}

/// As [`park`], but gives up at `deadline`. `false`: timed out, and the token was not there.
#[inline]
pub(crate) fn park_deadline(me: Waiter, deadline: Option<Instant>) -> bool {
    shim::preempt::assert_enabled();
    match me {
        Waiter::User { .. } => shim::user::park_current(deadline),
        Waiter::Kernel(parker) => parker.park_deadline(deadline),
    }
}

/// Makes the token of `waiter` available and wakes it if it is parked. Never blocks; may be called
/// in a non-preemptible region.
#[inline]
pub(crate) fn unpark(waiter: Waiter) {
    match waiter {
        // Another runtime may have given the handle to somebody else.
        Waiter::User { .. } if waiter.is_abandoned() => {}
        Waiter::User { handle, .. } => shim::user::unpark(handle),
        Waiter::Kernel(parker) => parker.unpark(),
    }
}

/// The moment `timeout` from now; `None`, for ever, when the clock cannot represent it.
pub(crate) fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_small_and_printable() {
        assert!(size_of::<Waiter>() <= 16);
        assert_eq!(format!("{:?}", Waiter::User { handle: 7, runtime: 1 }), "User(7)");
        assert!(format!("{:?}", current()).contains('('));
    }

    #[test]
    fn a_waiter_is_a_word() {
        // SAFETY: null, or made from a waiter just now.
        let through = |w: Waiter| unsafe { Waiter::from_raw(w.into_raw()) };
        for handle in [0, 7, (1 << 24) - 1] {
            let user = Waiter::User { handle, runtime: 3 };
            let same = |w| matches!(w, Waiter::User { handle: h, runtime: 3 } if h == handle);
            assert!(through(user).is_some_and(same));
        }
        assert_eq!(format!("{:?}", through(current())), format!("{:?}", Some(current())));
        // SAFETY: null.
        assert!(unsafe { Waiter::from_raw(ptr::null_mut()) }.is_none());
    }

    #[test]
    fn a_far_deadline_is_no_deadline() {
        assert!(deadline_after(Duration::MAX).is_none());
        assert!(deadline_after(Duration::from_secs(1)).is_some());
    }

    #[test]
    fn unpark_reaches_across_threads() {
        let (tx, rx) = std::sync::mpsc::channel();
        let me = current();
        let them = std::thread::spawn(move || {
            let w = current();
            tx.send(w).unwrap();
            park(w);
            unpark(me);
        });
        unpark(rx.recv().unwrap());
        park(me);
        them.join().unwrap();
    }
}
