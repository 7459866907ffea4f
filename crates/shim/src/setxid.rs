//! Changing user and group: the kernel keeps them for each kernel thread, C for the process.
//!
//! The C library makes every thread of its list repeat the call in a signal handler, which knows its thread by the thread
//! pointer. On a carrier that is a user thread's, so this is done here instead: the same signal (33) goes to every kernel
//! thread in `/proc/self/task`, and the handler makes the system call without looking at who it is.

use crate::sys::{self, call, returned};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicI64, AtomicIsize, AtomicU32, AtomicUsize, Ordering::*};
use libc::{gid_t, uid_t};
use quaver::foreign::{futex::Limits, lock};
use std::collections::HashSet;

const SIGNAL: i32 = 33;

static GUARD: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicI64 = AtomicI64::new(0);
static ARGUMENTS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
static DONE: AtomicUsize = AtomicUsize::new(0);
static WORST: AtomicIsize = AtomicIsize::new(0);

extern "C-unwind" fn repeat(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let [a, b, c] = [0, 1, 2].map(|i: usize| ARGUMENTS[i].load(Relaxed));
    // SAFETY: the call that `everywhere` was asked for; its memory lives until all have made it.
    let r = unsafe { call(NUMBER.load(Relaxed), [a, b, c, 0, 0, 0]) };
    WORST.fetch_min(r, Relaxed);
    DONE.fetch_add(1, Release);
}

/// Makes a call on every kernel thread of the process.
fn everywhere(number: i64, a: [usize; 3]) -> c_int {
    // SAFETY: the program's own arguments.
    let own = unsafe { call(number, [a[0], a[1], a[2], 0, 0, 0]) };
    if own < 0 {
        return returned(own) as c_int;
    }
    lock::lock(&GUARD, &Limits::NONE);
    NUMBER.store(number, Relaxed);
    for (to, from) in ARGUMENTS.iter().zip(a) {
        to.store(from, Relaxed);
    }
    DONE.store(0, Relaxed);
    WORST.store(0, Relaxed);
    crate::cancel::install(SIGNAL, repeat);
    let pid = std::process::id() as usize;
    let mut asked = HashSet::new();
    loop {
        // All of them, this one again too: the thread may have moved since.
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let tids = tasks.filter_map(|t| t.file_name().to_str()?.parse::<usize>().ok());
        let new: Vec<usize> = tids.filter(|tid| asked.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        let mut sent = DONE.load(Acquire);
        for tid in new {
            // SAFETY: no memory.
            let r = unsafe { call(libc::SYS_tgkill, [pid, tid, SIGNAL as usize, 0, 0, 0]) };
            sent += usize::from(r == 0);
        }
        while DONE.load(Acquire) < sent {
            crate::time::nap();
        }
    }
    let worst = WORST.load(Relaxed);
    lock::unlock(&GUARD);
    if worst < 0 {
        // As the C library does: a process with two identities is a security hole.
        crate::say::say(format_args!("some kernel threads could not change user or group"));
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
    0
}

const KEEP: usize = u32::MAX as usize;

macro_rules! calls {
    ($($name:ident($($arg:ident: $ty:ty),*) = $number:expr, [$($value:expr),*];)*) => {$(
        /// See the manual.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> c_int {
            everywhere($number, [$($value),*])
        }
    )*};
}

calls! {
    setuid(uid: uid_t) = libc::SYS_setuid, [uid as usize, 0, 0];
    setgid(gid: gid_t) = libc::SYS_setgid, [gid as usize, 0, 0];
    seteuid(uid: uid_t) = libc::SYS_setresuid, [KEEP, uid as usize, KEEP];
    setegid(gid: gid_t) = libc::SYS_setresgid, [KEEP, gid as usize, KEEP];
    setreuid(r: uid_t, e: uid_t) = libc::SYS_setreuid, [r as usize, e as usize, 0];
    setregid(r: gid_t, e: gid_t) = libc::SYS_setregid, [r as usize, e as usize, 0];
    setresuid(r: uid_t, e: uid_t, s: uid_t) = libc::SYS_setresuid, [r as usize, e as usize, s as usize];
    setresgid(r: gid_t, e: gid_t, s: gid_t) = libc::SYS_setresgid, [r as usize, e as usize, s as usize];
    setgroups(n: usize, groups: *const gid_t) = libc::SYS_setgroups, [n, groups as usize, 0];
}

/// See `initgroups(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn initgroups(user: *const c_char, group: gid_t) -> c_int {
    let mut groups = vec![0 as gid_t; 65536];
    let mut n = groups.len() as c_int;
    // SAFETY: the caller's contract; room for `n` groups.
    if unsafe { libc::getgrouplist(user, group, groups.as_mut_ptr(), &mut n) } < 0 {
        sys::set_errno(libc::EINVAL);
        return -1;
    }
    setgroups(n as usize, groups.as_ptr())
}
