//! Real-time scheduling of threads: the levels of the policy `priority` where that is chosen, and
//! `EPERM` elsewhere.
//!
//! `SCHED_FIFO` and `SCHED_RR` have 99 priorities and the policy has eight levels, of which other
//! threads are in the middle ([`DEFAULT_PRIORITY`]). So priorities 1 to 99 share the levels above
//! it, in equal parts. The quantum is the policy's in both.

use crate::real::real;
use crate::say::{Once, once};
use crate::state::{self, Thread};
use crate::sys;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use libc::{pid_t, pthread_attr_t, pthread_t, sched_param};
use quaver::foreign::thread::{Attributes, DEFAULT_PRIORITY, heeds_priority};

/// The most urgent level of the policy.
const MOST_URGENT: u8 = 7;
const MAX: c_int = 99;

unsafe extern "C" {
    fn pthread_attr_getinheritsched(attr: *const pthread_attr_t, inherit: *mut c_int) -> c_int;
    fn pthread_attr_getschedpolicy(attr: *const pthread_attr_t, policy: *mut c_int) -> c_int;
    fn pthread_attr_getschedparam(attr: *const pthread_attr_t, p: *mut sched_param) -> c_int;
}

const PTHREAD_EXPLICIT_SCHED: c_int = 1;

/// A policy of POSIX with a priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    policy: c_int,
    priority: c_int,
}

impl Schedule {
    fn new(policy: c_int, priority: c_int) -> Result<Schedule, c_int> {
        let valid = match policy {
            libc::SCHED_FIFO | libc::SCHED_RR => (1..=MAX).contains(&priority),
            libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE => priority == 0,
            _ => false,
        };
        if valid { Ok(Schedule { policy, priority }) } else { Err(libc::EINVAL) }
    }

    /// What a new thread has: as its attributes say, or its creator's.
    ///
    /// # Safety
    ///
    /// `attr` is null or an initialised attribute object.
    pub(crate) unsafe fn of_new(attr: *const pthread_attr_t) -> Result<Schedule, c_int> {
        let (mut inherit, mut policy, mut parameter) = (0, 0, sched_param { sched_priority: 0 });
        if !attr.is_null() {
            // SAFETY: the caller's contract, and room for the answers.
            unsafe {
                pthread_attr_getinheritsched(attr, &mut inherit);
                pthread_attr_getschedpolicy(attr, &mut policy);
                pthread_attr_getschedparam(attr, &mut parameter);
            }
        }
        if inherit == PTHREAD_EXPLICIT_SCHED {
            let schedule = Schedule::new(policy, parameter.sched_priority)?;
            return schedule.permitted().map(|()| schedule);
        }
        Ok(state::me().map_or(Schedule { policy: 0, priority: 0 }, Schedule::of))
    }

    fn of(t: &Thread) -> Schedule {
        let word = t.schedule.load(Relaxed);
        Schedule { policy: (word >> 8) as c_int, priority: (word & 0xff) as c_int }
    }

    /// As it is kept in [`Thread::schedule`].
    pub(crate) fn word(self) -> u32 {
        (self.policy as u32) << 8 | self.priority as u32
    }

    /// What the runtime is told.
    pub(crate) fn attributes(self) -> Attributes {
        Attributes { priority: self.level(), ..Attributes::default() }
    }

    fn level(self) -> u8 {
        let levels = c_int::from(MOST_URGENT - DEFAULT_PRIORITY);
        match self.priority {
            0 => DEFAULT_PRIORITY,
            p => DEFAULT_PRIORITY + 1 + ((p - 1) * levels / MAX) as u8,
        }
    }

    fn permitted(self) -> Result<(), c_int> {
        if self.priority == 0 || heeds_priority() {
            return Ok(());
        }
        once(
            Once::Priority,
            format_args!(
                "real-time priorities need the policy that has priorities: --policy priority \
                 (EPERM)"
            ),
        );
        Err(libc::EPERM)
    }

    /// Gives it to a thread; the error is the caller's caller's.
    fn set(self, t: &Thread) -> c_int {
        if let Err(errno) = self.permitted() {
            return errno;
        }
        t.schedule.store(self.word(), Relaxed);
        if let Some(u) = t.uthread.get() {
            u.set_priority(self.level());
        }
        0
    }
}

/// See `pthread_setschedparam(3)`, and above.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedparam(
    thread: pthread_t,
    policy: c_int,
    parameter: *const sched_param,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(t) = state::of(thread) else {
            if state::is_gone(thread) {
                return libc::ESRCH;
            }
            return real!(pthread_setschedparam(thread => pthread_t, policy => c_int,
                parameter => *const sched_param) -> c_int);
        };
        match Schedule::new(policy, (*parameter).sched_priority) {
            Ok(schedule) => schedule.set(t),
            Err(errno) => errno,
        }
    }
}

/// See `pthread_getschedparam(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getschedparam(
    thread: pthread_t,
    policy: *mut c_int,
    parameter: *mut sched_param,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(t) = state::of(thread) else {
            if state::is_gone(thread) {
                return libc::ESRCH;
            }
            return real!(pthread_getschedparam(thread => pthread_t, policy => *mut c_int,
                parameter => *mut sched_param) -> c_int);
        };
        let schedule = Schedule::of(t);
        policy.write(schedule.policy);
        (*parameter).sched_priority = schedule.priority;
    }
    0
}

/// See `pthread_setschedprio(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(t) = state::of(thread) else {
            if state::is_gone(thread) {
                return libc::ESRCH;
            }
            return real!(pthread_setschedprio(thread => pthread_t, priority => c_int) -> c_int);
        };
        match Schedule::new(Schedule::of(t).policy, priority) {
            Ok(schedule) => schedule.set(t),
            Err(errno) => errno,
        }
    }
}

/// The caller, if that is who `pid` means: to the kernel it is a thread's number.
fn caller(pid: pid_t) -> Option<&'static Thread> {
    let me = state::me()?;
    (pid == 0 || pid == crate::thread::gettid()).then_some(me)
}

/// See `sched_setscheduler(2)`: of the calling thread as [`pthread_setschedparam`], of others the
/// kernel's.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setscheduler(
    pid: pid_t,
    policy: c_int,
    parameter: *const sched_param,
) -> c_int {
    let Some(me) = caller(pid) else {
        // SAFETY: the caller's contract.
        return unsafe {
            real!(sched_setscheduler(pid => pid_t, policy => c_int,
                parameter => *const sched_param) -> c_int)
        };
    };
    const RESET_ON_FORK: c_int = 0x4000_0000;
    // SAFETY: the caller's contract.
    let priority = unsafe { (*parameter).sched_priority };
    match Schedule::new(policy & !RESET_ON_FORK, priority).map_or_else(|e| e, |s| s.set(me)) {
        0 => 0,
        errno => {
            sys::set_errno(errno);
            -1
        }
    }
}

/// See `sched_getscheduler(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getscheduler(pid: pid_t) -> c_int {
    match caller(pid) {
        Some(me) => Schedule::of(me).policy,
        // SAFETY: handed on.
        None => unsafe { real!(sched_getscheduler(pid => pid_t) -> c_int) },
    }
}
