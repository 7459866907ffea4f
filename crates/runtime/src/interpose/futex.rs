//! Futex waits of `std` and `parking_lot`, made to wait as user threads.
//!
//! Rust's standard library waits by calling libc's function `syscall(SYS_futex, ...)`. With the
//! definition below, `std::sync::Mutex`, `Condvar`, `Once`, `thread::park`, channels, and
//! `parking_lot`'s locks park the user thread instead of blocking the worker. Who waits, and who is
//! woken, is in [`crate::park::lot`].
//!
//! Only process-private futexes are concerned; everything else goes to the kernel unchanged, unless
//! a host answers it ([`raw_calls`]), and so does what the kernel refuses. glibc's own locks make
//! the system call inline and are not seen here: those threads are handed over when they block.
//!
//! Calls that wake more than one word, or move waiters to another, wake all user threads that the
//! kernel would have moved. A wait may end for no reason, so that costs them a look at the word.
//!
//! # In signal handlers
//!
//! Waking is safe in a handler, whatever it has interrupted: [`super::postponed`].

use super::postponed;
use super::raw_calls::{self, FutexWait};
use crate::park::lot::{Lot, Sleepers};
use crate::park::{self, Waiter};
use crate::thread::raw;
use crate::{preempt, sys};
use core::cell::Cell;
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};

static LOT: Lot<1024> = Lot::new();

/// Waits as a user thread until woken, like `FUTEX_WAIT_BITSET`. The error is the errno: `EINTR` if
/// `interrupted` says so, which is asked before sleeping and whenever the thread is unparked.
///
/// # Safety
///
/// `word` is a valid futex word. The caller is a user thread outside the runtime's critical
/// sections.
pub(crate) unsafe fn wait(
    word: *const AtomicU32,
    expected: u32,
    bits: u32,
    at: Option<Instant>,
    interrupted: impl Fn() -> bool,
) -> Result<(), i32> {
    let me = park::current();
    debug_assert!(matches!(me, Waiter::User { .. }));
    // SAFETY: the caller's contract.
    let unchanged = || unsafe { &*word }.load(SeqCst) == expected;
    let _waiting = park::waits_for(c"futex", word);
    LOT.wait(me, word as usize, bits, unchanged, || {
        if interrupted() {
            Err(libc::EINTR)
        } else if !raw::park_current(at) {
            Err(libc::ETIMEDOUT)
        } else {
            Ok(())
        }
    })
}

/// Runs `wait`, which waits in the kernel for the word at `address`, so that those who wake it
/// know.
pub(crate) fn in_kernel<T>(address: usize, wait: impl FnOnce() -> T) -> T {
    let _counted = LOT.in_kernel(address);
    wait()
}

/// Wakes up to `n` threads, at least one; returns how many. `kernel` wakes up to as many as it is
/// asked for in the kernel.
pub(crate) fn wake(
    address: usize,
    n: u32,
    bits: u32,
    sleepers: Sleepers,
    kernel: impl Fn(u32) -> u32,
) -> u32 {
    if preempt::in_section() {
        let woken = kernel(n);
        if woken < n {
            postponed::post(address, n - woken, bits);
        }
        return woken;
    }
    LOT.wake(address, n, bits, sleepers, kernel)
}

/// Wakes up to `n` user threads.
pub(super) fn wake_users(address: usize, n: u32, bits: u32) -> u32 {
    LOT.wake(address, n, bits, Sleepers::Counted, |_| 0)
}

/// Wakes all user threads, whatever they wait for.
pub(super) fn wake_everybody() {
    LOT.wake_everybody();
}

/// In the child of a fork: nobody waits, and nobody holds a list, whatever the parent's threads
/// were doing.
///
/// # Safety
///
/// There is no other thread.
pub(crate) unsafe fn forget_waiters() {
    postponed::forget();
    // SAFETY: handed on.
    unsafe { LOT.forget() };
}

/// When a futex call's timeout ends; `None`: never.
fn deadline(ts: &libc::timespec, absolute: bool, realtime: bool) -> Option<Instant> {
    let nanos = i128::from(ts.tv_sec) * 1_000_000_000 + i128::from(ts.tv_nsec);
    let span = if absolute {
        let id = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes `now`.
        unsafe { libc::clock_gettime(id, &mut now) };
        nanos - (i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec))
    } else {
        nanos
    };
    park::deadline_after(Duration::from_nanos(span.clamp(0, i64::MAX.into()) as u64))
}

/// The arguments of a call, as C has them.
type Arguments = [c_long; 6];

/// A system call of futexes that concerns user threads; everything else is the kernel's alone.
enum FutexCall {
    Wait {
        bits: u32,
        absolute: bool,
        realtime: bool,
    },
    /// Which argument is the number.
    Wake {
        number: usize,
        bits: u32,
    },
    /// Wakes at the first address, and moves to the second or wakes there too.
    Two,
}

impl FutexCall {
    fn of(nr: c_long, a: &Arguments) -> Option<FutexCall> {
        /// `FUTEX2_SIZE_U32 | FUTEX2_PRIVATE`.
        const PRIVATE_WORD: c_long = 0x82;
        const SYS_FUTEX_WAKE: c_long = 454;
        match nr {
            libc::SYS_futex => FutexCall::of_old(a),
            SYS_FUTEX_WAKE if a[3] == PRIVATE_WORD => {
                Some(FutexCall::Wake { number: 2, bits: a[1] as u32 })
            }
            _ => None,
        }
    }

