//! Condition variables, read-write locks, semaphores, barriers, spin locks and onces.
//!
//! Each uses the C library's memory: an object that a static initialiser has made is zero where it matters, and the word in
//! which the C library notes that an object is process-shared stays where it is. Process-shared objects are the C
//! library's; their waits block a kernel thread outside the workers.

use crate::cancel::Point;
use crate::io::off_worker;
use crate::mutex;
use crate::real::real;
use crate::state;
use crate::sys;
use crate::time;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};
use libc::*;
use quaver::foreign::barrier::Barrier;
use quaver::foreign::condvar::Condvar;
use quaver::foreign::futex::{End, Limits};
use quaver::foreign::rwlock::RwLock;
use quaver::foreign::semaphore::{self, Semaphore};
use quaver::foreign::{once, thread};

unsafe fn word<'a, T>(object: *const T, offset: usize) -> &'a AtomicU32 {
    // SAFETY: within the caller's object.
    unsafe { &*object.cast::<u8>().add(offset).cast::<AtomicU32>() }
}

// ---- condition variables: 0 Condvar | 36 flags ----

const COND_FLAGS: usize = 36;
const COND_SHARED: u32 = 1;
const COND_MONOTONIC: u32 = 2;

/// See `pthread_cond_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    cond: *mut pthread_cond_t,
    attr: *const pthread_condattr_t,
) -> c_int {
    let (mut shared, mut clock) = (0, CLOCK_REALTIME);
    // SAFETY: the caller's contract.
    unsafe {
        if !attr.is_null() {
            pthread_condattr_getpshared(attr, &mut shared);
            pthread_condattr_getclock(attr, &mut clock);
        }
        if shared == PTHREAD_PROCESS_SHARED {
            return real!(pthread_cond_init(cond => *mut pthread_cond_t, attr => *const pthread_condattr_t) -> c_int);
        }
        ptr::write_bytes(cond, 0, 1);
        let flags = if clock == CLOCK_MONOTONIC { COND_MONOTONIC } else { 0 };
        word(cond, COND_FLAGS).store(flags, Relaxed);
    }
    0
}

/// See `pthread_cond_destroy(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if word(cond, COND_FLAGS).load(Relaxed) & COND_SHARED != 0 {
            return real!(pthread_cond_destroy(cond => *mut pthread_cond_t) -> c_int);
        }
        (*cond.cast::<Condvar>()).quiesce();
    }
    0
}

unsafe fn cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: Option<clockid_t>,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let flags = word(cond, COND_FLAGS).load(Relaxed);
        let own = if flags & COND_MONOTONIC != 0 { CLOCK_MONOTONIC } else { CLOCK_REALTIME };
        let deadline = match time::deadline(clock.unwrap_or(own), at) {
            Ok(deadline) => deadline,
            Err(errno) => return errno,
        };
        let point = Point::enter();
        let c = &*cond.cast::<Condvar>();
        let registered = c.register();
        let r = mutex::pthread_mutex_unlock(mutex);
        if r != 0 {
            c.wait(registered, &Limits { deadline: None, interrupted: Some(&|| true) });
            return r;
        }
        let end = c.wait(registered, &point.limits(deadline));
        let r = mutex::relock(mutex);
        match end {
            End::Woken => r,
            End::TimedOut if r == 0 => ETIMEDOUT,
            End::TimedOut => r,
            End::Interrupted => {
                point.leave();
                r
            }
        }
    }
}

unsafe fn cond_shared(cond: *mut pthread_cond_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { word(cond, COND_FLAGS) }.load(Relaxed) & COND_SHARED != 0
}

/// See `pthread_cond_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            if mutex::belongs_to_keeper(mutex) {
                return ENOTSUP;
            }
            return off_worker(
                || real!(pthread_cond_wait(cond => *mut pthread_cond_t, mutex => *mut pthread_mutex_t) -> c_int),
            );
        }
        cond_wait(cond, mutex, None, ptr::null())
    }
}

/// See `pthread_cond_timedwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            if mutex::belongs_to_keeper(mutex) {
                return ENOTSUP;
            }
            return off_worker(|| {
                real!(pthread_cond_timedwait(cond => *mut pthread_cond_t, mutex => *mut pthread_mutex_t,
                    at => *const timespec) -> c_int)
            });
        }
        cond_wait(cond, mutex, None, at)
    }
}

