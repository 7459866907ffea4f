//! Starting the runtime's own kernel threads.
//!
//! Not with `std::thread`: a thread of the standard library registers a destructor when it starts,
//! for which it takes the lock of the dynamic loader. A user thread that was preempted in a
//! library's constructor holds that lock, and runs again only if the clock and the spare carriers
//! do. For the same reason nothing here allocates on the new thread, and what runs there must not
//! use `thread_local!` values with destructors before it has set out.

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;

const STACK_SIZE: usize = 256 * 1024;

/// What a kernel thread is for.
#[derive(Clone, Copy)]
pub(crate) enum ThreadPurpose {
    /// It runs user threads, and with them the program's signal handlers: it has this signal mask.
    Carrier(libc::sigset_t),
    /// It runs nothing of the program's, and takes none of its signals but faults.
    Service,
    /// A service that must go on where workers lose their CPUs. Who takes a CPU by a real-time
    /// rank keeps those behind it that slept there, until the kernel evens out its queues: for
    /// tenths of a second, or to its end. A thread with the lowest of these ranks runs elsewhere
    /// at once; it has little to do. Where this process may not give one, and where the starting
    /// thread has a policy of its own, it is as the others.
    Watcher,
}

impl ThreadPurpose {
    fn mask(self) -> libc::sigset_t {
        match self {
            ThreadPurpose::Carrier(mask) => mask,
            ThreadPurpose::Service | ThreadPurpose::Watcher => all_but_faults(),
        }
    }
}

/// Nor are those of the C library itself in it.
fn all_but_faults() -> libc::sigset_t {
    let faults = [
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGSYS,
    ];
    let mut mask = MaybeUninit::uninit();
    // SAFETY: the set is filled first.
    unsafe {
        libc::sigfillset(mask.as_mut_ptr());
        for signal in faults {
            libc::sigdelset(mask.as_mut_ptr(), signal);
        }
        mask.assume_init()
    }
}

/// Runs `body` while the calling kernel thread takes no signals but `signal` and faults.
pub(crate) fn with_only<T>(signal: i32, body: impl FnOnce() -> T) -> T {
    let mut others = all_but_faults();
    // SAFETY: a complete set.
    unsafe { libc::sigdelset(&mut others, signal) };
    without(&others, body)
}

/// Runs `body` while the calling kernel thread takes none of these signals either.
pub(crate) fn without<T>(signals: &libc::sigset_t, body: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: complete sets; the kernel writes its part of `before`.
    unsafe {
        let found = Some(&mut *before.as_mut_ptr());
        crate::sys::change_signal_mask(libc::SIG_BLOCK, Some(signals), found);
    }
    let result = body();
    // SAFETY: what the kernel has written.
    unsafe {
        crate::sys::change_signal_mask(libc::SIG_SETMASK, Some(before.assume_init_ref()), None);
    }
    result
}

/// The calling kernel thread's signal mask. From the kernel: `pthread_sigmask` may be somebody
/// else's, who tells of user threads.
pub(crate) fn signal_mask() -> libc::sigset_t {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the kernel writes its part of the set; all bits zero is an empty one.
    unsafe {
        crate::sys::change_signal_mask(libc::SIG_BLOCK, None, Some(&mut *mask.as_mut_ptr()));
        mask.assume_init()
    }
}

unsafe extern "C" {
    /// GNU extension, glibc 2.32.
    fn pthread_attr_setsigmask_np(
        attributes: *mut libc::pthread_attr_t,
        mask: *const libc::sigset_t,
    ) -> i32;
    fn pthread_attr_setinheritsched(attributes: *mut libc::pthread_attr_t, inherit: i32) -> i32;
    fn pthread_attr_setschedpolicy(attributes: *mut libc::pthread_attr_t, policy: i32) -> i32;
    fn pthread_attr_setschedparam(
        attributes: *mut libc::pthread_attr_t,
        param: *const libc::sched_param,
    ) -> i32;
}

/// `PTHREAD_INHERIT_SCHED` and `PTHREAD_EXPLICIT_SCHED` of `pthread.h`.
const INHERIT: i32 = 0;
const EXPLICIT: i32 = 1;

