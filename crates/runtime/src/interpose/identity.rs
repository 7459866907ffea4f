//! Changing user and group: the kernel keeps them for each kernel thread, C for the process. So it
//! is with capabilities and what else limits what a thread may do, if a user thread is to have them
//! on any kernel thread ([`everywhere`]).
//!
//! libc makes every thread of its list repeat the call in a signal handler, which marks its thread
//! as done. It knows the thread by the thread pointer, and on a worker that is a user thread's: the
//! mark would be made there, and the caller would signal the worker again and again, for ever. So
//! this is done here, always, because a runtime may start meanwhile: the same signal goes to the
//! same threads, and the handler tells the kernel's thread number to whoever waits for it.
//!
//! ```text
//!   read the list of threads -> signal those that are new -> wait until each is done or gone
//!                            -> again, until none is new
//! ```
//!
//! A thread that was being started when the list was read has no number yet. Its maker has blocked
//! signals until it has one, so the maker is done either before, and the new thread is like it, or
//! afterwards, and the list is read again. Where libc's list was not found, `/proc/self/task` says
//! who is there. If that cannot be read either, the process ends, as it does in libc when some
//! threads can change and others cannot: one with two identities is a hole.

use super::futex::fail;
use crate::os::reserved;
use crate::sync::Mutex;
use crate::{sys, tls};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64};
use libc::{gid_t, siginfo_t, uid_t};
use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

/// `SIGSETXID` of libc.
const SIGNAL: i32 = 33;

/// One change at a time. What follows belongs to it.
static GUARD: Mutex<()> = Mutex::new(());
static NUMBER: AtomicI64 = AtomicI64::new(0);
static ARGUMENTS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];
static WORST: AtomicI64 = AtomicI64::new(0);
static ASKED: AtomicPtr<Vec<Asked>> = AtomicPtr::new(core::ptr::null_mut());

/// A kernel thread that was asked to make the call.
struct Asked {
    tid: i32,
    done: AtomicBool,
}

/// Runs on any kernel thread, whatever its thread pointer: no thread-local variable may be used.
/// Not preempted: it would go on on another kernel thread, and make the call there.
extern "C-unwind" fn repeat(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: null or leaked.
    let Some(all) = (unsafe { ASKED.load(Acquire).as_ref() }) else { return };
    let tid = sys::gettid();
    let Some(asked) = all.iter().find(|a| a.tid == tid && !a.done.load(Relaxed)) else { return };
    WORST.fetch_min(make_call(), Relaxed);
    asked.done.store(true, Release);
}

/// The call itself, on this kernel thread.
fn make_call() -> i64 {
    let [a, b, c, d, e] = ARGUMENTS.each_ref().map(|argument| argument.load(Relaxed));
    // SAFETY: the call that `everywhere` was asked for; its memory lives until all have made it.
    unsafe { sys::syscall6(NUMBER.load(Relaxed), [a, b, c, d, e, 0]) }
}

/// Makes a system call that changes what the calling kernel thread may do on every kernel thread of
/// the process, this one included, more than once perhaps. An error of the first call is the
/// result, as libc has it; if it fails on others later, the process ends. Blocks until all have
/// made it.
///
/// # Safety
///
/// As for the call, on any thread, until all have made it.
pub unsafe fn everywhere(number: i64, arguments: [u64; 5]) -> c_int {
    let pid = std::process::id() as i32;
    let guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    NUMBER.store(number, Relaxed);
    for (to, from) in ARGUMENTS.iter().zip(arguments) {
        to.store(from, Relaxed);
    }
    let own = make_call();
    if own < 0 {
        return fail(-own as i32) as c_int;
    }
    WORST.store(0, Relaxed);
    reserved::install(SIGNAL, repeat, reserved::How::OnKernelThread);
    let mut known = HashSet::new();
    loop {
        // All of them, this one again too: the thread may have moved since.
        let new: Vec<Asked> = kernel_threads()
            .into_iter()
            .filter(|&tid| known.insert(tid))
            .map(|tid| Asked { tid, done: AtomicBool::new(false) })
            .collect();
        if new.is_empty() {
            break;
        }
        // Leaked: a signal of somebody else's may come at any time, and changing identities is
        // rare.
        let new = Box::leak(Box::new(new));
        ASKED.store(new, Release);
        for asked in &*new {
            let _ = sys::tgkill(pid, asked.tid, SIGNAL);
        }
        new.iter().for_each(|asked| wait(pid, asked));
    }
    let worst = WORST.load(Relaxed);
    drop(guard);
    if worst < 0 {
        end_process("some kernel threads may do what others must not do any more");
    }
    0
}

