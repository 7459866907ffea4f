//! User threads.

use crate::report;
use crate::runtime::{Call, Returned, timeout};
use crate::status::{Failure, Status};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::ManuallyDrop;
use quaver::thread::{Builder, Service};
use quaver::{Handle, JoinHandle};
use quaver_sched::{DEFAULT_PRIORITY, PRIORITIES};
use std::time::Duration;

/// `quaver_thread_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ThreadAttr {
    name: *const c_char,
    detached: bool,
    priority: c_int,
    weight: u32,
    service: c_int,
    stack_size: usize,
}

impl ThreadAttr {
    /// # Safety
    ///
    /// The name is null or a C string.
    unsafe fn builder(&self) -> Result<Builder, Failure> {
        let mut builder = Builder::new().stack_size(self.stack_size);
        if !self.name.is_null() {
            // SAFETY: the caller's contract.
            builder = builder.name(unsafe { CStr::from_ptr(self.name) }.to_string_lossy().into());
        }
        if self.weight != 0 {
            builder = builder.weight(self.weight);
        }
        builder = builder.priority(priority(self.priority));
        Ok(builder.service(match self.service {
            0 => Service::LatencyCritical,
            1 => Service::BestEffort,
            other => {
                let message = format!("quaver_spawn: there is no service {other}");
                return Err(Failure::new(Status::Invalid, message));
            }
        }))
    }
}

/// A priority of C, relative to the ordinary one, as that of Rust.
fn priority(relative: c_int) -> u8 {
    let absolute = c_int::from(DEFAULT_PRIORITY).saturating_add(relative);
    absolute.clamp(0, c_int::from(PRIORITIES) - 1) as u8
}

/// `quaver_thread`: the right to join.
pub struct Joinable(JoinHandle<Returned>);

/// See `quaver.h`.
///
/// # Safety
///
/// `thread` is writable (null only for detached threads), `attr` null or valid; `function` may be
/// called with `argument` on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_spawn(
    thread: *mut *mut Joinable,
    attr: *const ThreadAttr,
    function: Option<unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let attr = unsafe { attr.as_ref() };
    let detached = attr.is_some_and(|attr| attr.detached);
    // SAFETY: as above.
    let builder = match attr.map(|attr| unsafe { attr.builder() }).transpose() {
        Ok(builder) => builder.unwrap_or_default(),
        Err(failure) => return failure.report(),
    };
    let Some(function) = function else {
        return Failure::new(Status::Invalid, "quaver_spawn: the function is null").report();
    };
    if thread.is_null() && !detached {
        let message = "quaver_spawn: nowhere to store the thread, which is not detached either";
        return Failure::new(Status::Invalid, message).report();
    }
    if !thread.is_null() {
        // SAFETY: as above.
        unsafe { thread.write(core::ptr::null_mut()) };
    }
    if Handle::current().is_err() {
        return Failure::from(Status::NoRuntime).report();
    }
    let call = Call { function, argument };
    match builder.spawn(move || call.call()) {
        Ok(handle) if detached => drop(handle),
        // SAFETY: as above; not null.
        Ok(handle) => unsafe { thread.write(Box::into_raw(Box::new(Joinable(handle)))) },
        Err(e) => {
            return Failure::new(Status::Exhausted, format!("quaver_spawn: {e}")).report();
        }
    }
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `thread` came from `quaver_spawn` and has been neither joined nor detached; `result` is null or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_join(thread: *mut Joinable, result: *mut *mut c_void) -> c_int {
    if thread.is_null() {
        return Failure::new(Status::Invalid, "quaver_join: the thread is null").report();
    }
    // SAFETY: the caller's contract; not null.
    let id = unsafe { (*thread).0.id() };
    if quaver::thread::current().is_some_and(|me| me.id() == id) {
        return Failure::new(Status::State, "quaver_join: a thread cannot join itself").report();
    }
    // SAFETY: the caller's contract.
    let thread = unsafe { Box::from_raw(thread) };
    // SAFETY: the caller's contract.
    unsafe { hand_over(thread.0.join(), result) }
}

