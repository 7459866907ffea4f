//! Making, joining and ending threads; their attributes.

use crate::attributes::{self, Attributes};
use crate::cancel::{self, Point};
use crate::real::real;
use crate::signal::{self, Section, queue};
use crate::state::{self, LIVE, Start, Thread, cancel as bits, fate};
use crate::sys::kernel_tid;
use crate::time;
use crate::{start, unwind};
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::*};
use libc::{clockid_t, pthread_attr_t, pthread_t, timespec};
use quaver::foreign::futex::{self, End, Limits};
use quaver::foreign::thread as uthread;

/// Numbers of threads: above those of the kernel.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    1 << 28 | NEXT.fetch_add(1, Relaxed) & ((1 << 28) - 1)
}

/// See `pthread_create(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    function: Start,
    argument: *mut c_void,
) -> c_int {
    if state::internal() {
        // SAFETY: handed on.
        return unsafe { create_internal(thread, attr, function, argument) };
    }
    start::ensure();
    // SAFETY: the caller's contract.
    let wanted = unsafe { Attributes::of(attr) };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(errno) => return errno,
    };
    let mut t = Box::new(Thread::new(function, argument, next_number()));
    if let Some(me) = state::me() {
        t.inherit(me);
    }
    let t: &'static Thread = Box::leak(t);
    if wanted.detached {
        t.fate.store(fate::DETACHED, Relaxed);
    }
    t.own_stack.set(wanted.own_stack());
    t.schedule.store(wanted.schedule.word(), Relaxed);
    LIVE.fetch_add(1, Relaxed);
    queue::add(t);
    // SAFETY: the memory, if any, is the program's, which gives it until the thread has been
    // joined.
    let made = unsafe {
        uthread::spawn_on(wanted.stack, None, &wanted.schedule.attributes(), move || run(t))
    };
    match made {
        Ok((handle, u)) => {
            t.uthread.set(Some(u));
            // SAFETY: the new thread waits until it is published.
            unsafe {
                state::install(u.fs_base(), t);
                thread.write(u.fs_base() as pthread_t);
                if wanted.detached {
                    drop(handle);
                } else {
                    *t.handle.get() = Some(handle);
                }
            }
            t.publish();
            if wanted.detached {
                t.release();
            }
            0
        }
        Err(error) => {
            LIVE.fetch_sub(1, Relaxed);
            t.ended.store(1, Release);
            queue::remove(t);
            t.release();
            t.release();
            attributes::refusal(&error)
        }
    }
}

/// A kernel thread of the runtime.
unsafe fn create_internal(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    function: Start,
    argument: *mut c_void,
) -> c_int {
    struct Wrapped(Start, *mut c_void);
    unsafe extern "C-unwind" fn wrapped(w: *mut c_void) -> *mut c_void {
        state::set_internal(true);
        // SAFETY: nothing of the program's runs on it but by the runtime.
        unsafe { signal::set_kernel_mask(signal::of_runtime()) };
        // SAFETY: made below, for this call.
        let w = unsafe { Box::from_raw(w.cast::<Wrapped>()) };
        // SAFETY: what the runtime wants to be called.
        unsafe { w.0(w.1) }
    }
    let w = Box::into_raw(Box::new(Wrapped(function, argument)));
    // SAFETY: the caller's contract.
    let r = unsafe {
        real!(pthread_create(thread => *mut pthread_t, attr => *const pthread_attr_t,
            wrapped => Start, w.cast() => *mut c_void) -> c_int)
    };
    if r != 0 {
        // SAFETY: nobody has it.
        drop(unsafe { Box::from_raw(w) });
    }
    r
}

/// The body of a thread.
fn run(t: &'static Thread) {
    while t.published.load(Acquire) == 0 {
        futex::wait(&t.published, 0, &Limits::NONE);
    }
    let itself = core::ptr::from_ref(t).cast_mut().cast();
    // SAFETY: what the thread does, with its own block; the base is this thread's.
    let result = unsafe { unwind::call_with_base(begin, itself, &t.base) };
    finish(t, result);
}

/// What a thread does inside its base: from here on handlers run on it, and may end it.
///
/// # Safety
///
/// With the calling thread's block, once.
unsafe extern "C-unwind" fn begin(t: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's contract.
    let t: &'static Thread = unsafe { &*t.cast() };
    state::set_me(t);
    signal::deliver::deliver_here(t);
    // SAFETY: what the program wants to be called.
    unsafe { (t.start)(t.argument) }
}

/// What remains to be done when the start routine has returned.
pub(crate) fn finish(t: &'static Thread, result: *mut c_void) {
    t.cancel.fetch_or(bits::ENDING, Relaxed);
    uthread::run_tls_destructors();
    t.result.set(result);
    crate::mutex::abandon_all(t);
    if LIVE.fetch_sub(1, AcqRel) == 1 {
        // The last thread, after the main thread's pthread_exit.
        // SAFETY: ends the process in order.
        unsafe { libc::exit(0) };
    }
    // From now on no handler runs on it.
    let mut section = Section::enter();
    while !queue::remove(t) {
        drop(section);
        signal::deliver::deliver_here(t);
        section = Section::enter();
    }
    core::mem::forget(section);
    state::end();
    let word = &raw const t.ended;
    t.ended.store(1, Release);
    futex::wake(word, u32::MAX);
    let is_kernel_thread = t.signals.kernel_tid() != 0;
    t.release();
    if is_kernel_thread {
        // The first one of the child of a fork. What it could return to is the parent's.
        // SAFETY: ends the kernel thread, which nobody waits for.
        unsafe { crate::sys::call(libc::SYS_exit, [0; 6]) };
    }
}

