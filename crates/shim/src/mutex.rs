//! Mutexes: the C library's memory layout, so that every initialiser works, with the waiting of
//! `quaver::foreign`.
//!
//! ```text
//!   0 lock word | 4 depth | 8 owner | 12 users | 16 kind | 20 spins | 24 list
//! ```
//!
//! Normal, adaptive, recursive and error-checking mutexes, and robust ones of one process, are
//! implemented here; priority protocols have no meaning without priorities and are ignored.
//! Process-shared mutexes are the C library's, which waits in the kernel: outside the workers.
//! Those that are robust *and* process-shared are in [`robust`].

use crate::interrupt::{outcome, through_handlers};
use crate::io::off_worker;
use crate::real::real;
use crate::robust;
use crate::say::{Once, once};
use crate::state::{self, Thread};
use crate::time;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};
use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use quaver::foreign::futex::{Deadline, End};
use quaver::foreign::lock;
use std::sync::Mutex as StdMutex;

#[repr(C)]
struct Mutex {
    word: AtomicU32,
    depth: AtomicU32,
    owner: AtomicU32,
    users: AtomicU32,
    kind: AtomicI32,
}

const RECURSIVE: i32 = 1;
const ERRORCHECK: i32 = 2;
const TYPE: i32 = 3;
const ROBUST: i32 = 16;
const INHERITS: i32 = 32;
const SHARED: i32 = 128;

/// Owners that are nobody: the owner has died; and nobody has said that the state is consistent.
const DEAD: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;

/// Robust mutexes that are locked: (owner, mutex).
static ROBUST_HELD: StdMutex<Vec<(u32, usize)>> = StdMutex::new(Vec::new());

unsafe fn of<'a>(m: *mut pthread_mutex_t) -> &'a Mutex {
    // SAFETY: the caller's mutex, whose first words are these.
    unsafe { &*m.cast::<Mutex>() }
}

impl Mutex {
    fn kind(&self) -> i32 {
        self.kind.load(Relaxed)
    }

    /// Is it another module's affair?
    fn is_robust_and_shared(&self) -> bool {
        self.kind() & (ROBUST | SHARED) == ROBUST | SHARED
    }

    fn lock(&self, deadline: Option<Deadline>) -> c_int {
        let kind = self.kind();
        let me = state::my_number();
        if kind & TYPE != 0 && self.owner.load(Relaxed) == me {
            match kind & TYPE {
                RECURSIVE => return self.deeper(),
                ERRORCHECK => return libc::EDEADLK,
                _ => {}
            }
        }
        if lock::try_lock(&self.word) {
            return self.locked(kind, me);
        }
        match through_handlers(deadline, |limits| lock::lock(&self.word, limits)) {
            End::Woken => self.locked(kind, me),
            end => outcome(end),
        }
    }

    fn try_lock(&self) -> c_int {
        let kind = self.kind();
        let me = state::my_number();
        if kind & TYPE == RECURSIVE && self.owner.load(Relaxed) == me {
            return self.deeper();
        }
        if lock::try_lock(&self.word) { self.locked(kind, me) } else { libc::EBUSY }
    }

    fn deeper(&self) -> c_int {
        let depth = self.depth.load(Relaxed);
        if depth == u32::MAX {
            return libc::EAGAIN;
        }
        self.depth.store(depth + 1, Relaxed);
        0
    }

    #[inline]
    fn locked(&self, kind: i32, me: u32) -> c_int {
        if kind & ROBUST != 0 {
            return self.locked_robust(me);
        }
        self.owner.store(me, Relaxed);
        self.depth.store(1, Relaxed);
        0
    }

    #[cold]
    fn locked_robust(&self, me: u32) -> c_int {
        let before = self.owner.load(Relaxed);
        if before == LOST {
            lock::unlock(&self.word);
            return libc::ENOTRECOVERABLE;
        }
        held().push((me, self as *const Mutex as usize));
        self.depth.store(1, Relaxed);
        self.owner.store(me, Relaxed);
        if before == DEAD {
            self.users.store(DEAD, Relaxed);
            return libc::EOWNERDEAD;
        }
        0
    }

    fn unlock(&self) -> c_int {
        let kind = self.kind();
        if kind & (TYPE | ROBUST) != 0 {
            let checked =
                kind & TYPE == RECURSIVE || kind & TYPE == ERRORCHECK || kind & ROBUST != 0;
            if checked && self.owner.load(Relaxed) != state::my_number() {
                return libc::EPERM;
            }
            if kind & TYPE == RECURSIVE {
                let depth = self.depth.load(Relaxed) - 1;
                self.depth.store(depth, Relaxed);
                if depth > 0 {
                    return 0;
                }
            }
        }
        let mut next = 0;
        if kind & ROBUST != 0 {
            let at = self as *const Mutex as usize;
            held().retain(|&(_, m)| m != at);
            if self.users.swap(0, Relaxed) == DEAD {
                next = LOST;
            }
        }
        self.owner.store(next, Relaxed);
        lock::unlock(&self.word);
        0
    }
}

fn held() -> std::sync::MutexGuard<'static, Vec<(u32, usize)>> {
    ROBUST_HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// In the child of a fork: other threads may have been changing the list. Nobody will be told of
