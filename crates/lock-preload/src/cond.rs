//! Condition variables: a queue of waiters, first come, first served.
//!
//! ```text
//!   0 first waiter | 8 last waiter | 32 lock word | 36 users, attributes | 40 lock tail
//! ```
//!
//! A waiter stands in the queue before it unlocks the mutex, so no later signal misses it. A signal
//! takes the first waiter out and gives it a token of its own: nobody else can take it. So a thread
//! that begins to wait after a signal never gets that signal. The waiters lie on their threads'
//! stacks.
//!
//! POSIX allows to destroy a condition variable as soon as a broadcast has freed its waiters. One
//! whose time is up just then still looks whether it is in the queue. So each waiter is counted as
//! a user, in the word and by the rules of glibc, whose `pthread_cond_destroy` waits for them all.
//!
//! The wait itself is glibc's `sem_wait` on the waiter's own semaphore: it is a cancellation point.
//! When it ends by cancellation, glibc calls [`cancelled`] before the handlers of the program: the
//! waiter leaves the queue, or passes on the token that it has got meanwhile, and locks the mutex.

use crate::mutex;
use crate::real::real;
use crate::time;
use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, sem_t, timespec};
use quaver_lock::parts;
use std::ffi::{c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

#[repr(C)]
struct Cond {
    /// Changed under the lock, like everything but the attributes.
    first: AtomicPtr<Waiter>,
    last: AtomicPtr<Waiter>,
    unused: [u64; 2],
    word: AtomicU32,
    /// Of glibc: users by eights, [`DESTROYED`], [`MONOTONIC`], [`SHARED`].
    attributes: AtomicU32,
    tail: AtomicU32,
}

const _: () = assert!(
    size_of::<Cond>() <= size_of::<pthread_cond_t>()
        && std::mem::offset_of!(Cond, attributes) == 36
);

/// Bits of the attributes.
const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;
/// Somebody waits in `pthread_cond_destroy` until there is no user.
const DESTROYED: u32 = 4;
const USER: u32 = 8;

struct Waiter {
    /// Under the lock while it is in the queue; then they belong to whoever has taken it out.
    next: *mut Waiter,
    before: *mut Waiter,
    /// Whether it is in the queue; under the lock.
    waits: bool,
    /// 1 once it has been signalled, which happens at most once.
    token: sem_t,
}

/// # Safety
///
/// `c` is an initialised condition variable and stays so.
unsafe fn of<'a>(c: *mut pthread_cond_t) -> &'a Cond {
    // SAFETY: the caller's, of at least that size.
    unsafe { &*c.cast::<Cond>() }
}

impl Cond {
    fn is_theirs(&self) -> bool {
        self.attributes.load(Relaxed) & SHARED != 0
    }

    fn clock(&self) -> clockid_t {
        match self.attributes.load(Relaxed) & MONOTONIC {
            0 => libc::CLOCK_REALTIME,
            _ => libc::CLOCK_MONOTONIC,
        }
    }

    /// From now until [`leave`](Self::leave) the condition variable is there.
    fn enter(&self) {
        self.attributes.fetch_add(USER, Relaxed);
    }

    /// It may be gone when this returns.
    fn leave(&self) {
        let at = self.attributes.as_ptr();
        let before = self.attributes.fetch_sub(USER, Release);
        if before & !(SHARED | MONOTONIC) == USER | DESTROYED {
            parts::wake_as(at, i32::MAX, parts::ANYONE);
        }
    }

    fn locked<T>(&self, f: impl FnOnce() -> T) -> T {
        parts::lock(&self.word, &self.tail, None);
        let result = f();
        // SAFETY: taken above.
        unsafe { parts::unlock(&self.word) }
        result
    }

    /// # Safety
    ///
    /// `w` is in no queue, and lives until it is out of this one.
    unsafe fn push(&self, w: *mut Waiter) {
        self.locked(|| {
            let last = self.last.load(Relaxed);
            // SAFETY: under the lock, and waiters in the queue live.
            unsafe {
                (*w).before = last;
                (*w).next = null_mut();
                (*w).waits = true;
                match last.as_mut() {
                    Some(last) => last.next = w,
                    None => self.first.store(w, Release),
                }
            }
            self.last.store(w, Relaxed);
        });
    }

    /// Under the lock.
    ///
    /// # Safety
    ///
    /// `w` is in the queue.
    unsafe fn unlink(&self, w: *mut Waiter) {
        // SAFETY: under the lock, and waiters in the queue live.
        unsafe {
            let (before, next) = ((*w).before, (*w).next);
            match before.as_mut() {
                Some(before) => before.next = next,
                None => self.first.store(next, Release),
            }
            match next.as_mut() {
                Some(next) => next.before = before,
                None => self.last.store(before, Relaxed),
            }
            (*w).waits = false;
        }
    }

    /// Takes `w` out, if nobody has done so. False: it has got a token, or will get it at once.
    ///
    /// # Safety
    ///
    /// `w` is the caller's and has been put into this queue.
    unsafe fn give_up(&self, w: *mut Waiter) -> bool {
        self.locked(|| {
            // SAFETY: the caller's waiter; its fields are under the lock.
            unsafe {
                let waits = (*w).waits;
                if waits {
                    self.unlink(w);
                }
                waits
            }
        })
    }

    fn signal(&self) {
        // Who waits has been put here before it has unlocked the mutex.
        if self.first.load(Acquire).is_null() {
            return;
        }
        let w = self.locked(|| {
            let w = self.first.load(Relaxed);
            if !w.is_null() {
                // SAFETY: the first one is in the queue.
                unsafe { self.unlink(w) }
            }
            w
        });
        if !w.is_null() {
            // SAFETY: it does not return before it has the token.
            unsafe { libc::sem_post(&raw mut (*w).token) };
        }
    }

    fn broadcast(&self) {
        if self.first.load(Acquire).is_null() {
            return;
        }
        let mut w = self.locked(|| {
            let all = self.first.load(Relaxed);
            let mut w = all;
            // SAFETY: under the lock, and waiters in the queue live.
            while let Some(waiter) = unsafe { w.as_mut() } {
                waiter.waits = false;
                w = waiter.next;
            }
            self.first.store(null_mut(), Release);
            self.last.store(null_mut(), Relaxed);
            all
        });
        while !w.is_null() {
            // SAFETY: each lives until it has its token.
            unsafe {
                let next = (*w).next;
                libc::sem_post(&raw mut (*w).token);
                w = next;
            }
        }
    }
}

/// Takes a token that is on its way: who gives it has only to make one call more. It sleeps until
/// then, because that thread may have a lower priority. Not a cancellation point.
///
/// # Safety
///
/// `w` was taken out of the queue by a signal, and has not taken its token.
unsafe fn take_token(w: *mut Waiter) {
    // SAFETY: the caller's semaphore; the state of cancellation is put back.
    unsafe {
        let mut before = 0;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before);
        while sem_wait(&raw mut (*w).token) != 0 {}
        pthread_setcancelstate(before, null_mut());
    }
}