    fn of_old(a: &Arguments) -> Option<FutexCall> {
        const REALTIME: c_int = libc::FUTEX_CLOCK_REALTIME;
        let op = a[1] as c_int;
        if op & libc::FUTEX_PRIVATE_FLAG == 0 {
            return None;
        }
        let realtime = op & REALTIME != 0;
        match op & !libc::FUTEX_PRIVATE_FLAG & !REALTIME {
            libc::FUTEX_WAIT_BITSET => {
                Some(FutexCall::Wait { bits: a[5] as u32, absolute: true, realtime })
            }
            // The kernel refuses these with another clock.
            _ if realtime => None,
            libc::FUTEX_WAIT => Some(FutexCall::Wait { bits: u32::MAX, absolute: false, realtime }),
            libc::FUTEX_WAKE => Some(FutexCall::Wake { number: 2, bits: u32::MAX }),
            libc::FUTEX_WAKE_BITSET => Some(FutexCall::Wake { number: 2, bits: a[5] as u32 }),
            libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP => {
                Some(FutexCall::Two)
            }
            _ => None,
        }
    }
}

/// How many a call asks for: the kernel wakes one where it is asked for less.
fn at_least_one(n: c_long) -> u32 {
    (n as i32).max(1) as u32
}

/// What the kernel refuses before it looks at the word, as far as user threads must know it.
fn is_refused(address: usize, bits: u32, timeout: Option<&libc::timespec>) -> bool {
    const FIRST_PAGE: usize = 4096;
    address < FIRST_PAGE
        || !address.is_multiple_of(align_of::<u32>())
        || bits == 0
        || timeout.is_some_and(|t| t.tv_sec < 0 || !(0..1_000_000_000).contains(&t.tv_nsec))
}

/// libc's `syscall`, except that a user thread's private futex waits do not block its worker, and
/// that a host may answer some calls.
///
/// # Safety
///
/// As for libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    nr: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: the caller's contract.
    let r = unsafe {
        match FutexCall::of(nr, &arguments) {
            None => match raw_calls::answer(nr, &arguments) {
                None => kernel(nr, &arguments),
                Some(answer) => return answer,
            },
            Some(call) => futex(call, nr, &arguments),
        }
    };
    if (-4095..0).contains(&r) { fail(-r as i32) } else { r }
}

/// A system call that a program has made without the C library: the same for futexes, and the
/// kernel's for everything else. An error is a negative number, and `errno` stays.
///
/// # Safety
///
/// As for libc's `syscall`.
pub(super) unsafe fn inline(nr: c_long, a: &Arguments) -> c_long {
    // SAFETY: the caller's contract; `of` is what `futex` wants.
    unsafe {
        match FutexCall::of(nr, a) {
            None => kernel(nr, a),
            Some(call) => futex(call, nr, a),
        }
    }
}

/// The system call itself.
///
/// # Safety
///
/// As for libc's `syscall`.
#[inline]
unsafe fn kernel(nr: c_long, a: &Arguments) -> c_long {
    // SAFETY: handed on.
    unsafe { sys::syscall6(nr, a.map(|x| x as u64)) }
}

/// # Safety
///
/// As for libc's `syscall`; `call` is what `nr` and `a` ask for.
unsafe fn futex(call: FutexCall, nr: c_long, a: &Arguments) -> c_long {
    let address = a[0] as usize;
    match call {
        FutexCall::Wait { bits, absolute, realtime } => {
            // SAFETY: null or valid, says the caller.
            let timeout = unsafe { (a[3] as *const libc::timespec).as_ref() };
            if !raw::may_park() || is_refused(address, bits, timeout) {
                // SAFETY: handed on.
                return in_kernel(address, || unsafe { kernel(nr, a) });
            }
            let wait = FutexWait {
                word: address as *const AtomicU32,
                expected: a[2] as u32,
                bits,
                at: timeout.and_then(|t| deadline(t, absolute, realtime)),
            };
            wait.ask().map_or_else(|errno| (-errno).into(), |()| 0)
        }
        FutexCall::Wake { number, bits } => {
            let error = Cell::new(0);
            let n = at_least_one(a[number]);
            let woken = wake(address, n, bits, Sleepers::Any, |n| {
                let mut a = *a;
                a[number] = n.min(i32::MAX as u32).into();
                // SAFETY: handed on.
                let r = unsafe { kernel(nr, &a) };
                error.set(r.min(0));
                r.max(0) as u32
            });
            if woken == 0 { error.get() } else { woken.into() }
        }
        FutexCall::Two => {
            // SAFETY: handed on.
            let r = unsafe { kernel(nr, a) };
            if r < 0 {
                return r;
            }
            // The fourth argument is the other number, the fifth the other address.
            let (n, other) = (at_least_one(a[2]), a[3].clamp(0, i32::MAX.into()) as u32);
            let all = n.saturating_add(other);
            let mut users = users_at(address, all);
            if a[1] as c_int & !libc::FUTEX_PRIVATE_FLAG == libc::FUTEX_WAKE_OP && other > 0 {
                users += users_at(a[4] as usize, other);
            }
            r + c_long::from(users)
        }
    }
}

/// [`wake_users`], wherever the caller is.
fn users_at(address: usize, n: u32) -> u32 {
    wake(address, n, u32::MAX, Sleepers::Counted, |_| 0)
}

/// Reports an error as libc functions do.
#[cold]
pub(super) fn fail(errno: i32) -> c_long {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}