/// See `quaver.h`.
///
/// # Safety
///
/// As for [`quaver_join`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_join_timeout(
    thread: *mut Joinable,
    nanoseconds: i64,
    result: *mut *mut c_void,
) -> c_int {
    let Some(timeout) = timeout(nanoseconds) else {
        // SAFETY: handed on.
        return unsafe { quaver_join(thread, result) };
    };
    if thread.is_null() {
        return Failure::new(Status::Invalid, "quaver_join_timeout: the thread is null").report();
    }
    // SAFETY: the caller's contract. The handle is put back, or the memory that had it is freed.
    unsafe {
        match thread.read().0.join_timeout(timeout) {
            Ok(joined) => {
                drop(Box::from_raw(thread.cast::<ManuallyDrop<Joinable>>()));
                hand_over(joined, result)
            }
            Err(handle) => {
                thread.write(Joinable(handle));
                Failure::from(Status::TimedOut).report()
            }
        }
    }
}

/// See `quaver.h`.
///
/// # Safety
///
/// `thread` is null or came from `quaver_spawn` and has been neither joined nor detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_set_priority(thread: *const Joinable, relative: c_int) -> c_int {
    // SAFETY: the caller's contract.
    let Some(thread) = (unsafe { thread.as_ref() }) else {
        return Failure::new(Status::Invalid, "quaver_set_priority: the thread is null").report();
    };
    let heeded = thread.0.set_priority(priority(relative));
    let message = "quaver_set_priority: the policy heeds no priorities; choose policy=priority";
    report(if heeded { Ok(()) } else { Err(Failure::new(Status::State, message)) })
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_park(nanoseconds: i64) {
    match timeout(nanoseconds) {
        Some(timeout) => quaver::thread::park_timeout(timeout),
        None => quaver::thread::park(),
    }
}

/// See `quaver.h`.
///
/// # Safety
///
/// `thread` is null or came from `quaver_spawn` and has been neither joined nor detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_unpark(thread: *const Joinable) -> c_int {
    // SAFETY: the caller's contract.
    let Some(thread) = (unsafe { thread.as_ref() }) else {
        return Failure::new(Status::Invalid, "quaver_unpark: the thread is null").report();
    };
    thread.0.thread().unpark();
    Status::Ok as c_int
}

/// Stores what a joined thread has returned where the caller wants it, if it does, and tells the
/// status.
///
/// # Safety
///
/// `result` is null or may be written.
pub(crate) unsafe fn hand_over(
    joined: std::thread::Result<Returned>,
    result: *mut *mut c_void,
) -> c_int {
    match joined {
        Ok(returned) => {
            if !result.is_null() {
                // SAFETY: the caller's contract.
                unsafe { result.write(returned.0) };
            }
            Status::Ok as c_int
        }
        Err(_) => Failure::from(Status::ShutDown).report(),
    }
}

/// See `quaver.h`.
///
/// # Safety
///
/// As for [`quaver_join`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_detach(thread: *mut Joinable) -> c_int {
    if thread.is_null() {
        return Failure::new(Status::Invalid, "quaver_detach: the thread is null").report();
    }
    // SAFETY: the caller's contract.
    drop(unsafe { Box::from_raw(thread) });
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `thread` is null or came from `quaver_spawn` and has been neither joined nor detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_is_finished(thread: *const Joinable) -> bool {
    // SAFETY: the caller's contract.
    unsafe { thread.as_ref() }.is_some_and(|thread| thread.0.is_finished())
}

/// See `quaver.h`.
///
/// # Safety
///
/// As for [`quaver_is_finished`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_thread_id(thread: *const Joinable) -> u64 {
    // SAFETY: the caller's contract.
    unsafe { thread.as_ref() }.map_or(0, |thread| thread.0.id().as_u64())
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_self() -> u64 {
    quaver::thread::current().map_or(0, |t| t.id().as_u64())
}

/// See `quaver.h`.
///
/// # Safety
///
/// `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_self_name(buffer: *mut c_char, size: usize) -> c_int {
    let name = quaver::thread::current().and_then(|t| t.name()).unwrap_or_default();
    if buffer.is_null() || size == 0 {
        return Failure::new(Status::Invalid, "quaver_self_name: there is no buffer").report();
    }
    let n = name.len().min(size - 1);
    // SAFETY: `n` bytes and a zero fit.
    unsafe {
        core::ptr::copy_nonoverlapping(name.as_ptr(), buffer.cast(), n);
        buffer.add(n).write(0);
    }
    let fits = n == name.len();
    report(if fits {
        Ok(())
    } else {
        let message = format!("quaver_self_name: the name takes {} bytes", name.len() + 1);
        Err(Failure::new(Status::Invalid, message))
    })
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_yield() {
    quaver::yield_now();
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_sleep(nanoseconds: u64) {
    quaver::sleep(Duration::from_nanos(nanoseconds));
}
