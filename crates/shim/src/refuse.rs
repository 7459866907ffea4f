//! What cannot work is refused, by name: functions that would do something else on user threads than the program expects.
//!
//! Before `main`, where the program itself imports one. Libraries import some for purposes that few programs have (libsystemd, libmount):
//! these are refused when they are called, and work in the children of a fork, which have no user threads.
//!
//! `QUAVER_SHIM_ALLOW` lists names to let pass, separated by commas, for users who know that they are not called.

use crate::real::real;
use crate::say::{Once, fatal, once};
use crate::{exec, state, sys};
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use libc::dl_phdr_info;

/// A function that cannot work.
struct Refused {
    name: &'static str,
    why: &'static str,
    /// Libraries may import it: it is defined here.
    when_called: bool,
}

const fn refused(name: &'static str, why: &'static str, when_called: bool) -> Refused {
    Refused { name, why, when_called }
}

const OF_KERNEL_THREADS: &str = "changes the kernel thread that happens to run the caller";
const UNSHARE: usize = 0;
const SETNS: usize = 1;
const REFUSED: [Refused; 3] = [
    refused("unshare", OF_KERNEL_THREADS, true),
    refused("setns", OF_KERNEL_THREADS, true),
    refused("clone", "makes kernel threads of its own", false),
];

/// Libraries that import such functions for purposes of their own.
const EXCEPT: [&str; 5] = ["libc.so", "ld-linux", "libquaver_shim", "libpthread", "linux-vdso"];

/// Those that the user lets pass, a bit for each of [`REFUSED`].
static ALLOWED: AtomicU32 = AtomicU32::new(0);

fn is_allowed(which: usize) -> bool {
    ALLOWED.load(Relaxed) & 1 << which != 0
}

/// Ends the process if something cannot work.
pub(crate) fn check() {
    let allowed = std::env::var("QUAVER_SHIM_ALLOW").unwrap_or_default();
    for (which, r) in REFUSED.iter().enumerate() {
        if allowed.split(',').any(|name| name == r.name) {
            ALLOWED.fetch_or(1 << which, Relaxed);
        }
    }
    // SAFETY: the callback gets valid descriptions.
    unsafe { libc::dl_iterate_phdr(Some(look), core::ptr::null_mut()) };
}

/// May the caller change the kernel thread that it runs on? The children of forks may, and threads of the runtime's own.
fn may_change_kernel_thread(which: usize) -> bool {
    let Refused { name, why, .. } = REFUSED[which];
    let on_user_thread = state::me().is_some() && exec::in_parent();
    if !on_user_thread || is_allowed(which) {
        return true;
    }
    once(
        Once::KernelThread,
        format_args!("{name}, which {why}, was called: it fails on user threads (EPERM)"),
    );
    sys::set_errno(libc::EPERM);
    false
}

/// See `unshare(2)`: fails with `EPERM` on user threads.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    if may_change_kernel_thread(UNSHARE) {
        // SAFETY: handed on.
        unsafe { real!(unshare(flags => c_int) -> c_int) }
    } else {
        -1
    }
}

/// See `setns(2)`: fails with `EPERM` on user threads.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(fd: c_int, kind: c_int) -> c_int {
    if may_change_kernel_thread(SETNS) {
        // SAFETY: handed on.
        unsafe { real!(setns(fd => c_int, kind => c_int) -> c_int) }
    } else {
        -1
    }
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

unsafe extern "C" fn look(info: *mut dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
    // SAFETY: from the loader.
    let info = unsafe { &*info };
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
            let found = REFUSED.iter().position(|r| r.name.as_bytes() == name);
            let in_program = file.is_empty();
            if let Some(which) = found
                && (in_program || !REFUSED[which].when_called)
                && !is_allowed(which)
            {
                let who = if in_program { "the program" } else { file };
                let Refused { name, why, .. } = REFUSED[which];
                fatal(format_args!(
                    "{who} calls {name}, which {why}: this cannot work with user threads. If you know that it is not called, \
                     set QUAVER_SHIM_ALLOW={name}"
                ));
            }
        }
    }
    0
}
