//! The C library's own functions, behind those that are defined here.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function of the C library, looked up at its first use.
pub(crate) struct Real {
    name: &'static CStr,
    version: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr, version: &'static CStr) -> Real {
        Real { name, version, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    /// With its version: of condition variables glibc has an older kind by the same names.
    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: a look-up with C strings.
        let found =
            unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), self.version.as_ptr()) };
        if found.is_null() {
            let name = self.name.to_string_lossy();
            eprintln!("quaver lock: the C library has no {name}; glibc 2.35 or newer is needed");
            std::process::abort();
        }
        self.found.store(found, Relaxed);
        found
    }
}

/// Calls the C library's function of this name and version:
/// `real!("GLIBC_2.2.5", name(argument => type, ...) -> result)`.
macro_rules! real {
    ($version:literal, $name:ident($($arg:expr => $ty:ty),* $(,)?) -> $ret:ty) => {{
        const fn text(bytes: &'static str) -> &'static core::ffi::CStr {
            match core::ffi::CStr::from_bytes_with_nul(bytes.as_bytes()) {
                Ok(text) => text,
                Err(_) => unreachable!(),
            }
        }
        static REAL: $crate::real::Real = $crate::real::Real::new(
            text(concat!(stringify!($name), "\0")),
            text(concat!($version, "\0")),
        );
        type Function = unsafe extern "C-unwind" fn($($ty),*) -> $ret;
        // SAFETY: the C library's function of this name has this type; its contract is that of the
        // function around this call, whose caller keeps it.
        unsafe {
            core::mem::transmute::<*mut core::ffi::c_void, Function>(REAL.get())($($arg),*)
        }
    }};
}
pub(crate) use real;
