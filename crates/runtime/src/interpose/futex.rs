//! Futex waits of `std` and `parking_lot`, made to wait as user threads.
//!
//! Rust's standard library waits by calling libc's function `syscall(SYS_futex, ...)`. With the definition below,
//! `std::sync::Mutex`, `Condvar`, `Once`, `thread::park`, channels, and `parking_lot`'s locks park the user thread instead of
//! blocking the worker.
//!
//! Waiting user threads stand in a table of lists, keyed by the futex's address. `FUTEX_WAKE` through the same function
//! wakes them first and the kernel's sleepers (kernel threads that wait for the same lock) with what is left. Only
//! process-private futexes are concerned; everything else goes to the kernel unchanged. glibc's own locks make the
//! system call inline and are not seen here: those threads are handed over when they block.
//!
//! # Why no wake-up is lost
//!
//! A waiter counts itself in `WAITERS`, locks its list and compares the word, all before it stands in the list. A waker
//! has changed the word before it looks at `WAITERS` (with a full fence between), then locks the same list. So either the
//! waiter sees the new word, or the waker sees the waiter.

use crate::park::{SpinLock, Waiter, current, unpark};
use crate::sys;
use crate::thread::raw;
use core::cell::Cell;
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*, fence};
use std::time::{Duration, Instant};

const BUCKETS: usize = 256;

/// User threads that wait or are about to.
static WAITERS: AtomicUsize = AtomicUsize::new(0);
static TABLE: [SpinLock<List>; BUCKETS] =
    [const { SpinLock::new(List { first: core::ptr::null(), last: core::ptr::null() }) }; BUCKETS];

/// A waiting user thread; lives on its stack. Links and `queued` are used under the list's lock.
struct Node {
    address: usize,
    bits: u32,
    waiter: Waiter,
    woken: AtomicBool,
    queued: Cell<bool>,
    next: Cell<*const Node>,
    prev: Cell<*const Node>,
}

struct List {
    first: *const Node,
    last: *const Node,
}

// SAFETY: the nodes that it points to are valid while they are queued, and used under the lock only.
unsafe impl Send for List {}

impl List {
    fn push(&mut self, n: &Node) {
        n.prev.set(self.last);
        n.next.set(core::ptr::null());
        // SAFETY: queued nodes are valid.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(n),
            None => self.first = n,
        }
        self.last = n;
        n.queued.set(true);
    }

    fn remove(&mut self, n: &Node) {
        // SAFETY: queued nodes are valid.
        match unsafe { n.prev.get().as_ref() } {
            Some(p) => p.next.set(n.next.get()),
            None => self.first = n.next.get(),
        }
        // SAFETY: as above.
        match unsafe { n.next.get().as_ref() } {
            Some(x) => x.prev.set(n.prev.get()),
            None => self.last = n.prev.get(),
        }
        n.queued.set(false);
    }
}

fn bucket(address: usize) -> &'static SpinLock<List> {
    let hash = (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    &TABLE[hash % BUCKETS]
}

/// Waits until woken, like `FUTEX_WAIT_BITSET`. The error is the errno: `EINTR` if `interrupted` says so, which is asked
/// before sleeping and whenever the thread is unparked.
///
/// # Safety
///
/// `word` is a valid futex word. The caller is a user thread outside the runtime's critical sections.
pub(crate) unsafe fn wait(
    word: *const AtomicU32,
    expected: u32,
    bits: u32,
    at: Option<Instant>,
    interrupted: impl Fn() -> bool,
) -> Result<(), i32> {
    let node = Node {
        address: word as usize,
        bits,
        waiter: current(),
        woken: AtomicBool::new(false),
        queued: Cell::new(false),
        next: Cell::new(core::ptr::null()),
        prev: Cell::new(core::ptr::null()),
    };
    WAITERS.fetch_add(1, SeqCst);
    {
        let mut list = bucket(node.address).lock();
        // SAFETY: the caller's contract.
        if unsafe { &*word }.load(SeqCst) != expected {
            drop(list);
            WAITERS.fetch_sub(1, Relaxed);
            return Err(libc::EAGAIN);
        }
        list.push(&node);
    }
    let mut result = Ok(());
    while result.is_ok() && !node.woken.load(Acquire) {
        if interrupted() {
            result = Err(libc::EINTR);
        } else if !raw::park_current(at) {
            result = Err(libc::ETIMEDOUT);
        }
    }
    if result.is_err() {
        let mut list = bucket(node.address).lock();
        if node.queued.get() {
            list.remove(&node);
        } else {
            // Woken at the last moment.
            result = Ok(());
        }
    }
    WAITERS.fetch_sub(1, Relaxed);
    result
}

