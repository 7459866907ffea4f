//! Where threads may run. That is remembered and told again, as the kernel does it, but workers run
//! where the runtime wants them to: `quaver run --cpus`.

use crate::real::real;
use crate::state::{self, META, Thread};
use crate::sys;
use crate::thread::with_thread;
use crate::{inline_calls, memory};
use core::ffi::c_int;
use core::slice;
use libc::{cpu_set_t, pid_t, pthread_t};
use quaver::foreign::futex::Limits;
use quaver::foreign::lock;
use quaver::foreign::thread::workers;
use quaver::platform::parse_cpu_list;

/// CPUs, a bit each, as the kernel has them in memory: more than there are.
pub(crate) type Cpus = [u8; size_of::<cpu_set_t>()];

/// Of a thread. The result is an error of C.
///
/// # Safety
///
/// `set` has `size` bytes.
unsafe fn remember(t: &Thread, size: usize, set: *const cpu_set_t) -> c_int {
    let mut given = [0; size_of::<Cpus>()];
    let size = size.min(given.len());
    // SAFETY: the caller's contract.
    if let Err(errno) = unsafe { memory::get_bytes(set.cast(), &mut given[..size]) } {
        return errno;
    }
    // SAFETY: no memory.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    let mut new = [0; size_of::<Cpus>()];
    for (i, (to, from)) in new.iter_mut().zip(given).enumerate() {
        // The kernel leaves out what there is not.
        let here = (cpus as usize).saturating_sub(8 * i).min(8);
        *to = from & ((1u16 << here) - 1) as u8;
    }
    if new.iter().all(|&byte| byte == 0) {
        return libc::EINVAL;
    }
    lock::lock(&META, &Limits::NONE);
    // SAFETY: under the lock.
    unsafe { *t.affinity.get() = Some(new) };
    lock::unlock(&META);
    0
}

/// As the user wants it, before there is a runtime: libraries look then. `None`: nothing was said.
fn workers_to_be() -> Option<(usize, Vec<usize>)> {
    let said = |name| std::env::var(name).ok();
    let cpus = said("QUAVER_CPUS").and_then(|list| parse_cpu_list(&list).ok()).unwrap_or_default();
    let workers = said("QUAVER_WORKERS").and_then(|number| number.parse().ok());
    Some((workers.or((!cpus.is_empty()).then_some(cpus.len()))?, cpus))
}

/// Leaves as many CPUs of a set as there are workers: libraries make a thread for each, and spin
/// for long where they think that all have a CPU.
fn keep_workers(set: &mut [u8]) {
    if let Some((workers, pinned)) = workers() {
        keep(set, workers, pinned);
    } else if let Some((workers, pinned)) = workers_to_be() {
        keep(set, workers, &pinned);
    }
}

/// The first `workers` of a set; of these, if there are any.
fn keep(set: &mut [u8], workers: usize, pinned: &[usize]) {
    let mut left = workers;
    for (i, byte) in set.iter_mut().enumerate() {
        for bit in 0..8 {
            let is_in = *byte >> bit & 1 != 0;
            if is_in && left > 0 && (pinned.is_empty() || pinned.contains(&(8 * i + bit))) {
                left -= 1;
            } else {
                *byte &= !(1 << bit);
            }
        }
    }
}

/// What was remembered; if nothing was, where the workers may run. The result is how many bytes the
/// kernel says, or a negative error.
///
/// # Safety
///
/// `set` has `size` bytes.
unsafe fn tell(t: &Thread, size: usize, set: *mut cpu_set_t) -> isize {
    // SAFETY: the caller's contract.
    let set = unsafe { slice::from_raw_parts_mut(set.cast::<u8>(), size) };
    let me = std::process::id() as usize;
    // SAFETY: the kernel writes as many bytes at most.
    let written = unsafe {
        sys::call(libc::SYS_sched_getaffinity, [me, size, set.as_mut_ptr() as usize, 0, 0, 0])
    };
    if written < 0 {
        return written;
    }
    let (kernels, rest) = set.split_at_mut(written as usize);
    rest.fill(0);
    lock::lock(&META, &Limits::NONE);
    // SAFETY: under the lock.
    let remembered = unsafe { *t.affinity.get() };
    lock::unlock(&META);
    match remembered {
        Some(mask) => {
            kernels.fill(0);
            kernels.iter_mut().zip(mask).for_each(|(to, from)| *to = from);
        }
        None => keep_workers(kernels),
    }
    written
}

/// See `pthread_setaffinity_np(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setaffinity_np(
    thread: pthread_t,
    size: usize,
    set: *const cpu_set_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match state::of(thread) {
            Some(t) => remember(t, size, set),
            None if state::is_gone(thread) => libc::ESRCH,
            None => real!(pthread_setaffinity_np(thread => pthread_t, size => usize,
                set => *const cpu_set_t) -> c_int),
        }
    }
}

/// See `pthread_getaffinity_np(3)`. A library that makes futex calls without the C library asks
/// this in its constructor: [`inline_calls::look`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getaffinity_np(
    thread: pthread_t,
    size: usize,
    set: *mut cpu_set_t,
) -> c_int {
    inline_calls::look();
    // SAFETY: the caller's contract.
    unsafe {
        match state::of(thread) {
            Some(t) => -tell(t, size, set).min(0) as c_int,
            None if state::is_gone(thread) => libc::ESRCH,
            None => {
                let r = real!(pthread_getaffinity_np(thread => pthread_t, size => usize,
                    set => *mut cpu_set_t) -> c_int);
                if r == 0 {
                    keep_workers(slice::from_raw_parts_mut(set.cast(), size));
                }
                r
            }
        }
    }
}

/// See `sched_setaffinity(2)`: of the program's threads as [`pthread_setaffinity_np`], of others
/// the kernel's.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(
    pid: pid_t,
    size: usize,
    set: *const cpu_set_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match with_thread(pid, |t| remember(t, size, set)) {
            Some(errno) => sys::failed(errno),
            None => real!(sched_setaffinity(pid => pid_t, size => usize, set => *const cpu_set_t)
                -> c_int),
        }
    }
}

/// See `sched_getaffinity(2)`, and above.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(pid: pid_t, size: usize, set: *mut cpu_set_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { system_call(pid, size, set).min(0) as c_int }
}

/// The same as a system call: how many bytes were written.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn system_call(pid: pid_t, size: usize, set: *mut cpu_set_t) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        match with_thread(pid, |t| tell(t, size, set)) {
            Some(result) => sys::returned(result),
            None => real!(sched_getaffinity(pid => pid_t, size => usize, set => *mut cpu_set_t)
                -> c_int) as isize,
        }
    }
}
