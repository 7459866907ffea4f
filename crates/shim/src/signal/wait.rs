//! Waiting for signals that are blocked: `sigwait` and its relatives.

use super::{bits, courier, deliver, file, managed, queue};
use crate::cancel::{self, Point};
use crate::interrupt::Call;
use crate::real::real;
use crate::state::Thread;
use crate::{sys, time};
use core::ffi::c_int;
use core::sync::atomic::Ordering::*;
use libc::{siginfo_t, sigset_t, timespec};
use quaver::foreign::futex::{Deadline, End};

/// How a wait for signals ends.
enum Outcome {
    Taken(siginfo_t),
    TimedOut,
    /// A handler has run.
    Interrupted,
}

/// `me` waits for signals of a set, which others may choose it for.
struct Waits(&'static Thread);

impl Drop for Waits {
    fn drop(&mut self) {
        let set = self.0.signals.waits_for.swap(0, SeqCst);
        file::changed(set);
        // It may have been chosen for one that it does not take.
        if queue::PROCESS.bits() & set != 0 {
            courier::tell();
        }
    }
}

fn take(me: &Thread, set: u64) -> Option<siginfo_t> {
    if (me.signals.pending.bits() | queue::PROCESS.bits()) & set == 0 {
        return None;
    }
    let locked = queue::locked();
    me.signals.pending.take(&locked, set).or_else(|| queue::PROCESS.take(&locked, set))
}

fn wait_for(me: &'static Thread, set: u64, deadline: Option<Deadline>) -> Outcome {
    let point = Point::enter();
    if let Some(info) = take(me, set) {
        return Outcome::Taken(info);
    }
    me.signals.waits_for.store(set, SeqCst);
    file::changed(set);
    let waits = Waits(me);
    let call = Call::begin(me, false);
    let arrived = || (me.signals.pending.bits() | queue::PROCESS.bits()) & set != 0;
    let mut last = false;
    loop {
        if let Some(info) = take(me, set) {
            return Outcome::Taken(info);
        }
        deliver::deliver_here(me);
        if call.is_broken() {
            break;
        }
        cancel::test();
        if last {
            return Outcome::TimedOut;
        }
        if time::wait_until(&call, deadline, &arrived) == End::TimedOut {
            // What the kernel has got is taken nevertheless.
            courier::synchronise();
            last = true;
        }
    }
    drop(call);
    drop(waits);
    point.leave();
    Outcome::Interrupted
}

/// See `sigwait(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(me) = managed() else {
            return real!(sigwait(set => *const sigset_t, signal => *mut c_int) -> c_int);
        };
        loop {
            if let Outcome::Taken(info) = wait_for(me, bits(set), None) {
                signal.write(info.si_signo);
                return 0;
            }
        }
    }
}

/// See `sigtimedwait(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    let fail = |errno| {
        sys::set_errno(errno);
        -1
    };
    // SAFETY: the caller's contract.
    unsafe {
        let Some(me) = managed() else {
            return real!(sigtimedwait(set => *const sigset_t, info => *mut siginfo_t,
                timeout => *const timespec) -> c_int);
        };
        let timeout = timeout.as_ref();
        if timeout.is_some_and(|t| !(0..1_000_000_000).contains(&t.tv_nsec) || t.tv_sec < 0) {
            return fail(libc::EINVAL);
        }
        let deadline = timeout.map(|t| time::after(time::nanos(t)));
        match wait_for(me, bits(set), deadline) {
            Outcome::Taken(mut taken) => {
                // As the C library says it.
                if taken.si_code == libc::SI_TKILL {
                    taken.si_code = libc::SI_USER;
                }
                if !info.is_null() {
                    info.write(taken);
                }
                taken.si_signo
            }
            Outcome::TimedOut => fail(libc::EAGAIN),
            Outcome::Interrupted => fail(libc::EINTR),
        }
    }
}

/// See `sigwaitinfo(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: handed on.
    unsafe { sigtimedwait(set, info, core::ptr::null()) }
}
