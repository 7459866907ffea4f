//! What this C library lacks.

use core::ffi::CStr;

/// Why user threads cannot have private TLS here.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unsupported {
    /// An entry point is missing.
    #[error(
        "this C library has no `{0}`: private thread-local storage needs glibc 2.34 or newer, \
         dynamically linked"
    )]
    Symbol(String),
    /// A thread's descriptor is not what this version of Quaver knows.
    #[error(
        "glibc {version} keeps the {field} where this version of Quaver does not know it: private \
         thread-local storage is impossible; use another version of either, or Tls::Shared"
    )]
    Field {
        /// Of the C library.
        version: String,
        /// What was not found.
        field: &'static str,
    },
}

impl Unsupported {
    pub(super) fn no_field(field: &'static str) -> Unsupported {
        // SAFETY: a constant string of libc's.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        Unsupported::Field { version: version.to_string_lossy().into_owned(), field }
    }
}
