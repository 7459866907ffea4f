//! Mutexes, in glibc's layout and with glibc's values. So initialisers, `pthread_mutex_init` and
//! `destroy` are glibc's, and it makes no difference who locks and who unlocks.
//!
//! ```text
//!   0 lock word | 4 depth | 8 owner | 12 users | 16 kind | 20 spins | 24 tail of the queue
//! ```
//!
//! The tail is where glibc links robust mutexes; it leaves that place alone in all others.

use crate::real::real;
use crate::thread;
use crate::time;
use libc::{clockid_t, pthread_mutex_t, timespec};
use quaver_lock::parts;
use std::ffi::c_int;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

#[repr(C)]
struct Mutex {
    word: AtomicU32,
    depth: AtomicU32,
    owner: AtomicU32,
    users: AtomicU32,
    kind: AtomicU32,
    spins: AtomicU32,
    tail: AtomicU32,
}

const _: () = assert!(size_of::<Mutex>() <= size_of::<pthread_mutex_t>());

/// Normal mutexes are 0, adaptive ones 3.
const RECURSIVE: u32 = 1;
const ERRORCHECK: u32 = 2;
const TYPE: u32 = 3;
/// Robust, priority inheritance, priority ceiling, process-shared.
const THEIRS: u32 = 16 | 32 | 64 | 128;

/// # Safety
///
/// `m` is an initialised mutex and stays so.
#[inline]
unsafe fn of<'a>(m: *mut pthread_mutex_t) -> &'a Mutex {
    // SAFETY: the caller's mutex, whose first words are these.
    unsafe { &*m.cast::<Mutex>() }
}

impl Mutex {
    #[inline]
    fn is_theirs(&self) -> bool {
        self.kind.load(Relaxed) & THEIRS != 0
    }

    #[inline]
    fn kind(&self) -> u32 {
        self.kind.load(Relaxed) & TYPE
    }

    /// What becomes of a call by the owner; `None`: it waits, for ever if it must.
    #[inline]
    fn again(&self, me: u32) -> Option<c_int> {
        match self.kind() {
            RECURSIVE if self.owner.load(Relaxed) == me => Some(self.deeper()),
            ERRORCHECK if self.owner.load(Relaxed) == me => Some(libc::EDEADLK),
            _ => None,
        }
    }

    fn deeper(&self) -> c_int {
        match self.depth.load(Relaxed).checked_add(1) {
            None => libc::EAGAIN,
            Some(depth) => {
                self.depth.store(depth, Relaxed);
                0
            }
        }
    }

    /// The caller has just taken the word. `users`: how many begin to use the mutex thereby; one
    /// who comes back from waiting for a condition has never ceased to.
    #[inline]
    fn taken(&self, me: u32, users: u32) -> c_int {
        self.owner.store(me, Relaxed);
        self.users.store(self.users.load(Relaxed).wrapping_add(users), Relaxed);
        if self.kind() == RECURSIVE {
            self.depth.store(1, Relaxed);
        }
        0
    }

    #[inline]
    fn lock(&self, users: u32) -> c_int {
        let me = thread::number();
        if let Some(result) = self.again(me) {
            return result;
        }
        parts::lock(&self.word, &self.tail, None);
        self.taken(me, users)
    }

    fn try_lock(&self) -> c_int {
        let me = thread::number();
        if self.kind() == RECURSIVE && self.owner.load(Relaxed) == me {
            return self.deeper();
        }
        if parts::try_lock(&self.word) { self.taken(me, 1) } else { libc::EBUSY }
    }

    fn clock_lock(&self, clock: clockid_t, at: &timespec) -> c_int {
        let me = thread::number();
        if let Some(result) = self.again(me) {
            return result;
        }
        // The time is looked at only if there is something to wait for.
        if !parts::try_lock(&self.word) {
            let deadline = match time::deadline(clock, at) {
                Ok(deadline) => deadline,
                Err(errno) => return errno,
            };
            if !parts::lock(&self.word, &self.tail, Some(deadline)) {
                return libc::ETIMEDOUT;
            }
        }
        self.taken(me, 1)
    }

