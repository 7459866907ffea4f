//! The C library, and the entry points that a private TLS block for each user thread needs.

use std::ffi::CStr;

use serde::Serialize;

/// The C library.
#[derive(Clone, Debug, Serialize)]
pub struct Libc {
    /// The version of glibc.
    pub glibc: Option<String>,
    /// Entry points for TLS blocks that were looked up and not found.
    pub missing_entry_points: Vec<String>,
}

/// Makes, describes and frees TLS blocks; tells the size of glibc's thread descriptor.
const ENTRY_POINTS: [&CStr; 4] = [
    c"_dl_allocate_tls",
    c"_dl_deallocate_tls",
    c"_dl_get_tls_static_info",
    c"_thread_db_sizeof_pthread",
];

pub(super) fn detect() -> Libc {
    // SAFETY: dlsym looks up a name in the loaded libraries.
    let missing =
        |name: &&CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.is_null();
    // SAFETY: returns a static string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    Libc {
        glibc: version.to_str().ok().map(str::to_owned),
        missing_entry_points: ENTRY_POINTS
            .into_iter()
            .filter(missing)
            .map(|name| name.to_string_lossy().into_owned())
            .collect(),
    }
}