/// See `pthread_cond_clockwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            if mutex::belongs_to_keeper(mutex) {
                return ENOTSUP;
            }
            return off_worker(|| {
                real!(pthread_cond_clockwait(cond => *mut pthread_cond_t, mutex => *mut pthread_mutex_t,
                    clock => clockid_t, at => *const timespec) -> c_int)
            });
        }
        cond_wait(cond, mutex, Some(clock), at)
    }
}

/// See `pthread_cond_signal(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            return real!(pthread_cond_signal(cond => *mut pthread_cond_t) -> c_int);
        }
        (*cond.cast::<Condvar>()).notify(1);
    }
    0
}

/// See `pthread_cond_broadcast(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if cond_shared(cond) {
            return real!(pthread_cond_broadcast(cond => *mut pthread_cond_t) -> c_int);
        }
        (*cond.cast::<Condvar>()).notify(u32::MAX);
    }
    0
}

// ---- read-write locks: 0 RwLock | 28 shared | 48 flags ----

const RWLOCK_SHARED: usize = 28;
const RWLOCK_FLAGS: usize = 48;
const PREFER_WRITERS: c_int = 2;

/// See `pthread_rwlock_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attr: *const pthread_rwlockattr_t,
) -> c_int {
    // SAFETY: the caller's contract. The C library's leaves zeroes, the mark and the flags.
    unsafe {
        real!(pthread_rwlock_init(lock => *mut pthread_rwlock_t, attr => *const pthread_rwlockattr_t) -> c_int)
    }
}

/// See `pthread_rwlock_destroy(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(_lock: *mut pthread_rwlock_t) -> c_int {
    0
}

unsafe fn rwlock<'a>(lock: *mut pthread_rwlock_t) -> Option<(&'a RwLock, bool)> {
    // SAFETY: the caller's contract.
    unsafe {
        if word(lock, RWLOCK_SHARED).load(Relaxed) != 0 {
            return None;
        }
        let writers_first = word(lock, RWLOCK_FLAGS).load(Relaxed) as c_int == PREFER_WRITERS;
        Some((&*lock.cast::<RwLock>(), writers_first))
    }
}

fn outcome(end: End) -> c_int {
    match end {
        End::Woken => 0,
        End::TimedOut => ETIMEDOUT,
        End::Interrupted => EINTR,
    }
}

unsafe fn limits(clock: clockid_t, at: *const timespec) -> Result<Limits<'static>, c_int> {
    // SAFETY: the caller's contract.
    unsafe { time::deadline(clock, at) }.map(|deadline| Limits { deadline, interrupted: None })
}

unsafe fn read(lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some((l, writers_first)) = rwlock(lock) else {
            return off_worker(|| {
                if at.is_null() {
                    real!(pthread_rwlock_rdlock(lock => *mut pthread_rwlock_t) -> c_int)
                } else {
                    real!(pthread_rwlock_clockrdlock(lock => *mut pthread_rwlock_t, clock => clockid_t,
                        at => *const timespec) -> c_int)
                }
            });
        };
        if l.writer() != 0 && l.writer() == state::my_number() {
            return EDEADLK;
        }
        if l.try_read(writers_first) {
            return 0;
        }
        match limits(clock, at) {
            Ok(limits) => outcome(l.read(writers_first, &limits)),
            Err(errno) => errno,
        }
    }
}

unsafe fn write(lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some((l, _)) = rwlock(lock) else {
            return off_worker(|| {
                if at.is_null() {
                    real!(pthread_rwlock_wrlock(lock => *mut pthread_rwlock_t) -> c_int)
                } else {
                    real!(pthread_rwlock_clockwrlock(lock => *mut pthread_rwlock_t, clock => clockid_t,
                        at => *const timespec) -> c_int)
                }
            });
        };
        let me = state::my_number();
        if l.writer() == me {
            return EDEADLK;
        }
        if l.try_write(me) {
            return 0;
        }
        match limits(clock, at) {
            Ok(limits) => outcome(l.write(me, &limits)),
            Err(errno) => errno,
        }
    }
}

