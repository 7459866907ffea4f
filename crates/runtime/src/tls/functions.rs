//! What is asked of libc itself on the way to its [`Fields`](super::fields::Fields).

use super::{Unsupported, symbol};
use core::ffi::{CStr, c_int, c_void};

/// Functions of libc, though the program or `quaver-shim` may have some of these names too.
pub(super) struct Functions {
    pub(super) set_cancel_state: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    pub(super) get_sched_param:
        unsafe extern "C" fn(libc::pthread_t, *mut c_int, *mut libc::sched_param) -> c_int,
    pub(super) get_attr: unsafe extern "C" fn(libc::pthread_t, *mut libc::pthread_attr_t) -> c_int,
    pub(super) detach: unsafe extern "C" fn(libc::pthread_t) -> c_int,
    pub(super) res_state: unsafe extern "C" fn() -> *mut c_void,
    pub(super) close_resolver: unsafe extern "C" fn(*mut c_void),
}

impl Functions {
    /// # Errors
    ///
    /// Names the one that is missing.
    pub(super) fn find() -> Result<Functions, Unsupported> {
        /// # Safety
        ///
        /// `F` is the type of that function.
        unsafe fn typed<F>(name: &CStr) -> Result<F, Unsupported> {
            const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
            // SAFETY: a symbol look-up.
            let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            let function = if next.is_null() { symbol(name)? } else { next };
            // SAFETY: a pointer, of this type by the caller's contract.
            Ok(unsafe { core::mem::transmute_copy(&function) })
        }
        // SAFETY: the functions have these types since they exist.
        unsafe {
            Ok(Functions {
                set_cancel_state: typed(c"pthread_setcancelstate")?,
                get_sched_param: typed(c"pthread_getschedparam")?,
                get_attr: typed(c"pthread_getattr_np")?,
                detach: typed(c"pthread_detach")?,
                res_state: typed(c"__res_state")?,
                close_resolver: typed(c"__res_nclose")?,
            })
        }
    }
}
