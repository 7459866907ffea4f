//! pthread functions that ask or tell the kernel about a thread by its number, made right for user
//! threads, which the kernel does not know.
//!
//! * A mutex with `PTHREAD_PRIO_INHERIT` is made without it. The kernel, which would lend the owner
//!   a priority, looks for the owner by its number; where it finds none, libc waits for ever. User
//!   threads have no priorities of the kernel's to inherit. It is done for every mutex, because any
//!   may come to be locked by a user thread later.
//! * `pthread_getattr_np` tells the stack of a user thread, which collectors of garbage look
//!   through.
//! * `pthread_getaffinity_np` tells where the process may run, `pthread_getschedparam` that the
//!   kernel does not schedule the thread in a special way. (Since glibc 2.43 libc asks the kernel
//!   about each thread.)
//!
//! The symbols are weak: `quaver-shim` has definitions of its own. A shared library exports only
//! what it names itself, so `libquaver.so` repeats them.

use crate::{sys, tls};
use core::arch::global_asm;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};
use libc::{
    cpu_set_t, pthread_attr_t, pthread_mutex_t, pthread_mutexattr_t, pthread_t, sched_param,
};

macro_rules! weak {
    ($($name:literal => $function:path;)*) => {$(
        global_asm!(
            concat!(".weak ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            ".cfi_startproc",
            "jmp {function}",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            function = sym $function,
        );
    )*};
}

weak! {
    "pthread_mutex_init" => mutex_init;
    "pthread_getattr_np" => getattr;
    "pthread_getaffinity_np" => getaffinity;
    "pthread_getschedparam" => getschedparam;
}

/// libc's function of this name; null in a program that is linked statically.
fn libcs(name: &CStr, known: &AtomicPtr<c_void>) -> *mut c_void {
    let mut function = known.load(Acquire);
    if function.is_null() {
        // SAFETY: a symbol look-up.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        known.store(function, Release);
    }
    function
}

/// Calls libc's definition of a function.
macro_rules! real {
    ($name:ident($($value:expr => $type:ty),*)) => {{
        static LIBCS: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
        let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes());
        let function = libcs(name.expect("ends with a zero"), &LIBCS);
        if function.is_null() {
            return libc::ENOSYS;
        }
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        // SAFETY: libc's function of this name has this type; its arguments are the caller's.
        unsafe { core::mem::transmute::<*mut c_void, Function>(function)($($value),*) }
    }};
}

/// `PTHREAD_MUTEX_PRIO_INHERIT_NP` in a mutex's kind.
const INHERITS: i32 = 32;
/// Where a mutex has its kind.
const KIND: usize = 16;

/// libc's `pthread_mutex_init`, without priority inheritance.
///
/// # Safety
///
/// As for libc's.
pub unsafe extern "C" fn mutex_init(
    mutex: *mut pthread_mutex_t,
    attr: *const pthread_mutexattr_t,
) -> c_int {
    let r = real!(pthread_mutex_init(
        mutex => *mut pthread_mutex_t,
        attr => *const pthread_mutexattr_t
    ));
    if r == 0 && !attr.is_null() {
        // SAFETY: initialised above, and nobody else has it yet.
        unsafe { *mutex.byte_add(KIND).cast::<i32>() &= !INHERITS };
    }
    r
}

/// libc's `pthread_getattr_np`; of a user thread, which is detached as far as libc is concerned.
///
/// # Safety
///
/// As for libc's.
pub unsafe extern "C" fn getattr(thread: pthread_t, attr: *mut pthread_attr_t) -> c_int {
    // SAFETY: the caller's contract.
    let stack = tls::known_layout().and_then(|l| unsafe { l.stack_of(thread) });
    let Some((stack, guard)) = stack else {
        return real!(pthread_getattr_np(thread => pthread_t, attr => *mut pthread_attr_t));
    };
    // SAFETY: the caller's attributes, initialised first.
    unsafe {
        let r = libc::pthread_attr_init(attr);
        if r != 0 {
            return r;
        }
        libc::pthread_attr_setstack(attr, stack.start as *mut c_void, stack.end - stack.start);
        libc::pthread_attr_setguardsize(attr, guard);
        libc::pthread_attr_setdetachstate(attr, libc::PTHREAD_CREATE_DETACHED)
    }
}

/// libc's `pthread_getaffinity_np`; for a user thread, of the process's first thread.
///
/// # Safety
///
/// As for libc's.
pub unsafe extern "C" fn getaffinity(thread: pthread_t, size: usize, set: *mut cpu_set_t) -> c_int {
    // SAFETY: the caller's contract.
    if tls::known_layout().and_then(|l| unsafe { l.stack_of(thread) }).is_none() {
        return real!(pthread_getaffinity_np(
            thread => pthread_t,
            size => usize,
            set => *mut cpu_set_t
        ));
    }
    let pid = u64::from(std::process::id());
    // SAFETY: writes at most `size` bytes there; what the kernel does not know is cleared.
    unsafe {
        let r = sys::syscall3(libc::SYS_sched_getaffinity, pid, size as u64, set as u64);
        if r < 0 {
            return -r as c_int;
        }
        set.byte_add(r as usize).cast::<u8>().write_bytes(0, size - r as usize);
    }
    0
}

/// libc's `pthread_getschedparam`; of a user thread, which has the ordinary policy.
///
/// # Safety
///
/// As for libc's.
pub unsafe extern "C" fn getschedparam(
    thread: pthread_t,
    policy: *mut c_int,
    parameter: *mut sched_param,
) -> c_int {
    // SAFETY: the caller's contract.
    if tls::known_layout().and_then(|l| unsafe { l.stack_of(thread) }).is_none() {
        return real!(pthread_getschedparam(
            thread => pthread_t,
            policy => *mut c_int,
            parameter => *mut sched_param
        ));
    }
    // SAFETY: the caller's variables.
    unsafe {
        policy.write(libc::SCHED_OTHER);
        parameter.write(sched_param { sched_priority: 0 });
    }
    0
}

/// Makes the linker take the weak definitions.
pub(super) fn link() {
    unsafe extern "C" {
        fn pthread_mutex_init();
    }
    core::hint::black_box(pthread_mutex_init as unsafe extern "C" fn());
}
