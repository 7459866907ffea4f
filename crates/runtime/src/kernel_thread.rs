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

/// Starts `body(argument)` on a new kernel thread that nobody joins. A panic there ends the
/// process.
///
/// # Errors
///
/// The system's: no more threads, no more memory.
pub(crate) fn start<T: Sync>(
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
        let error = create(attributes, argument, body);
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