/// what the calling thread held, because it ends with the process.
pub(crate) fn in_child() {
    let empty = StdMutex::new(Vec::new());
    // SAFETY: there is no other thread. What the list has allocated is not known, so it is not
    // freed.
    unsafe { (&raw const ROBUST_HELD).cast_mut().write(empty) };
}

/// The thread ends: whoever locks its robust mutexes next is told.
pub(crate) fn abandon_all(t: &Thread) {
    robust::abandon_all(t);
    let mut held = held();
    held.retain(|&(owner, at)| {
        if owner == t.number {
            // SAFETY: a locked mutex exists.
            let m = unsafe { &*(at as *const Mutex) };
            m.owner.store(DEAD, Relaxed);
            m.users.store(0, Relaxed);
            lock::unlock(&m.word);
        }
        owner != t.number
    });
}

/// Can the C library's condition variables not release it? Said once.
///
/// # Safety
///
/// A mutex.
pub(crate) unsafe fn belongs_to_keeper(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the caller's contract.
    let keeps = unsafe { of(mutex) }.is_robust_and_shared();
    if keeps {
        once(
            Once::RobustCond,
            format_args!(
                "process-shared condition variables cannot be used with robust process-shared \
                 mutexes (ENOTSUP)"
            ),
        );
    }
    keeps
}

/// Locks again after a wait on a condition variable.
///
/// # Safety
///
/// As for `pthread_mutex_lock`.
pub(crate) unsafe fn relock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pthread_mutex_lock(mutex) }
}

/// See `pthread_mutex_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attr: *const pthread_mutexattr_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let r = real!(pthread_mutex_init(mutex => *mut pthread_mutex_t,
            attr => *const pthread_mutexattr_t) -> c_int);
        let m = of(mutex);
        if r == 0 {
            // The kernel cannot lend priority to an owner that it does not know.
            m.kind.fetch_and(!INHERITS, Relaxed);
        }
        if r == 0 && m.kind() & ROBUST != 0 {
            let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
            libc::pthread_mutexattr_getpshared(attr, &mut shared);
            if shared == libc::PTHREAD_PROCESS_SHARED {
                return robust::check();
            }
            // The C library marks all robust ones as shared, for the kernel's sake.
            m.kind.fetch_and(!SHARED, Relaxed);
        }
        r
    }
}

/// See `pthread_mutex_destroy(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    let m = unsafe { of(mutex) };
    if m.kind() & SHARED != 0 {
        // SAFETY: as above.
        return unsafe { real!(pthread_mutex_destroy(mutex => *mut pthread_mutex_t) -> c_int) };
    }
    if lock::is_locked(&m.word) {
        return libc::EBUSY;
    }
    m.kind.store(-1, Relaxed);
    0
}

/// See `pthread_mutex_lock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let m = of(mutex);
        if m.is_robust_and_shared() {
            return robust::lock(mutex, None);
        }
        if m.kind() & SHARED != 0 {
            let r = real!(pthread_mutex_trylock(mutex => *mut pthread_mutex_t) -> c_int);
            if r != libc::EBUSY {
                return r;
            }
            return off_worker(
                || real!(pthread_mutex_lock(mutex => *mut pthread_mutex_t) -> c_int),
            );
        }
        m.lock(None)
    }
}

/// See `pthread_mutex_trylock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let m = of(mutex);
        if m.is_robust_and_shared() {
            return robust::try_lock(mutex);
        }
        if m.kind() & SHARED != 0 {
            return real!(pthread_mutex_trylock(mutex => *mut pthread_mutex_t) -> c_int);
        }
        m.try_lock()
    }
}

/// See `pthread_mutex_unlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let m = of(mutex);
        if m.is_robust_and_shared() {
            return robust::unlock(mutex);
        }
        if m.kind() & SHARED != 0 {
            return real!(pthread_mutex_unlock(mutex => *mut pthread_mutex_t) -> c_int);
        }
        m.unlock()
    }
}

/// See `pthread_mutex_clocklock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let m = of(mutex);
        if m.is_robust_and_shared() {
            return robust::lock(mutex, at.as_ref().map(|at| (clock, at)));
        }
        if m.kind() & SHARED != 0 {
            return off_worker(|| {
                real!(pthread_mutex_clocklock(mutex => *mut pthread_mutex_t, clock => clockid_t,
                    at => *const timespec) -> c_int)
            });
        }
        // Only who has to wait may find fault with the time.
        match m.try_lock() {
            libc::EBUSY => {}
            r => return r,
        }
        match time::deadline(clock, at) {
            Ok(deadline) => m.lock(deadline),
            Err(errno) => errno,
        }
    }
}

/// See `pthread_mutex_timedlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: handed on.
    unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, at) }
}

/// See `pthread_mutex_consistent(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_consistent(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    let m = unsafe { of(mutex) };
    if m.is_robust_and_shared() {
        // SAFETY: as above.
        return unsafe { robust::make_consistent(mutex) };
    }
    if m.kind() & ROBUST == 0 || m.users.load(Relaxed) != DEAD {
        return libc::EINVAL;
    }
    m.users.store(0, Relaxed);
    0
}