/// Waits until it has made the call, or has ended.
fn wait(pid: i32, asked: &Asked) {
    while !asked.done.load(Acquire) && sys::tgkill(pid, asked.tid, 0).is_ok() {
        crate::time::sleep(Duration::from_micros(20));
    }
}

/// The numbers of all kernel threads that are there at some moment during the call.
fn kernel_threads() -> Vec<i32> {
    if let Some(tids) = tls::kernel_threads() {
        return tids;
    }
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        end_process("/proc is needed to find the kernel threads and limit what they may do");
    };
    tasks.flatten().filter_map(|t| t.file_name().to_str()?.parse().ok()).collect()
}

fn end_process(why: &str) -> ! {
    eprintln!("quaver: {why}");
    std::process::abort()
}

const KEEP: u64 = u32::MAX as u64;

macro_rules! calls {
    ($($name:ident($($arg:ident: $ty:ty),*) = $number:expr, [$($value:expr),*];)*) => {$(
        #[doc = concat!("libc's `", stringify!($name), "`, for all kernel threads.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: numbers, and groups that libc's contract makes valid meanwhile.
            unsafe { everywhere($number, [$($value),*, 0, 0]) }
        }
    )*};
}

calls! {
    setuid(uid: uid_t) = libc::SYS_setuid, [uid.into(), 0, 0];
    setgid(gid: gid_t) = libc::SYS_setgid, [gid.into(), 0, 0];
    seteuid(uid: uid_t) = libc::SYS_setresuid, [KEEP, uid.into(), KEEP];
    setegid(gid: gid_t) = libc::SYS_setresgid, [KEEP, gid.into(), KEEP];
    setreuid(r: uid_t, e: uid_t) = libc::SYS_setreuid, [r.into(), e.into(), 0];
    setregid(r: gid_t, e: gid_t) = libc::SYS_setregid, [r.into(), e.into(), 0];
    setresuid(r: uid_t, e: uid_t, s: uid_t) = libc::SYS_setresuid, [r.into(), e.into(), s.into()];
    setresgid(r: gid_t, e: gid_t, s: gid_t) = libc::SYS_setresgid, [r.into(), e.into(), s.into()];
    setgroups(n: usize, groups: *const gid_t) = libc::SYS_setgroups, [n as u64, groups as u64, 0];
}

/// libc's `initgroups`, for all kernel threads.
///
/// # Safety
///
/// `user` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn initgroups(user: *const c_char, group: gid_t) -> c_int {
    type List = unsafe extern "C" fn(*const c_char, gid_t, *mut gid_t, *mut c_int) -> c_int;
    // By name: in a libc that is linked statically the two functions are in one object, which would
    // come with its `initgroups`.
    // SAFETY: plain symbol look-up with a NUL-terminated name.
    let list = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getgrouplist".as_ptr()) };
    if list.is_null() {
        return fail(libc::ENOSYS) as c_int;
    }
    let mut groups = vec![0 as gid_t; 65536];
    let mut n = groups.len() as c_int;
    // SAFETY: the function has this type; the caller's contract; room for `n` groups.
    let found = unsafe {
        let list = core::mem::transmute::<*mut c_void, List>(list);
        list(user, group, groups.as_mut_ptr(), &mut n)
    };
    if found < 0 {
        return fail(libc::EINVAL) as c_int;
    }
    setgroups(n as usize, groups.as_ptr())
}