unsafe fn join(thread: pthread_t, result: *mut *mut c_void, limits: &Limits<'_>) -> c_int {
    // SAFETY: the caller's contract.
    let Some(t) = (unsafe { state::of(thread) }) else { return libc::ESRCH };
    if t.fate.load(Relaxed) == fate::DETACHED {
        return libc::EINVAL;
    }
    if state::me().is_some_and(|me| ptr::eq(me, t)) {
        return libc::EDEADLK;
    }
    if t.fate.compare_exchange(fate::JOINABLE, fate::JOINING, AcqRel, Relaxed).is_err() {
        return libc::EINVAL;
    }
    while t.ended.load(Acquire) == 0 {
        match futex::wait(&t.ended, 0, limits) {
            End::Woken => {}
            end => {
                t.fate.store(fate::JOINABLE, Release);
                return if end == End::TimedOut { libc::ETIMEDOUT } else { libc::EINTR };
            }
        }
    }
    // SAFETY: JOINING: nobody else takes it.
    let handle = unsafe { (*t.handle.get()).take() };
    let value = t.result.get();
    if let Some(handle) = handle {
        let _ = handle.join();
    }
    t.release();
    if !result.is_null() {
        // SAFETY: the caller's contract.
        unsafe { result.write(value) };
    }
    0
}

/// See `pthread_join(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if state::of(thread).is_none() {
            if state::is_gone(thread) {
                return libc::ESRCH;
            }
            return crate::io::off_worker(
                || real!(pthread_join(thread => pthread_t, result => *mut *mut c_void) -> c_int),
            );
        }
        loop {
            let point = Point::enter();
            let r = point.wait(None, |limits| join(thread, result, limits));
            point.leave();
            // A handler has run.
            if r != libc::EINTR {
                return r;
            }
        }
    }
}

/// See `pthread_tryjoin_np(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match state::of(thread) {
            None if state::is_gone(thread) => libc::ESRCH,
            None => {
                real!(pthread_tryjoin_np(thread => pthread_t, result => *mut *mut c_void) -> c_int)
            }
            Some(t) if t.ended.load(Acquire) == 0 => libc::EBUSY,
            Some(_) => join(thread, result, &Limits::NONE),
        }
    }
}

/// See `pthread_timedjoin_np(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pthread_clockjoin_np(thread, result, libc::CLOCK_REALTIME, at) }
}

/// See `pthread_clockjoin_np(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_clockjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if state::of(thread).is_none() {
            if state::is_gone(thread) {
                return libc::ESRCH;
            }
            return real!(pthread_clockjoin_np(thread => pthread_t, result => *mut *mut c_void,
                clock => clockid_t, at => *const timespec) -> c_int);
        }
        let deadline = match time::deadline(clock, at) {
            Ok(deadline) => deadline,
            Err(errno) => return errno,
        };
        loop {
            let point = Point::enter();
            let r = point.wait(deadline, |limits| join(thread, result, limits));
            point.leave();
            if r != libc::EINTR {
                return r;
            }
        }
    }
}

/// See `pthread_detach(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(t) = state::of(thread) else {
            if state::is_gone(thread) {
                return libc::ESRCH;
            }
            return real!(pthread_detach(thread => pthread_t) -> c_int);
        };
        if t.fate.compare_exchange(fate::JOINABLE, fate::DETACHED, AcqRel, Relaxed).is_err() {
            return libc::EINVAL;
        }
        drop((*t.handle.get()).take());
        t.release();
    }
    0
}

/// See `pthread_exit(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    match state::me() {
        Some(me) => {
            me.cancel.fetch_or(bits::ENDING, Relaxed);
            me.result.set(value);
            unwind::unwind(me)
        }
        None => {
            // SAFETY: a thread of the C library's.
            unsafe { real!(pthread_exit(value => *mut c_void)) };
            unreachable!("pthread_exit returned")
        }
    }
}

/// See `gettid(2)`: a number of the program's thread, not of the kernel thread that runs it at the
/// moment.
#[unsafe(no_mangle)]
pub extern "C" fn gettid() -> i32 {
    state::me().map_or_else(kernel_tid, |me| me.tid() as i32)
}

/// Does something with the thread that `pid` means to the kernel, 0 the calling one. `None`: it is
/// no thread of the program's.
pub(crate) fn with_thread<T>(pid: libc::pid_t, f: impl FnOnce(&Thread) -> T) -> Option<T> {
    let me = signal::managed()?;
    if pid == 0 { Some(f(me)) } else { queue::with_numbered(pid as u32, f) }
}

/// See `pthread_getattr_np(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(thread: pthread_t, attr: *mut pthread_attr_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(t) = state::of(thread) else {
            return real!(pthread_getattr_np(thread => pthread_t, attr => *mut pthread_attr_t)
                -> c_int);
        };
        let Some(u) = t.uthread.get() else { return libc::EAGAIN };
        let r = libc::pthread_attr_init(attr);
        if r != 0 {
            return r;
        }
        // Aligned, as attribute objects want them.
        let (low, high) = t.own_stack.get().unwrap_or_else(|| {
            let stack = u.stack();
            ((stack.start + 15) & !15, stack.end & !15)
        });
        libc::pthread_attr_setstack(attr, low as *mut c_void, high - low);
        libc::pthread_attr_setguardsize(attr, 16384);
        if t.fate.load(Relaxed) == fate::DETACHED {
            libc::pthread_attr_setdetachstate(attr, libc::PTHREAD_CREATE_DETACHED);
        }
    }
    0
}

/// See `pthread_cancel(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match state::of(thread) {
            None if state::is_gone(thread) => libc::ESRCH,
            None => real!(pthread_cancel(thread => pthread_t) -> c_int),
            Some(t) => cancel::request(t),
        }
    }
}