    #[inline]
    fn unlock(&self, users: u32) -> c_int {
        let kind = self.kind();
        let owner = self.owner.load(Relaxed);
        let is_ours = owner == thread::number();
        match kind {
            RECURSIVE if !is_ours => return libc::EPERM,
            ERRORCHECK if !is_ours || self.word.load(Relaxed) == 0 => return libc::EPERM,
            RECURSIVE => {
                let depth = self.depth.load(Relaxed).wrapping_sub(1);
                self.depth.store(depth, Relaxed);
                if depth != 0 {
                    return 0;
                }
            }
            _ => {}
        }
        self.owner.store(0, Relaxed);
        self.users.store(self.users.load(Relaxed).wrapping_sub(users), Relaxed);
        if is_ours {
            // SAFETY: the owner is who has taken the word.
            unsafe { parts::unlock(&self.word) }
        } else {
            self.unlock_for_another();
        }
        0
    }

    /// Undefined in POSIX, and done: another thread unlocks, or the mutex is free. The one that
    /// locked it goes on to count as a holder; that costs time only.
    #[cold]
    fn unlock_for_another(&self) {
        let at = self.word.as_ptr();
        if self.word.swap(0, Release) == 2 {
            parts::wake_as(at, 1, parts::ANYONE);
        }
    }
}

/// Unlocks before a wait for a condition. As glibc's: one level of a recursive mutex, and the
/// thread remains a user.
///
/// # Safety
///
/// As `pthread_mutex_unlock`.
pub(crate) unsafe fn unlock_to_wait(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { of(m) } {
        mutex if mutex.is_theirs() => theirs::unlock(m),
        mutex => mutex.unlock(0),
    }
}

/// Locks after a wait for a condition.
///
/// # Safety
///
/// As `pthread_mutex_lock`.
pub(crate) unsafe fn lock_after_wait(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { of(m) } {
        mutex if mutex.is_theirs() => theirs::lock(m),
        mutex => mutex.lock(0),
    }
}

/// glibc's functions. Their callers keep the contract.
mod theirs {
    use super::*;

    #[cold]
    pub(super) fn lock(m: *mut pthread_mutex_t) -> c_int {
        real!("GLIBC_2.2.5", pthread_mutex_lock(m => *mut pthread_mutex_t) -> c_int)
    }

    #[cold]
    pub(super) fn try_lock(m: *mut pthread_mutex_t) -> c_int {
        real!("GLIBC_2.2.5", pthread_mutex_trylock(m => *mut pthread_mutex_t) -> c_int)
    }

    #[cold]
    pub(super) fn clock_lock(
        m: *mut pthread_mutex_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int {
        real!("GLIBC_2.30", pthread_mutex_clocklock(
            m => *mut pthread_mutex_t, clock => clockid_t, at => *const timespec) -> c_int)
    }

    #[cold]
    pub(super) fn unlock(m: *mut pthread_mutex_t) -> c_int {
        real!("GLIBC_2.2.5", pthread_mutex_unlock(m => *mut pthread_mutex_t) -> c_int)
    }
}

/// See `pthread_mutex_lock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { of(m) } {
        mutex if mutex.is_theirs() => theirs::lock(m),
        mutex => mutex.lock(1),
    }
}

/// See `pthread_mutex_trylock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { of(m) } {
        mutex if mutex.is_theirs() => theirs::try_lock(m),
        mutex => mutex.try_lock(),
    }
}

/// See `pthread_mutex_timedlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(
    m: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pthread_mutex_clocklock(m, libc::CLOCK_REALTIME, at) }
}

/// See `pthread_mutex_clocklock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_clocklock(
    m: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { of(m) } {
        mutex if mutex.is_theirs() => theirs::clock_lock(m, clock, at),
        _ if !time::is_known(clock) => libc::EINVAL,
        // SAFETY: the caller's contract.
        mutex => mutex.clock_lock(clock, unsafe { &*at }),
    }
}

/// See `pthread_mutex_unlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { of(m) } {
        mutex if mutex.is_theirs() => theirs::unlock(m),
        mutex => mutex.unlock(1),
    }
}

/// glibc's second name of [`pthread_mutex_lock`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pthread_mutex_lock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pthread_mutex_lock(m) }
}

/// glibc's second name of [`pthread_mutex_trylock`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pthread_mutex_trylock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pthread_mutex_trylock(m) }
}

/// glibc's second name of [`pthread_mutex_unlock`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pthread_mutex_unlock(m: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pthread_mutex_unlock(m) }
}
