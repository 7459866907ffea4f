//! The C library's own functions, behind those that are defined here.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// A function of the C library, looked up at its first use.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: a look-up with a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            crate::say::fatal(format_args!("the C library has no {}", self.name.to_string_lossy()));
        }
        self.found.store(found, Relaxed);
        found
    }
}

/// Calls the C library's function of this name: `real!(name(argument: type, ...) -> result)`.
macro_rules! real {
    ($name:ident($($arg:expr => $ty:ty),* $(,)?) $(-> $ret:ty)?) => {{
        static REAL: $crate::real::Real = {
            const NAME: &str = concat!(stringify!($name), "\0");
            $crate::real::Real::new(match core::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            })
        };
        #[allow(unused_unsafe, reason = "most callers are in an unsafe block already")]
        // SAFETY: the C library's function of this name has this type.
        let f = unsafe {
            type Real = unsafe extern "C" fn($($ty),*) $(-> $ret)?;
            core::mem::transmute::<*mut core::ffi::c_void, Real>(REAL.get())
        };
        f($($arg),*)
    }};
}
pub(crate) use real;
