//! The C library.

use std::ffi::CStr;

use serde::Serialize;

/// The C library.
#[derive(Clone, Debug, Serialize)]
pub struct Libc {
    /// The version of glibc.
    pub glibc: Option<String>,
}

pub(super) fn detect() -> Libc {
    // SAFETY: returns a static string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    Libc { glibc: version.to_str().ok().map(str::to_owned) }
}
