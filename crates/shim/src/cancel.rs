//! Cancellation points.
//!
//! `pthread_cancel` leaves a mark on the thread and makes it look up: a thread that waits as a user thread is unparked and asks
//! [`Limits::interrupted`]; one that is blocked in the kernel gets a signal of its own (number 32, which the C library uses for
//! the same purpose and which is free because its `pthread_cancel` is not called), until it has come back.
//!
//! Cancellation points are those functions of the shim that may wait. A thread that may be cancelled anywhere
//! (`PTHREAD_CANCEL_ASYNCHRONOUS`) and computes is sought by the courier (see [`signal`](crate::signal)), which sends the same
//! signal to the kernel thread that runs it: [`look_up`] finds out whether it has hit the right one.

use crate::state::{self, Thread, cancel};
use crate::sys;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::*;
use libc::siginfo_t;
use quaver::foreign::futex::{Deadline, Limits};
use quaver::foreign::thread::Thread as Uthread;
use quaver::foreign::{region, reserved};

/// `SIGCANCEL` of the C library.
const KICK: i32 = 32;
/// `PTHREAD_CANCELED`.
const CANCELLED: *mut c_void = usize::MAX as *mut c_void;

/// Makes the kernel leave a blocking call with `EINTR`, and a thread that computes look up.
pub(crate) fn install_kick() {
    reserved::install(KICK, look_up, reserved::How::InThread);
}

/// The handler of [`KICK`]: the interrupted thread sees to what is there for it. Unless it is in a section of the runtime's, which may
/// be a handler that has just begun; or blocked in a call, which looks by itself.
extern "C-unwind" fn look_up(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    let errno = sys::saved_errno();
    if let Some(me) = state::me_in_handler()
        && !region::in_runtime()
        && !region::must_end(crate::signal::interrupted_at(context))
        && me.blocked_in.load(SeqCst) == 0
    {
        crate::signal::deliver_here(me);
        // A call of the shim's has an end of its own.
        if me.is_cancelled_anywhere() && me.call.load(Relaxed) == 0 {
            // As the C library does it: out of the handler, through its frame.
            region::leave_handlers();
            test();
        }
    }
    sys::set_errno(errno);
}

/// Sends `KICK` to the kernel thread in which `t` is blocked, if it is.
pub(crate) fn kick(t: &Thread) -> bool {
    let tid = t.blocked_in.load(Acquire);
    if tid != 0 {
        send(tid);
    }
    tid != 0
}

/// Sends `KICK` to the kernel thread in which `t` is blocked, or that runs it.
pub(crate) fn kick_anywhere(t: &Thread) {
    if !kick(t)
        && let Some(tid) = t.uthread.get().and_then(Uthread::runs_on)
    {
        send(tid);
    }
}

fn send(tid: i32) {
    // SAFETY: no memory.
    unsafe {
        let pid = sys::call(libc::SYS_getpid, [0; 6]) as usize;
        sys::call(libc::SYS_tgkill, [pid, tid as usize, KICK as usize, 0, 0, 0]);
    }
}

/// `pthread_cancel`.
pub(crate) fn request(t: &'static Thread) -> c_int {
    t.cancel.fetch_or(cancel::PENDING, SeqCst);
    t.interrupt();
    // It may be about to make its call: until it is back it is kicked again.
    while t.is_cancelled() && kick(t) {
        crate::time::nap();
    }
    if t.is_cancelled_anywhere() {
        if state::me().is_some_and(|me| core::ptr::eq(me, t)) {
            test();
        }
        crate::signal::seek(t);
    }
    0
}

/// Ends the calling thread if it has been cancelled.
#[inline]
pub(crate) fn test() {
    if let Some(me) = state::me()
        && me.is_cancelled()
    {
        crate::thread::pthread_exit(CANCELLED)
    }
}

/// A cancellation point: from before a wait to after it.
pub(crate) struct Point(Option<&'static Thread>);

impl Point {
    /// Ends the thread if it has been cancelled already.
    pub(crate) fn enter() -> Point {
        test();
        Point(state::me())
    }

    /// Limits of a wait, which cancellation ends, and a signal for the thread.
    pub(crate) fn limits(&self, deadline: Option<Deadline>) -> Limits<'_> {
        Limits { deadline, interrupted: self.0.map(|_| ASK as &dyn Fn() -> bool) }
    }

    /// Ends the thread if it has been cancelled meanwhile; runs the handlers of signals for it.
    pub(crate) fn leave(self) {
        if let Some(me) = self.0 {
            crate::signal::deliver_pending(me);
        }
        test();
    }
}

/// Has the calling thread been cancelled, or is there a signal for it?
fn is_wanted() -> bool {
    state::me().is_some_and(|me| me.is_cancelled() || me.has_signal())
}

/// Has the calling thread been cancelled?
pub(crate) fn is_due() -> bool {
    state::me().is_some_and(Thread::is_cancelled)
}

const ASK: &fn() -> bool = &(is_wanted as fn() -> bool);

const PTHREAD_CANCEL_ENABLE: c_int = 0;
const PTHREAD_CANCEL_DISABLE: c_int = 1;
const PTHREAD_CANCEL_DEFERRED: c_int = 0;
const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

/// See `pthread_setcancelstate(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_setcancelstate(new: c_int, old: *mut c_int) -> c_int {
    let Some(me) = state::me() else { return 0 };
    let before = match new {
        PTHREAD_CANCEL_ENABLE => me.cancel.fetch_and(!cancel::DISABLED, SeqCst),
        PTHREAD_CANCEL_DISABLE => me.cancel.fetch_or(cancel::DISABLED, SeqCst),
        _ => return libc::EINVAL,
    };
    if !old.is_null() {
        // SAFETY: the caller's contract.
        unsafe { old.write(c_int::from(before & cancel::DISABLED != 0)) };
    }
    now_or_never(me);
    0
}

/// See `pthread_setcanceltype(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int {
    let Some(me) = state::me() else { return 0 };
    let before = match new {
        PTHREAD_CANCEL_DEFERRED => me.cancel.fetch_and(!cancel::ASYNC, SeqCst),
        PTHREAD_CANCEL_ASYNCHRONOUS => me.cancel.fetch_or(cancel::ASYNC, SeqCst),
        _ => return libc::EINVAL,
    };
    if !old.is_null() {
        // SAFETY: the caller's contract.
        unsafe { old.write(c_int::from(before & cancel::ASYNC != 0)) };
    }
    now_or_never(me);
    0
}

/// A thread that may be cancelled anywhere from now on, and has been.
fn now_or_never(me: &Thread) {
    if me.is_cancelled_anywhere() {
        test();
    }
}

/// See `pthread_testcancel(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_testcancel() {
    test();
}
