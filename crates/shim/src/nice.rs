//! How nice threads are. To the kernel that is a matter of kernel threads. So what the main thread
//! asks for is given to the whole process; of others it is remembered and told again, and their
//! workers are as nice as the process.

use crate::real::real;
use crate::state::{self, Thread};
use crate::sys::{call, failed};
use crate::thread::with_thread;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use libc::{EACCES, PRIO_PROCESS, id_t, pid_t};

/// What a thread has asked for, if it has.
pub(crate) struct Nice(AtomicI32);

impl Nice {
    const AS_THE_PROCESS: i32 = i32::MIN;

    pub(crate) fn new() -> Nice {
        Nice(AtomicI32::new(Nice::AS_THE_PROCESS))
    }

    /// A new thread is as nice as the one that makes it.
    pub(crate) fn inherit(&self, creator: &Nice) {
        self.0.store(creator.0.load(Relaxed), Relaxed);
    }

    fn value(&self) -> c_int {
        match self.0.load(Relaxed) {
            Nice::AS_THE_PROCESS => of_process(),
            asked => asked,
        }
    }
}

const LOW: c_int = -20;
const HIGH: c_int = 19;

fn process() -> pid_t {
    std::process::id() as pid_t
}

fn of_process() -> c_int {
    of_kernel_thread(process())
}

fn of_kernel_thread(tid: pid_t) -> c_int {
    // SAFETY: no memory.
    let r =
        unsafe { call(libc::SYS_getpriority, [PRIO_PROCESS as usize, tid as usize, 0, 0, 0, 0]) };
    // The kernel's result is from 40 to 1.
    20 - r as c_int
}

/// The result is an error of C.
fn set(t: &Thread, value: c_int) -> c_int {
    let value = value.clamp(LOW, HIGH);
    if state::main_thread().is_some_and(|main| core::ptr::eq(main, t)) {
        return set_process(value);
    }
    if value < t.nice.value() && !may_be(value) {
        return EACCES;
    }
    t.nice.0.store(value, Relaxed);
    0
}

/// May a thread become less nice than it is?
fn may_be(value: c_int) -> bool {
    // SAFETY: filled by the C library.
    unsafe {
        let mut limit: libc::rlimit = core::mem::zeroed();
        libc::geteuid() == 0
            || libc::getrlimit(libc::RLIMIT_NICE, &mut limit) == 0
                && (20 - value) as u64 <= limit.rlim_cur
    }
}

/// Of all kernel threads but those that `quaver share` has ranked. What they make later is as
/// nice.
fn set_process(value: c_int) -> c_int {
    let before = of_process();
    let set = |tid: pid_t| {
        let a = [PRIO_PROCESS as usize, tid as usize, value as usize, 0, 0, 0];
        // SAFETY: no memory.
        -unsafe { call(libc::SYS_setpriority, a) } as c_int
    };
    match set(process()) {
        0 => {}
        errno => return errno,
    }
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    for task in tasks.flatten() {
        let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(tid) = tid.filter(|&tid| of_kernel_thread(tid) == before) {
            // Perhaps it has ended.
            let _ = set(tid);
        }
    }
    0
}

/// [`with_thread`] of the thread that `who` is, if it is one.
fn with_one<T>(which: u32, who: id_t, f: impl FnOnce(&Thread) -> T) -> Option<T> {
    if which == PRIO_PROCESS { with_thread(who as pid_t, f) } else { None }
}

/// See `setpriority(2)`, and above.
#[unsafe(no_mangle)]
pub extern "C" fn setpriority(which: u32, who: id_t, value: c_int) -> c_int {
    match with_one(which, who, |t| set(t, value)) {
        Some(errno) => failed(errno),
        // SAFETY: handed on.
        None => unsafe { real!(setpriority(which => u32, who => id_t, value => c_int) -> c_int) },
    }
}

/// See `getpriority(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn getpriority(which: u32, who: id_t) -> c_int {
    match with_one(which, who, |t| t.nice.value()) {
        Some(value) => value,
        // SAFETY: handed on.
        None => unsafe { real!(getpriority(which => u32, who => id_t) -> c_int) },
    }
}

/// As the system call says it: from 40 to 1; `None`: the kernel must be asked.
pub(crate) fn system_call(which: u32, who: id_t) -> Option<c_int> {
    with_one(which, who, |t| 20 - t.nice.value())
}

/// See `nice(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn nice(more: c_int) -> c_int {
    let done = with_thread(0, |t| {
        let value = t.nice.value().saturating_add(more).clamp(LOW, HIGH);
        (value, set(t, value))
    });
    match done {
        Some((value, 0)) => value,
        Some((_, EACCES)) => failed(libc::EPERM),
        Some((_, errno)) => failed(errno),
        // SAFETY: handed on.
        None => unsafe { real!(nice(more => c_int) -> c_int) },
    }
}
