//! Names of threads: `pthread_setname_np`, and `prctl` as far as it is about names.
//!
//! A thread has its maker's name until it gets another one, as in the kernel. Names that were given
//! are labels of the runtime's threads, too, which is where debuggers look; and the main thread's
//! is written to `/proc/self/comm`, for `ps` and `pgrep`. The names of the kernel threads that run
//! user threads stay the runtime's.

use crate::real::real;
use crate::state::{self, META, Thread};
use crate::{memory, privileges, sys};
use core::ffi::{CStr, c_char, c_int, c_ulong};
use core::ptr;
use libc::pthread_t;
use quaver::foreign::futex::Limits;
use quaver::foreign::lock;

/// As long as the kernel's names are, with the zero at the end.
const SIZE: usize = 16;

/// Gives a thread a name, of which the first 15 bytes count.
fn set(t: &Thread, name: &[u8]) {
    let length = name.len().min(SIZE - 1);
    let mut new = [0; SIZE];
    new[..length].copy_from_slice(&name[..length]);
    lock::lock(&META, &Limits::NONE);
    // SAFETY: under `META`.
    unsafe { *t.name.get() = new };
    if let Some(uthread) = t.uthread.get() {
        uthread.set_label(new);
    }
    lock::unlock(&META);
    if state::main_thread().is_some_and(|main| ptr::eq(main, t)) {
        tell_kernel(&new[..length]);
    }
}

/// A thread's name.
pub(crate) fn get(t: &Thread) -> [u8; SIZE] {
    lock::lock(&META, &Limits::NONE);
    // SAFETY: under `META`.
    let name = unsafe { *t.name.get() };
    lock::unlock(&META);
    name
}

/// Renames the process's first kernel thread. Without `/proc` it keeps its name.
fn tell_kernel(name: &[u8]) {
    let path = c"/proc/self/comm".as_ptr() as usize;
    let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: a C string; bytes that are there; a descriptor of our own.
    unsafe {
        let fd = sys::call(libc::SYS_open, [path, flags, 0, 0, 0, 0]);
        if fd >= 0 {
            let (at, length) = (name.as_ptr() as usize, name.len());
            sys::call(libc::SYS_write, [fd as usize, at, length, 0, 0, 0]);
            sys::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
        }
    }
}

/// See `pthread_setname_np(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(t) = state::of(thread) else {
            return real!(pthread_setname_np(thread => pthread_t, name => *const c_char) -> c_int);
        };
        let name = CStr::from_ptr(name).to_bytes();
        if name.len() >= SIZE {
            return libc::ERANGE;
        }
        set(t, name);
    }
    0
}

/// See `pthread_getname_np(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getname_np(
    thread: pthread_t,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(t) = state::of(thread) else {
            return real!(pthread_getname_np(thread => pthread_t, buffer => *mut c_char,
                size => usize) -> c_int);
        };
        if size < SIZE {
            return libc::ERANGE;
        }
        buffer.cast::<[u8; SIZE]>().write(get(t));
    }
    0
}

/// See `prctl(2)`. What is neither about names nor about [what threads may do](privileges) is for
/// the kernel thread that runs the caller at the moment.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    match (option, state::me()) {
        (libc::PR_SET_NAME, Some(me)) => {
            let mut name = [0; SIZE - 1];
            match memory::get_string(a as *const u8, &mut name) {
                Ok(n) => {
                    set(me, name[..n].split(|&byte| byte == 0).next().unwrap_or_default());
                    0
                }
                Err(errno) => sys::failed(errno),
            }
        }
        (libc::PR_GET_NAME, Some(me)) => {
            // SAFETY: the caller's contract: room for a name.
            let put = unsafe { memory::put(a as *mut [u8; SIZE], get(me)) };
            put.map_or_else(sys::failed, |()| 0)
        }
        // SAFETY: the caller's contract, handed on.
        _ => unsafe {
            match privileges::prctl(option, [a, b, c, d]) {
                Some(result) => result,
                None => real!(prctl(option => c_int, a => c_ulong, b => c_ulong, c => c_ulong,
                    d => c_ulong) -> c_int),
            }
        },
    }
}