macro_rules! rwlock_functions {
    ($($(#[$doc:meta])* $plain:ident, $timed:ident, $clocked:ident, $try:ident => $f:ident, $t:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $plain(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: handed on.
            unsafe { $f(lock, CLOCK_REALTIME, ptr::null()) }
        }

        /// With a deadline of the clock of the day.
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $timed(lock: *mut pthread_rwlock_t, at: *const timespec) -> c_int {
            // SAFETY: handed on.
            unsafe { $f(lock, CLOCK_REALTIME, at) }
        }

        /// With a deadline.
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $clocked(
            lock: *mut pthread_rwlock_t,
            clock: clockid_t,
            at: *const timespec,
        ) -> c_int {
            // SAFETY: handed on.
            unsafe { $f(lock, clock, at) }
        }

        /// Without waiting.
        ///
        /// # Safety
        ///
        /// As in the manual.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $try(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: the caller's contract.
            unsafe {
                match rwlock(lock) {
                    Some((l, writers_first)) => if $t(l, writers_first) { 0 } else { EBUSY },
                    None => real!($try(lock => *mut pthread_rwlock_t) -> c_int),
                }
            }
        }
    )*};
}

rwlock_functions! {
    /// See `pthread_rwlock_rdlock(3)`.
    pthread_rwlock_rdlock, pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock, pthread_rwlock_tryrdlock
        => read, |l: &RwLock, writers_first| l.try_read(writers_first);
    /// See `pthread_rwlock_wrlock(3)`.
    pthread_rwlock_wrlock, pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock, pthread_rwlock_trywrlock
        => write, |l: &RwLock, _| l.try_write(state::my_number());
}

/// See `pthread_rwlock_unlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match rwlock(lock) {
            Some((l, _)) => {
                if l.unlock() {
                    0
                } else {
                    EPERM
                }
            }
            None => real!(pthread_rwlock_unlock(lock => *mut pthread_rwlock_t) -> c_int),
        }
    }
}

// ---- semaphores: 0 Semaphore | 8 shared ----

const SEM_SHARED: usize = 8;

unsafe fn sem<'a>(sem: *mut sem_t) -> Option<&'a Semaphore> {
    // SAFETY: the caller's contract.
    unsafe { (word(sem, SEM_SHARED).load(Relaxed) == 0).then(|| &*sem.cast::<Semaphore>()) }
}

fn fail(errno: c_int) -> c_int {
    sys::set_errno(errno);
    -1
}

/// See `sem_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_init(s: *mut sem_t, shared: c_int, value: c_uint) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if shared != 0 {
            return real!(sem_init(s => *mut sem_t, shared => c_int, value => c_uint) -> c_int);
        }
        if value > semaphore::MAX {
            return fail(EINVAL);
        }
        ptr::write_bytes(s, 0, 1);
        s.cast::<Semaphore>().write(Semaphore::new(value));
    }
    0
}

unsafe fn sem_take(s: *mut sem_t, clock: clockid_t, at: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(own) = sem(s) else {
            let r = real!(sem_trywait(s => *mut sem_t) -> c_int);
            if r == 0 || *__errno_location() != EAGAIN {
                return r;
            }
            return off_worker(|| {
                if at.is_null() {
                    real!(sem_wait(s => *mut sem_t) -> c_int)
                } else {
                    real!(sem_clockwait(s => *mut sem_t, clock => clockid_t, at => *const timespec) -> c_int)
                }
            });
        };
        let point = Point::enter();
        if own.try_take() {
            return 0;
        }
        let deadline = match time::deadline(clock, at) {
            Ok(deadline) => deadline,
            Err(errno) => return fail(errno),
        };
        match own.take(&point.limits(deadline)) {
            End::Woken => 0,
            End::TimedOut => fail(ETIMEDOUT),
            End::Interrupted => {
                point.leave();
                fail(EINTR)
            }
        }
    }
}

/// See `sem_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(s: *mut sem_t) -> c_int {
    // SAFETY: handed on.
    unsafe { sem_take(s, CLOCK_REALTIME, ptr::null()) }
}

/// See `sem_timedwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(s: *mut sem_t, at: *const timespec) -> c_int {
    // SAFETY: handed on.
    unsafe { sem_take(s, CLOCK_REALTIME, at) }
}

/// See `sem_clockwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(
    s: *mut sem_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: handed on.
    unsafe { sem_take(s, clock, at) }
}