/// Wakes up to `n` user threads; returns how many.
pub(crate) fn wake(address: usize, n: u32, bits: u32) -> u32 {
    fence(SeqCst);
    if WAITERS.load(SeqCst) == 0 {
        return 0;
    }
    let mut woken = 0;
    while woken < n {
        let mut list = bucket(address).lock();
        let mut at = list.first;
        // SAFETY: queued nodes are valid.
        while let Some(node) = unsafe { at.as_ref() } {
            if node.address == address && node.bits & bits != 0 {
                break;
            }
            at = node.next.get();
        }
        // SAFETY: still locked.
        let Some(node) = (unsafe { at.as_ref() }) else { return woken };
        list.remove(node);
        let waiter = node.waiter;
        // Its last use: the waiter may return as soon as it sees this.
        node.woken.store(true, Release);
        let quiet = list.unlock();
        unpark(waiter);
        drop(quiet);
        woken += 1;
    }
    woken
}

/// In the child of a fork: nobody waits, and nobody holds a list, whatever the parent's threads were doing.
///
/// # Safety
///
/// There is no other thread.
pub(crate) unsafe fn forget_waiters() {
    WAITERS.store(0, Relaxed);
    for list in &TABLE {
        let empty = SpinLock::new(List { first: core::ptr::null(), last: core::ptr::null() });
        // SAFETY: nobody else is there to use it.
        unsafe { (&raw const *list).cast_mut().write(empty) };
    }
}

/// When a futex call's timeout ends; `None`: never.
///
/// # Safety
///
/// `ts` is null or valid.
unsafe fn deadline(ts: *const libc::timespec, absolute: bool, realtime: bool) -> Option<Instant> {
    // SAFETY: the caller's contract.
    let ts = unsafe { ts.as_ref() }?;
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
    crate::park::deadline_after(Duration::from_nanos(span.clamp(0, i64::MAX.into()) as u64))
}

/// libc's `syscall`, except that a user thread's private futex waits do not block its worker.
///
/// # Safety
///
/// As for libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    nr: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    const OP: c_int = 0x7f;
    let op = b as c_int;
    let private = op & libc::FUTEX_PRIVATE_FLAG != 0;
    if nr == libc::SYS_futex && private {
        let (address, val) = (a as usize, c as u32);
        let ts = d as *const libc::timespec;
        let realtime = op & libc::FUTEX_CLOCK_REALTIME != 0;
        match op & OP & !libc::FUTEX_PRIVATE_FLAG {
            kind @ (libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) if can_park() => {
                let (bits, absolute) =
                    if kind == libc::FUTEX_WAIT { (u32::MAX, false) } else { (f as u32, true) };
                // SAFETY: the caller passes a valid futex word and a null or valid timeout.
                return match unsafe {
                    wait(
                        address as *const AtomicU32,
                        val,
                        bits,
                        deadline(ts, absolute, realtime),
                        || false,
                    )
                } {
                    Ok(()) => 0,
                    Err(errno) => fail(errno),
                };
            }
            kind @ (libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET) => {
                let bits = if kind == libc::FUTEX_WAKE { u32::MAX } else { f as u32 };
                let woken = wake(address, val, bits);
                if woken >= val && woken > 0 {
                    return woken.into();
                }
                let args = [a, b, (val - woken).into(), d, e, f].map(|x| x as u64);
                // SAFETY: handed on.
                let r = unsafe { sys::syscall6(nr, args) };
                return if r < 0 { fail(-r as i32) } else { r + i64::from(woken) };
            }
            _ => {}
        }
    }
    // SAFETY: handed on.
    let r = unsafe { sys::syscall6(nr, [a, b, c, d, e, f].map(|x| x as u64)) };
    if (-4095..0).contains(&r) { fail(-r as i32) } else { r }
}

/// May the caller wait as a user thread? Not in a critical section of the runtime.
pub(super) fn can_park() -> bool {
    raw::current().is_some_and(|t| t.no_preempt.get() == 0)
}

/// Reports an error as libc functions do.
#[cold]
pub(super) fn fail(errno: i32) -> c_long {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}