/// `struct _pthread_cleanup_buffer`: glibc calls `routine` when it unwinds the frame that this is
/// in. It needs no code in the frame itself, which is Rust's.
#[repr(C)]
struct Cleanup {
    routine: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    kind: c_int,
    before: *mut Cleanup,
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C-unwind" {
    fn _pthread_cleanup_push(
        buffer: *mut Cleanup,
        routine: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(buffer: *mut Cleanup, execute: c_int);
    fn sem_wait(s: *mut sem_t) -> c_int;
    fn sem_clockwait(s: *mut sem_t, clock: clockid_t, at: *const timespec) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// One wait.
struct Wait {
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    waiter: *mut Waiter,
}

/// The thread is cancelled while it waits.
unsafe extern "C" fn cancelled(wait: *mut c_void) {
    // SAFETY: the argument of the frame that is being left, which still exists.
    unsafe {
        let wait = &*wait.cast::<Wait>();
        withdraw(wait);
        of(wait.cond).leave();
        // What it returns cannot be told to anybody; a robust mutex tells it again.
        mutex::lock_after_wait(wait.mutex);
    }
}

/// Leaves the queue; a token that has come meanwhile goes to the next.
///
/// # Safety
///
/// The wait is the caller's.
unsafe fn withdraw(wait: &Wait) {
    // SAFETY: the caller's contract.
    unsafe {
        let cond = of(wait.cond);
        if !cond.give_up(wait.waiter) {
            take_token(wait.waiter);
            cond.signal();
        }
    }
}

/// Waits; with a time, at most until then. No frame with destructors, because cancellation unwinds
/// it.
///
/// # Safety
///
/// As `pthread_cond_wait`; `until` is null or a valid time of `clock`.
unsafe fn wait(
    c: *mut pthread_cond_t,
    m: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: all pointers are to this frame, or the caller's.
    unsafe {
        let mut waiter = std::mem::MaybeUninit::<Waiter>::zeroed().assume_init();
        let waiter = &raw mut waiter;
        libc::sem_init(&raw mut (*waiter).token, 0, 0);
        let mut wait = Wait { cond: c, mutex: m, waiter };
        of(c).enter();
        of(c).push(waiter);
        let refused = mutex::unlock_to_wait(m);
        if refused != 0 {
            withdraw(&wait);
            of(c).leave();
            return refused;
        }
        let errno = libc::__errno_location();
        let before = *errno;
        let mut cleanup =
            Cleanup { routine: None, argument: null_mut(), kind: 0, before: null_mut() };
        _pthread_cleanup_push(&mut cleanup, cancelled, ptr::from_mut(&mut wait).cast());
        let result = loop {
            let result = match until.is_null() {
                true => sem_wait(&raw mut (*waiter).token),
                false => sem_clockwait(&raw mut (*waiter).token, clock, until),
            };
            if result == 0 || *errno != libc::EINTR {
                break result;
            }
        };
        _pthread_cleanup_pop(&mut cleanup, 0);
        *errno = before;
        let mut outcome = 0;
        if result != 0 {
            if of(c).give_up(waiter) {
                outcome = libc::ETIMEDOUT;
            } else {
                // In time after all.
                take_token(waiter);
                *errno = before;
            }
        }
        of(c).leave();
        match mutex::lock_after_wait(m) {
            0 => outcome,
            failed => failed,
        }
    }
}

/// See `pthread_cond_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    c: *mut pthread_cond_t,
    m: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's contract.
    if unsafe { of(c) }.is_theirs() {
        return real!("GLIBC_2.3.2", pthread_cond_wait(
            c => *mut pthread_cond_t, m => *mut pthread_mutex_t) -> c_int);
    }
    // SAFETY: the caller's contract.
    unsafe { wait(c, m, libc::CLOCK_MONOTONIC, ptr::null()) }
}

/// See `pthread_cond_timedwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    c: *mut pthread_cond_t,
    m: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let cond = unsafe { of(c) };
    if cond.is_theirs() {
        return real!("GLIBC_2.3.2", pthread_cond_timedwait(c => *mut pthread_cond_t,
            m => *mut pthread_mutex_t, until => *const timespec) -> c_int);
    }
    // SAFETY: the caller's contract.
    unsafe { pthread_cond_clockwait(c, m, cond.clock(), until) }
}

/// See `pthread_cond_clockwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    c: *mut pthread_cond_t,
    m: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    if unsafe { of(c) }.is_theirs() {
        return real!("GLIBC_2.30", pthread_cond_clockwait(c => *mut pthread_cond_t,
            m => *mut pthread_mutex_t, clock => clockid_t, until => *const timespec) -> c_int);
    }
    // SAFETY: the caller's contract.
    unsafe {
        if let Err(errno) = time::deadline(clock, &*until) {
            return errno;
        }
        wait(c, m, clock, until)
    }
}

/// See `pthread_cond_signal(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(c: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    let cond = unsafe { of(c) };
    if cond.is_theirs() {
        return real!("GLIBC_2.3.2", pthread_cond_signal(c => *mut pthread_cond_t) -> c_int);
    }
    cond.signal();
    0
}

/// See `pthread_cond_broadcast(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(c: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    let cond = unsafe { of(c) };
    if cond.is_theirs() {
        return real!("GLIBC_2.3.2", pthread_cond_broadcast(c => *mut pthread_cond_t) -> c_int);
    }
    cond.broadcast();
    0
}
