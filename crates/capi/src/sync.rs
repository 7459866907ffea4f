//! Synchronisation objects in the caller's memory; `quaver::foreign` has the algorithms.

use crate::report;
use crate::runtime::timeout;
use crate::status::{Failure, Status};
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use quaver::foreign::futex::{Deadline, End, Limits};
use quaver::foreign::{barrier, condvar, lock, once, rwlock, semaphore};

/// `quaver_mutex`.
#[repr(C)]
pub struct Mutex {
    word: AtomicU32,
    reserved: u32,
}

/// `quaver_condvar`.
#[repr(C)]
pub struct Condvar(condvar::Condvar);

/// `quaver_rwlock`.
#[repr(C)]
pub struct RwLock(rwlock::RwLock, u32);

/// `quaver_semaphore`.
#[repr(C)]
pub struct Semaphore(semaphore::Semaphore);

/// `quaver_barrier`.
#[repr(C)]
pub struct Barrier(barrier::Barrier);

/// `quaver_once`.
#[repr(C)]
pub struct Once(AtomicU32);

// What quaver.h says of them.
const _: () = assert!(size_of::<Mutex>() == 8 && align_of::<Mutex>() == 4);
const _: () = assert!(size_of::<Condvar>() == 8 && align_of::<Condvar>() == 4);
const _: () = assert!(size_of::<RwLock>() == 32 && align_of::<RwLock>() == 4);
const _: () = assert!(size_of::<Semaphore>() == 8 && align_of::<Semaphore>() == 8);
const _: () = assert!(size_of::<Barrier>() == 16 && align_of::<Barrier>() == 8);
const _: () = assert!(size_of::<Once>() == 4 && align_of::<Once>() == 4);

fn limits(nanoseconds: i64) -> Limits<'static> {
    Limits { deadline: timeout(nanoseconds).map(Deadline::after), ..Limits::NONE }
}

fn outcome(end: End) -> c_int {
    match end {
        End::Woken => Status::Ok as c_int,
        End::TimedOut | End::Interrupted => Failure::from(Status::TimedOut).report(),
    }
}

/// # Safety
///
/// `p` is null or valid.
unsafe fn valid<'a, T>(p: *const T, function: &str) -> Result<&'a T, c_int> {
    // SAFETY: the caller's contract.
    unsafe { p.as_ref() }.ok_or_else(|| {
        Failure::new(Status::Invalid, format!("{function}: the object is null")).report()
    })
}

macro_rules! valid {
    ($p:ident, $function:literal) => {
        // SAFETY: the caller's contract: null or valid.
        match unsafe { valid($p, $function) } {
            Ok(object) => object,
            Err(status) => return status,
        }
    };
}

