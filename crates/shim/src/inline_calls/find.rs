//! Finds libgomp among the loaded libraries.

use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// A loaded library.
pub(super) struct Library {
    /// The segment with its code.
    pub(super) code: Range<usize>,
    /// All segments that are not written to.
    pub(super) parts: Vec<Range<usize>>,
    /// The table of functions for unwinders.
    pub(super) unwinding: usize,
}

/// Is this libgomp's path? Python wheels bring a copy with a number in its name:
/// `libgomp-a34b3233.so.1.0.0`.
fn is_libgomp(path: &[u8]) -> bool {
    let name = path.rsplit(|&c| c == b'/').next().unwrap_or_default();
    let Some(rest) = name.strip_prefix(b"libgomp") else { return false };
    let digits = rest
        .strip_prefix(b"-")
        .map_or(0, |number| 1 + number.iter().take_while(|c| c.is_ascii_hexdigit()).count());
    rest[digits..].starts_with(b".so")
}

/// Is the library with this code seen for the first time? A library that is loaded again where one
/// has been unloaded is not, nor are those after the eighth: they run as they are.
fn is_new(code: usize) -> bool {
    static SEEN: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
    for seen in &SEEN {
        match seen.compare_exchange(0, code, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(other) if other == code => return false,
            Err(_) => {}
        }
    }
    false
}

/// Those that this has not returned before.
pub(super) fn new() -> Vec<Library> {
    let mut found = Vec::new();
    // SAFETY: `note` is a function for this, and gets what it wants.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found.retain(|library: &Library| is_new(library.code.start));
    found
}

/// Adds a library to the list at `found`. Called with the loader's lock, so it only looks.
///
/// # Safety
///
/// As `dl_iterate_phdr` calls it; `found` is a `Vec<Library>`.
unsafe extern "C" fn note(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> c_int {
    /// How many libraries had ever been loaded when this last looked at all of them.
    static LOADED: AtomicU64 = AtomicU64::new(0);
    // SAFETY: the caller's contract.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Library>>()) };
    // The program comes first, and has no name.
    let path = if info.dlpi_name.is_null() {
        &[]
    } else {
        // SAFETY: the loader's string.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
    };
    if path.is_empty() && LOADED.swap(info.dlpi_adds, Relaxed) == info.dlpi_adds {
        return 1;
    }
    if !is_libgomp(path) || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's array.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let segments = |kind, also| {
        let wanted = move |h: &&libc::Elf64_Phdr| {
            h.p_type == kind && h.p_flags & (libc::PF_W | also) == also
        };
        headers.iter().filter(wanted).map(|h| {
            let at = (info.dlpi_addr + h.p_vaddr) as usize;
            at..at + h.p_filesz as usize
        })
    };
    let mut code = segments(libc::PT_LOAD, libc::PF_R | libc::PF_X);
    let unwinding = segments(libc::PT_GNU_EH_FRAME, libc::PF_R).next();
    // There is only one with code.
    if let (Some(code), None, Some(table)) = (code.next(), code.next(), unwinding) {
        let parts = segments(libc::PT_LOAD, libc::PF_R).collect();
        found.push(Library { code, parts, unwinding: table.start });
    }
    0
}
