//! The C library's own functions, behind those that are defined here.
//!
//! They are looked up at the start. A look-up waits for the loader's lock, which another thread
//! may hold while it waits, in a constructor, for a mutex of the program.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function of the C library, looked up by [`find_all`], or at its first use if that is earlier.
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
    fn look_up(&self) -> *mut c_void {
        // SAFETY: a look-up with C strings.
        let found =
            unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), self.version.as_ptr()) };
        self.found.store(found, Relaxed);
        found
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = self.look_up();
        if found.is_null() {
            let name = self.name.to_string_lossy();
            eprintln!("quaver lock: the C library has no {name}; glibc 2.35 or newer is needed");
            std::process::abort();
        }
        found
    }
}

unsafe extern "C" {
    /// Where the linker begins and ends the section of pointers that [`real!`] fills.
    #[link_name = "__start_quaver_real"]
    static FIRST: u8;
    #[link_name = "__stop_quaver_real"]
    static END: u8;
}

/// Looks all of them up.
pub(crate) fn find_all() {
    // SAFETY: the section holds these pointers and nothing else, in a row.
    let all = unsafe {
        let (first, end) = ((&raw const FIRST).cast::<&Real>(), (&raw const END).cast::<&Real>());
        std::slice::from_raw_parts(first, end.offset_from_unsigned(first))
    };
    for real in all {
        real.look_up();
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
        #[used]
        #[unsafe(link_section = "quaver_real")]
        static LISTED: &$crate::real::Real = &REAL;
        type Function = unsafe extern "C-unwind" fn($($ty),*) -> $ret;
        // SAFETY: the C library's function of this name has this type; its contract is that of the
        // function around this call, whose caller keeps it.
        unsafe {
            core::mem::transmute::<*mut core::ffi::c_void, Function>(REAL.get())($($arg),*)
        }
    }};
}
pub(crate) use real;