/// See `quaver.h`.
///
/// # Safety
///
/// `mutex` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_mutex_lock(mutex: *const Mutex) -> c_int {
    let mutex = valid!(mutex, "quaver_mutex_lock");
    outcome(lock::lock(&mutex.word, &Limits::NONE))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `mutex` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_mutex_lock_timeout(mutex: *const Mutex, timeout: i64) -> c_int {
    let mutex = valid!(mutex, "quaver_mutex_lock_timeout");
    if lock::try_lock(&mutex.word) {
        return Status::Ok as c_int;
    }
    outcome(lock::lock(&mutex.word, &limits(timeout)))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `mutex` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_mutex_try_lock(mutex: *const Mutex) -> c_int {
    let mutex = valid!(mutex, "quaver_mutex_try_lock");
    report(lock::try_lock(&mutex.word).then_some(()).ok_or(Status::Busy))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `mutex` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_mutex_unlock(mutex: *const Mutex) -> c_int {
    let mutex = valid!(mutex, "quaver_mutex_unlock");
    if !lock::is_locked(&mutex.word) {
        return Failure::new(Status::State, "quaver_mutex_unlock: it is not locked").report();
    }
    lock::unlock(&mutex.word);
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// Both are null or valid; the caller owns the mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_condvar_wait(
    condvar: *const Condvar,
    mutex: *const Mutex,
    timeout: i64,
) -> c_int {
    let condvar = valid!(condvar, "quaver_condvar_wait");
    let mutex = valid!(mutex, "quaver_condvar_wait");
    if !lock::is_locked(&mutex.word) {
        return Failure::new(Status::State, "quaver_condvar_wait: the mutex is not locked")
            .report();
    }
    let limits = limits(timeout);
    let registered = condvar.0.register();
    lock::unlock(&mutex.word);
    let end = condvar.0.wait(registered, &limits);
    lock::lock(&mutex.word, &Limits::NONE);
    outcome(end)
}

/// See `quaver.h`.
///
/// # Safety
///
/// `condvar` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_condvar_notify_one(condvar: *const Condvar) -> c_int {
    valid!(condvar, "quaver_condvar_notify_one").0.notify(1);
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `condvar` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_condvar_notify_all(condvar: *const Condvar) -> c_int {
    valid!(condvar, "quaver_condvar_notify_all").0.notify(u32::MAX);
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `lock` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_rwlock_read(lock: *const RwLock, timeout: i64) -> c_int {
    let lock = valid!(lock, "quaver_rwlock_read");
    outcome(if lock.0.try_read(true) { End::Woken } else { lock.0.read(true, &limits(timeout)) })
}

/// See `quaver.h`.
///
/// # Safety
///
/// `lock` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_rwlock_write(lock: *const RwLock, timeout: i64) -> c_int {
    let lock = valid!(lock, "quaver_rwlock_write");
    outcome(if lock.0.try_write(1) { End::Woken } else { lock.0.write(1, &limits(timeout)) })
}

/// See `quaver.h`.
///
/// # Safety
///
/// `lock` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_rwlock_unlock(lock: *const RwLock) -> c_int {
    let lock = valid!(lock, "quaver_rwlock_unlock");
    report(
        lock.0.unlock().then_some(()).ok_or_else(|| {
            Failure::new(Status::State, "quaver_rwlock_unlock: nobody has locked it")
        }),
    )
}

/// See `quaver.h`.
///
/// # Safety
///
/// `semaphore` is null or points to memory for one that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_semaphore_init(semaphore: *mut Semaphore, value: u32) -> c_int {
    if semaphore.is_null() || value > semaphore::MAX {
        let message = format!("quaver_semaphore_init: null, or a value above {}", semaphore::MAX);
        return Failure::new(Status::Invalid, message).report();
    }
    // SAFETY: the caller's contract.
    unsafe { semaphore.write(Semaphore(semaphore::Semaphore::new(value))) };
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `semaphore` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_semaphore_acquire(
    semaphore: *const Semaphore,
    timeout: i64,
) -> c_int {
    let semaphore = valid!(semaphore, "quaver_semaphore_acquire");
    if semaphore.0.try_take() {
        return Status::Ok as c_int;
    }
    outcome(semaphore.0.take(&limits(timeout)))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `semaphore` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_semaphore_release(semaphore: *const Semaphore) -> c_int {
    let semaphore = valid!(semaphore, "quaver_semaphore_release");
    report(semaphore.0.post().then_some(()).ok_or_else(|| {
        Failure::new(Status::State, "quaver_semaphore_release: the value is at its maximum")
    }))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `barrier` is null or points to memory for one that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_barrier_init(barrier: *mut Barrier, threads: u32) -> c_int {
    if barrier.is_null() || threads == 0 {
        let message = "quaver_barrier_init: null, or for no threads";
        return Failure::new(Status::Invalid, message).report();
    }
    // SAFETY: the caller's contract.
    unsafe { barrier.write(Barrier(barrier::Barrier::new(threads))) };
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `barrier` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_barrier_wait(barrier: *const Barrier) -> bool {
    // SAFETY: the caller's contract.
    unsafe { barrier.as_ref() }.is_some_and(|barrier| barrier.0.wait())
}

/// See `quaver.h`.
///
/// # Safety
///
/// `barrier` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_barrier_destroy(barrier: *const Barrier) -> c_int {
    valid!(barrier, "quaver_barrier_destroy").0.quiesce();
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `once` is valid; `function` may be called.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn quaver_once_call(
    once: *const Once,
    function: Option<unsafe extern "C-unwind" fn()>,
) -> c_int {
    let once = valid!(once, "quaver_once_call");
    let Some(function) = function else {
        return Failure::new(Status::Invalid, "quaver_once_call: the function is null").report();
    };
    // SAFETY: the caller's contract.
    once::call(&once.0, || unsafe { function() });
    Status::Ok as c_int
}