/// A thread with the attributes has the lowest real-time rank.
///
/// # Safety
///
/// The attributes are valid.
unsafe fn set_rank(attributes: *mut libc::pthread_attr_t) {
    // SAFETY: valid attributes; the parameters are read during the call.
    unsafe {
        pthread_attr_setinheritsched(attributes, EXPLICIT);
        pthread_attr_setschedpolicy(attributes, libc::SCHED_FIFO);
        pthread_attr_setschedparam(attributes, &libc::sched_param { sched_priority: 1 });
    }
}

/// The calling kernel thread's scheduling policy.
fn policy() -> i32 {
    // SAFETY: no memory.
    unsafe { crate::sys::syscall3(libc::SYS_sched_getscheduler, 0, 0, 0) as i32 }
}

/// The calling kernel thread is as ordinary as they are by default.
fn is_ordinary() -> bool {
    policy() == libc::SCHED_OTHER
}

/// Starts `body(argument)` on a new kernel thread that nobody joins. A panic there ends the
/// process.
///
/// # Errors
///
/// The system's: no more threads, no more memory.
pub(crate) fn start<T: Sync>(
    kind: ThreadPurpose,
    argument: &'static T,
    body: extern "C" fn(&'static T),
) -> Result<(), std::io::Error> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are initialised first and destroyed last.
    let error = unsafe {
        libc::pthread_attr_init(attributes);
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(attributes, STACK_SIZE);
        // Allocates, on the starting thread.
        let mut error = pthread_attr_setsigmask_np(attributes, &kind.mask());
        let mut ranked = error == 0 && matches!(kind, ThreadPurpose::Watcher) && is_ordinary();
        if ranked {
            set_rank(attributes);
            ranked = create(attributes, argument, body) == 0;
            pthread_attr_setinheritsched(attributes, INHERIT);
        }
        if error == 0 && !ranked {
            error = create(attributes, argument, body);
        }
        libc::pthread_attr_destroy(attributes);
        error
    };
    if error == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(error)) }
}

/// # Safety
///
/// The attributes are valid.
unsafe fn create<T: Sync>(
    attributes: *const libc::pthread_attr_t,
    argument: &'static T,
    body: extern "C" fn(&'static T),
) -> i32 {
    let mut id = MaybeUninit::uninit();
    // SAFETY: a function with one argument in a register, a reference as a pointer. What it leaves
    // in the register of the result is a value that nobody asks for, because nobody joins the
    // thread.
    unsafe {
        let body = core::mem::transmute::<
            extern "C" fn(&'static T),
            extern "C" fn(*mut c_void) -> *mut c_void,
        >(body);
        let argument = core::ptr::from_ref(argument).cast_mut().cast();
        libc::pthread_create(id.as_mut_ptr(), attributes, body, argument)
    }
}

/// Names the calling kernel thread: 15 bytes at most, the rest is cut off.
pub(crate) fn name(name: &CStr) {
    // SAFETY: a C string, read during the call.
    unsafe {
        crate::sys::syscall3(libc::SYS_prctl, libc::PR_SET_NAME as u64, name.as_ptr() as u64, 0)
    };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicI32, Ordering::*};

    /// The policy of a new thread of the kind.
    fn policy_of(kind: ThreadPurpose) -> i32 {
        const NOT_YET: i32 = i32::MIN;
        extern "C" fn tell(told: &'static AtomicI32) {
            told.store(policy(), Release);
        }
        let told: &'static AtomicI32 = Box::leak(Box::new(AtomicI32::new(NOT_YET)));
        start(kind, told, tell).unwrap();
        while told.load(Acquire) == NOT_YET {
            std::thread::yield_now();
        }
        told.load(Relaxed)
    }

    /// May a thread of this process have a real-time rank?
    fn may_rank() -> bool {
        let param = libc::sched_param { sched_priority: 1 };
        let rank = || {
            // SAFETY: the parameters are read during the call.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0 }
        };
        std::thread::scope(|s| s.spawn(rank).join().unwrap())
    }

    #[test]
    fn only_a_watcher_has_a_rank_if_it_may() {
        if !is_ordinary() {
            println!("skipped: the tests have a policy of their own");
            return;
        }
        let rank = if may_rank() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        assert_eq!(policy_of(ThreadPurpose::Watcher), rank);
        assert_eq!(policy_of(ThreadPurpose::Service), libc::SCHED_OTHER);
        assert_eq!(policy_of(ThreadPurpose::Carrier(signal_mask())), libc::SCHED_OTHER);
    }
}