/// See `sem_trywait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_trywait(s: *mut sem_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match sem(s) {
            Some(own) => {
                if own.try_take() {
                    0
                } else {
                    fail(EAGAIN)
                }
            }
            None => real!(sem_trywait(s => *mut sem_t) -> c_int),
        }
    }
}

/// See `sem_post(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(s: *mut sem_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match sem(s) {
            Some(own) => {
                if own.post() {
                    0
                } else {
                    fail(EOVERFLOW)
                }
            }
            None => real!(sem_post(s => *mut sem_t) -> c_int),
        }
    }
}

/// See `sem_getvalue(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_getvalue(s: *mut sem_t, value: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match sem(s) {
            Some(own) => {
                value.write(own.value() as c_int);
                0
            }
            None => real!(sem_getvalue(s => *mut sem_t, value => *mut c_int) -> c_int),
        }
    }
}

// ---- barriers: 12 shared | 16 Barrier ----

const BARRIER_SHARED: usize = 12;

unsafe fn barrier<'a>(b: *mut pthread_barrier_t) -> Option<&'a Barrier> {
    // SAFETY: the caller's contract.
    unsafe {
        (word(b, BARRIER_SHARED).load(Relaxed) == 0)
            .then(|| &*b.cast::<u8>().add(16).cast::<Barrier>())
    }
}

/// See `pthread_barrier_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_init(
    b: *mut pthread_barrier_t,
    attr: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    let mut shared = 0;
    // SAFETY: the caller's contract.
    unsafe {
        if !attr.is_null() {
            pthread_barrierattr_getpshared(attr, &mut shared);
        }
        if shared == PTHREAD_PROCESS_SHARED {
            return real!(pthread_barrier_init(b => *mut pthread_barrier_t, attr => *const pthread_barrierattr_t,
                count => c_uint) -> c_int);
        }
        if count == 0 || count > i32::MAX as u32 {
            return EINVAL;
        }
        ptr::write_bytes(b, 0, 1);
        b.cast::<u8>().add(16).cast::<Barrier>().write(Barrier::new(count));
    }
    0
}

/// See `pthread_barrier_destroy(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(b: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match barrier(b) {
            Some(own) => {
                own.quiesce();
                0
            }
            None => real!(pthread_barrier_destroy(b => *mut pthread_barrier_t) -> c_int),
        }
    }
}

/// See `pthread_barrier_wait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(b: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match barrier(b) {
            Some(own) => {
                if own.wait() {
                    PTHREAD_BARRIER_SERIAL_THREAD
                } else {
                    0
                }
            }
            None => {
                off_worker(|| real!(pthread_barrier_wait(b => *mut pthread_barrier_t) -> c_int))
            }
        }
    }
}

// ---- spin locks: 1 free, 0 taken, as in the C library, so that process-shared ones work too ----

/// See `pthread_spin_init(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_init(l: *mut c_int, _shared: c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { l.write(1) };
    0
}

/// See `pthread_spin_destroy(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_spin_destroy(_l: *mut c_int) -> c_int {
    0
}

/// See `pthread_spin_trylock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_trylock(l: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    let l = unsafe { &*l.cast::<AtomicI32>() };
    if l.compare_exchange(1, 0, Acquire, Relaxed).is_ok() { 0 } else { EBUSY }
}

/// See `pthread_spin_lock(3)`. Spins a little; then lets others run, among them, one hopes, the owner.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_lock(l: *mut c_int) -> c_int {
    let mut tries = 0u32;
    // SAFETY: the caller's contract.
    while unsafe { pthread_spin_trylock(l) } != 0 {
        tries += 1;
        if tries.is_multiple_of(64) {
            thread::try_yield();
        } else {
            core::hint::spin_loop();
        }
    }
    0
}

/// See `pthread_spin_unlock(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(l: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { &*l.cast::<AtomicI32>() }.store(1, Release);
    0
}

// ---- once ----

/// See `pthread_once(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_once(
    control: *mut pthread_once_t,
    routine: unsafe extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { once::call(&*control.cast::<AtomicU32>(), || routine()) };
    0
}

/// See `call_once(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn call_once(
    control: *mut c_void,
    routine: unsafe extern "C-unwind" fn(),
) {
    // SAFETY: the caller's contract.
    unsafe { pthread_once(control.cast(), routine) };
}
