//! Read-write locks. `pthread_rwlock_init` is glibc's, which writes the kind and whether the lock
//! is shared; a shared one is glibc's altogether.
//!
//! ```text
//!   0 state | 4 writers that wait | 24 the writer's thread | 28 shared | 48 kind
//!
//!   state:  31 a writer holds it | 30 readers may sleep | 29 writers may sleep | 28-0 readers
//! ```
//!
//! * A free lock's state is 0: who frees it clears all bits, and wakes all readers and one writer
//!   if their bits were set. Everybody sleeps at the state, as a reader or as a writer.
//! * Who sleeps has set its bit in a state that is not free. A writer that comes from sleep takes
//!   the lock with its bit set, because others may sleep that nobody has woken; one that gives up
//!   does so only after it has set the bit again.
//! * Writers wait for all readers. With the kind `PREFER_WRITER_NONRECURSIVE`, new readers wait for
//!   waiting writers; with the other two they do not, as in glibc, so that a thread may read-lock
//!   twice. When the last waiting writer gives up, the readers behind it are woken.

use crate::real::real;
use crate::thread;
use crate::time;
use libc::{clockid_t, pthread_rwlock_t, timespec};
use quaver_lock::parts::{self, Deadline, Spin};
use std::ffi::c_int;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

#[repr(C)]
struct RwLock {
    state: AtomicU32,
    waiting: AtomicU32,
    unused: [u32; 4],
    writer: AtomicU32,
    shared: AtomicU32,
    unused_too: [u32; 4],
    kind: AtomicU32,
}

const _: () = assert!(
    size_of::<RwLock>() <= size_of::<pthread_rwlock_t>()
        && std::mem::offset_of!(RwLock, shared) == 28
        && std::mem::offset_of!(RwLock, kind) == 48
);

const WRITER: u32 = 1 << 31;
const READERS_SLEEP: u32 = 1 << 30;
const WRITERS_SLEEP: u32 = 1 << 29;
const COUNT: u32 = WRITERS_SLEEP - 1;

/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const WRITERS_FIRST: u32 = 2;

/// As what a thread sleeps.
const AS_READER: u32 = 1;
const AS_WRITER: u32 = 2;

/// # Safety
///
/// `l` is an initialised lock and stays so.
unsafe fn of<'a>(l: *mut pthread_rwlock_t) -> &'a RwLock {
    // SAFETY: the caller's, of at least that size.
    unsafe { &*l.cast::<RwLock>() }
}

impl RwLock {
    fn is_theirs(&self) -> bool {
        self.shared.load(Relaxed) != 0
    }

    fn is_mine(&self) -> bool {
        self.writer.load(Relaxed) == thread::number()
    }

    /// Whether a reader may come in at this state.
    fn is_open(&self, state: u32) -> bool {
        state & WRITER == 0
            && (state == 0
                || self.kind.load(Relaxed) != WRITERS_FIRST
                || self.waiting.load(SeqCst) == 0)
    }

    /// 0, `EBUSY`, or `EAGAIN`: too many readers.
    fn try_read(&self) -> c_int {
        let mut state = self.state.load(Relaxed);
        if !self.is_open(state) {
            return libc::EBUSY;
        }
        parts::enter();
        let result = loop {
            if !self.is_open(state) {
                break libc::EBUSY;
            }
            if state & COUNT == COUNT {
                break libc::EAGAIN;
            }
            match self.state.compare_exchange_weak(state, state + 1, Acquire, Relaxed) {
                Ok(_) => break 0,
                Err(now) => state = now,
            }
        };
        if result != 0 {
            parts::leave();
        }
        result
    }

    fn read(&self, deadline: Option<Deadline>) -> c_int {
        if self.is_mine() {
            return libc::EDEADLK;
        }
        let mut spin = Spin::new();
        loop {
            match self.try_read() {
                libc::EBUSY => {}
                result => return result,
            }
            if spin.again() {
                continue;
            }
            let Some(state) = self.announce(READERS_SLEEP) else { continue };
            // The last waiting writer may have given up before it could see the bit.
            if self.is_open(state) {
                continue;
            }
            if !parts::wait_as(&self.state, state, deadline, AS_READER) {
                return match self.try_read() {
                    libc::EBUSY => libc::ETIMEDOUT,
                    result => result,
                };
            }
            spin = Spin::new();
        }
    }

    /// Sets a bit of those who sleep; the state with it. `None`: the lock is free, or has changed.
    fn announce(&self, bit: u32) -> Option<u32> {
        let state = self.state.load(SeqCst);
        let with = state | bit;
        let done = state != 0
            && (state == with || self.state.compare_exchange(state, with, SeqCst, Relaxed).is_ok());
        done.then_some(with)
    }

    /// `with`: the bit of sleeping writers, or 0.
    fn try_write(&self, with: u32) -> bool {
        if self.state.load(Relaxed) != 0 {
            return false;
        }
        parts::enter();
        let taken = self.state.compare_exchange(0, WRITER | with, Acquire, Relaxed).is_ok();
        if taken {
            self.writer.store(thread::number(), Relaxed);
        } else {
            parts::leave();
        }
        taken
    }

