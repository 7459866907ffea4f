//! What cannot work is refused before `main`, by name: functions that the program or its libraries import and that would do
//! something else on user threads than the program expects.
//!
//! `QUAVER_SHIM_ALLOW` lists names to let pass, separated by commas, for users who know that they are not called.

use crate::say::fatal;
use core::ffi::{CStr, c_int, c_void};
use libc::dl_phdr_info;

/// Functions, and why not.
const REFUSED: [(&str, &str); 4] = [
    ("clone", "makes kernel threads of its own"),
    ("unshare", "changes the kernel thread that happens to run the caller"),
    ("setns", "changes the kernel thread that happens to run the caller"),
    ("pthread_attr_setstack", "wants a thread on a stack of the program's"),
];

/// Libraries that import such functions for purposes of their own.
const EXCEPT: [&str; 5] = ["libc.so", "ld-linux", "libquaver_shim", "libpthread", "linux-vdso"];

/// Ends the process if something cannot work.
pub(crate) fn check() {
    let mut allowed = std::env::var("QUAVER_SHIM_ALLOW").unwrap_or_default();
    // SAFETY: the callback gets valid descriptions and our string.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut allowed).cast()) };
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

unsafe extern "C" fn look(info: *mut dl_phdr_info, _size: usize, allowed: *mut c_void) -> c_int {
    // SAFETY: from `check` and the loader.
    let (info, allowed) = unsafe { (&*info, &*allowed.cast::<String>()) };
    // SAFETY: a C string.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    let file = path.rsplit('/').next().unwrap_or("");
    if EXCEPT.iter().any(|e| file.starts_with(e)) {
        return 0;
    }
    // SAFETY: the module's headers and dynamic section, which the loader has relocated.
    unsafe {
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let Some(section) = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC) else { return 0 };
        let mut at = (info.dlpi_addr + section.p_vaddr) as *const Dynamic;
        let (mut symbols, mut strings, mut hash) = (0usize, 0usize, 0usize);
        while (*at).tag != 0 {
            match (*at).tag {
                5 => strings = (*at).value,
                6 => symbols = (*at).value,
                0x6fff_fef5 => hash = (*at).value,
                _ => {}
            }
            at = at.add(1);
        }
        if symbols == 0 || strings == 0 || hash == 0 {
            return 0;
        }
        // The table of hashes begins with the first symbol that the module defines; before it are those that it imports.
        let imported = *(hash as *const u32).add(1) as usize;
        for symbol in core::slice::from_raw_parts(symbols as *const Symbol, imported) {
            let name = CStr::from_ptr((strings + symbol.name as usize) as *const _).to_bytes();
            if let Some((name, why)) =
                REFUSED.iter().find(|(refused, _)| refused.as_bytes() == name)
                && !allowed.split(',').any(|a| a == *name)
            {
                let who = if file.is_empty() { "the program" } else { file };
                fatal(format_args!(
                    "{who} calls {name}, which {why}: this cannot work with user threads. If you know that it is not called, \
                     set QUAVER_SHIM_ALLOW={name}"
                ));
            }
        }
    }
    0
}
