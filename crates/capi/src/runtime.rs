//! Starting, asking and stopping the runtime.

use crate::report;
use crate::status::{Failure, Status};
use core::ffi::{CStr, c_char, c_int, c_void};
use quaver::{BuildError, Builder, Handle, Runtime, Stats};
use std::ffi::CString;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The runtime that `quaver_start` has started.
static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// See `quaver.h`.
///
/// # Safety
///
/// `settings` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_start(settings: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    let settings = (!settings.is_null()).then(|| unsafe { CStr::from_ptr(settings) });
    report(start(settings.map_or("".into(), CStr::to_string_lossy).as_ref()))
}

fn start(settings: &str) -> Result<(), Failure> {
    let builder = Builder::from_env().settings(settings);
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if runtime.is_some() {
        return Err(Failure::new(Status::State, "quaver_start: the runtime is running already"));
    }
    let built = builder.build().map_err(|e| {
        let status = match e {
            BuildError::Setting { .. } | BuildError::UnknownSetting(_) => Status::Invalid,
            _ => Status::Start,
        };
        Failure::new(status, format!("quaver_start: {e}"))
    })?;
    *runtime = Some(built);
    Ok(())
}

/// See `quaver.h`.
///
/// # Safety
///
/// `threads` is null or points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_shutdown(threads: *mut usize) -> c_int {
    if quaver::thread::current().is_some() {
        return Failure::new(
            Status::State,
            "quaver_shutdown: a user thread cannot stop the runtime that it runs on; return from \
             the function given to quaver_run and call this there",
        )
        .report();
    }
    let runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(runtime) = runtime else { return Failure::from(Status::NoRuntime).report() };
    let leftover = runtime.shutdown();
    if !threads.is_null() {
        // SAFETY: the caller's contract.
        unsafe { threads.write(leftover.threads) };
    }
    Status::Ok as c_int
}

/// A function of C with its argument, on its way to another thread.
pub(crate) struct Call {
    pub(crate) function: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    pub(crate) argument: *mut c_void,
}

// SAFETY: the caller of C vouches that the function may be called with the argument on another
// thread.
unsafe impl Send for Call {}

/// What a function of C has returned.
pub(crate) struct Returned(pub(crate) *mut c_void);

// SAFETY: a value that C hands from one thread to another.
unsafe impl Send for Returned {}

impl Call {
    pub(crate) fn call(self) -> Returned {
        // SAFETY: the function came with this argument.
        Returned(unsafe { (self.function)(self.argument) })
    }
}

/// See `quaver.h`.
///
/// # Safety
///
/// `function` may be called with `argument` on another thread; `result` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_run(
    function: Option<unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void>,
    argument: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    let Some(function) = function else {
        return Failure::new(Status::Invalid, "quaver_run: the function is null").report();
    };
    let call = Call { function, argument };
    // The lock is not held while the function runs: other threads may stop the runtime or ask it.
    let handle = match Handle::current() {
        Ok(handle) => handle,
        Err(_) => return Failure::from(Status::NoRuntime).report(),
    };
    let joined = handle.spawn(move || call.call()).join();
    // SAFETY: the caller's contract.
    unsafe { crate::thread::hand_over(joined, result) }
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_is_running() -> bool {
    Handle::current().is_ok()
}

/// See `quaver.h`.
///
/// # Safety
///
/// `name` is a C string, `value` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_stat(name: *const c_char, value: *mut u64) -> c_int {
    if name.is_null() || value.is_null() {
        return Failure::new(Status::Invalid, "quaver_stat: a pointer is null").report();
    }
    // SAFETY: the caller's contract.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let Ok(handle) = Handle::current() else { return Failure::from(Status::NoRuntime).report() };
    let found = handle.stats().iter().find(|(n, _)| *n == name).map(|(_, v)| v);
    let Some(found) = found else {
        let message = format!("quaver_stat: there is no counter `{name}`; see quaver_stat_name");
        return Failure::new(Status::Invalid, message).report();
    };
    // SAFETY: the caller's contract.
    unsafe { value.write(found) };
    Status::Ok as c_int
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_stat_name(index: usize) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        Stats::default().iter().filter_map(|(name, _)| CString::new(name).ok()).collect()
    });
    names.get(index).map_or(core::ptr::null(), |name| name.as_ptr())
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// A timeout of C as a duration: `None` for ever.
pub(crate) fn timeout(nanoseconds: i64) -> Option<Duration> {
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}