    fn write(&self, deadline: Option<Deadline>) -> c_int {
        if self.is_mine() {
            return libc::EDEADLK;
        }
        if self.try_write(0) {
            return 0;
        }
        self.waiting.fetch_add(1, SeqCst);
        let taken = self.wait_to_write(deadline);
        let was_last = self.waiting.fetch_sub(1, SeqCst) == 1;
        if taken {
            return 0;
        }
        if was_last && self.kind.load(Relaxed) == WRITERS_FIRST {
            // Whoever announces itself later sees that no writer waits.
            self.state.fetch_and(!READERS_SLEEP, SeqCst);
            parts::wake_as(self.state.as_ptr(), i32::MAX, AS_READER);
        }
        libc::ETIMEDOUT
    }

    fn wait_to_write(&self, deadline: Option<Deadline>) -> bool {
        let mut spin = Spin::new();
        let mut with = 0;
        loop {
            if self.try_write(with) {
                return true;
            }
            if spin.again() {
                continue;
            }
            let Some(state) = self.announce(WRITERS_SLEEP) else { continue };
            with = WRITERS_SLEEP;
            if !parts::wait_as(&self.state, state, deadline, AS_WRITER) {
                return self.try_write(with);
            }
            spin = Spin::new();
        }
    }

    fn unlock(&self) {
        // Whoever has it next may free its memory; only the address is used then.
        let at = self.state.as_ptr();
        let before = if self.state.load(Relaxed) & WRITER != 0 {
            self.writer.store(0, Relaxed);
            self.state.swap(0, SeqCst)
        } else {
            let mut state = self.state.load(Relaxed);
            loop {
                let next = if state & COUNT <= 1 { 0 } else { state - 1 };
                match self.state.compare_exchange_weak(state, next, SeqCst, Relaxed) {
                    Ok(_) if next == 0 => break state,
                    Ok(_) => break 0,
                    Err(now) => state = now,
                }
            }
        };
        parts::leave();
        if before & WRITERS_SLEEP != 0 {
            parts::wake_as(at, 1, AS_WRITER);
        }
        if before & READERS_SLEEP != 0 {
            parts::wake_as(at, i32::MAX, AS_READER);
        }
    }

    /// Waits until a time of a clock, by `wait`.
    fn until(
        &self,
        clock: clockid_t,
        at: *const timespec,
        wait: impl FnOnce(&Self, Option<Deadline>) -> c_int,
    ) -> c_int {
        // SAFETY: the time that the caller of one of the functions below gives.
        match time::deadline(clock, unsafe { &*at }) {
            Ok(deadline) => wait(self, Some(deadline)),
            Err(errno) => errno,
        }
    }
}

/// Defines functions; what is glibc's goes there.
macro_rules! defined {
    ($($version:literal $name:ident($($arg:ident: $ty:ty),*) = |$l:ident| $f:expr;)*) => {$(
        #[doc = concat!("See `", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        ///
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(l: *mut pthread_rwlock_t $(, $arg: $ty)*) -> c_int {
            // SAFETY: the caller's contract.
            let $l = unsafe { of(l) };
            if $l.is_theirs() {
                return real!($version,
                    $name(l => *mut pthread_rwlock_t $(, $arg => $ty)*) -> c_int);
            }
            $f
        }
    )*};
}

/// Defines glibc's second names, which some libraries use.
macro_rules! second_names {
    ($($second:ident = $name:ident;)*) => {$(
        #[doc = concat!("The second name of [`", stringify!($name), "`].")]
        ///
        /// # Safety
        ///
        /// As by the first.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $second(l: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { $name(l) }
        }
    )*};
}

second_names! {
    __pthread_rwlock_rdlock = pthread_rwlock_rdlock;
    __pthread_rwlock_wrlock = pthread_rwlock_wrlock;
    __pthread_rwlock_tryrdlock = pthread_rwlock_tryrdlock;
    __pthread_rwlock_trywrlock = pthread_rwlock_trywrlock;
    __pthread_rwlock_unlock = pthread_rwlock_unlock;
}

defined! {
    "GLIBC_2.2.5" pthread_rwlock_rdlock() = |l| l.read(None);
    "GLIBC_2.2.5" pthread_rwlock_wrlock() = |l| l.write(None);
    "GLIBC_2.2.5" pthread_rwlock_tryrdlock() = |l| l.try_read();
    "GLIBC_2.2.5" pthread_rwlock_trywrlock() = |l| {
        if l.try_write(0) { 0 } else { libc::EBUSY }
    };
    "GLIBC_2.2.5" pthread_rwlock_unlock() = |l| {
        l.unlock();
        0
    };
    "GLIBC_2.2.5" pthread_rwlock_timedrdlock(at: *const timespec) = |l| {
        l.until(libc::CLOCK_REALTIME, at, RwLock::read)
    };
    "GLIBC_2.2.5" pthread_rwlock_timedwrlock(at: *const timespec) = |l| {
        l.until(libc::CLOCK_REALTIME, at, RwLock::write)
    };
    "GLIBC_2.30" pthread_rwlock_clockrdlock(clock: clockid_t, at: *const timespec) = |l| {
        l.until(clock, at, RwLock::read)
    };
    "GLIBC_2.30" pthread_rwlock_clockwrlock(clock: clockid_t, at: *const timespec) = |l| {
        l.until(clock, at, RwLock::write)
    };
}
