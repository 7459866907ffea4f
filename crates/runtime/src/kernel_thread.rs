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
pub(crate) enum Kind {
    /// It runs user threads, and with them the program's signal handlers: it has this signal mask.
    Carrier(libc::sigset_t),
    /// It runs nothing of the program's, and takes none of its signals but faults.
    Service,
}

impl Kind {
    fn mask(self) -> libc::sigset_t {
        match self {
            Kind::Carrier(mask) => mask,
            Kind::Service => all_but_faults(),
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
}

/// Starts `body(argument)` on a new kernel thread that nobody joins. A panic there ends the
/// process.
///
/// # Errors
///
/// The system's: no more threads, no more memory.
pub(crate) fn start<T: Sync>(
    kind: Kind,
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
        let error = match pthread_attr_setsigmask_np(attributes, &kind.mask()) {
            0 => create(attributes, argument, body),
            error => error,
        };
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
