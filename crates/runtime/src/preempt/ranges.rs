//! Code in which a preemption is put off: who is interrupted there may hold a lock of the C library.
//!
//! Ranges are found from the loaded modules' program headers and kept in a fixed array that the handler reads without
//! a lock. [`refresh`] looks again, for modules that were loaded later.

use core::ffi::{CStr, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

const MAX: usize = 32;
static START: [AtomicUsize; MAX] = [const { AtomicUsize::new(0) }; MAX];
static END: [AtomicUsize; MAX] = [const { AtomicUsize::new(0) }; MAX];
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Modules whose code holds locks or half-done bookkeeping.
const UNSAFE_MODULES: [&str; 7] =
    ["libc.so", "libc-", "ld-linux", "libpthread", "libgcc_s", "libunwind", "libstdc++"];

/// Must a preemption of code at `address` be put off? Async-signal-safe.
pub(crate) fn is_unsafe(address: usize) -> bool {
    let n = LEN.load(Acquire);
    (0..n).any(|i| (START[i].load(Relaxed)..END[i].load(Relaxed)).contains(&address))
}

/// Looks for the unsafe modules among those loaded now. Serialised by the caller.
pub(crate) fn refresh() {
    let mut found: Vec<Range<usize>> = vec![crate::arch::resume::range()];
    // SAFETY: the callback gets valid module descriptions and our vector.
    unsafe {
        libc::dl_iterate_phdr(Some(collect), &mut found as *mut Vec<Range<usize>> as *mut c_void)
    };
    found.truncate(MAX);
    // A handler that reads while this writes sees each range old, new or mixed with an empty one; ranges of modules that
    // stay loaded do not change, so what was unsafe stays unsafe.
    for (i, r) in found.iter().enumerate() {
        START[i].store(r.start, Relaxed);
        END[i].store(r.end, Relaxed);
    }
    LEN.store(found.len(), Release);
}

/// Adds a range until the next [`refresh`].
#[cfg(feature = "inspect")]
pub(super) fn add(range: Range<usize>) {
    let n = LEN.load(Acquire);
    if n < MAX {
        START[n].store(range.start, Relaxed);
        END[n].store(range.end, Relaxed);
        LEN.store(n + 1, Release);
    }
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> i32 {
    // SAFETY: `data` is the vector of `refresh`; `info` is valid during the callback.
    let (info, found) = unsafe { (&*info, &mut *data.cast::<Vec<Range<usize>>>()) };
    // SAFETY: dlpi_name is a C string, empty for the main program.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or("");
    if !UNSAFE_MODULES.iter().any(|m| file.starts_with(m)) {
        return 0;
    }
    // SAFETY: dlpi_phdr has dlpi_phnum entries.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for h in headers {
        if h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0 {
            let start = (info.dlpi_addr + h.p_vaddr) as usize;
            found.push(start..start + h.p_memsz as usize);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libc_is_unsafe_and_this_is_not() {
        refresh();
        assert!(is_unsafe(libc::malloc as *const () as usize));
        assert!(!is_unsafe(libc_is_unsafe_and_this_is_not as *const () as usize));
        assert!(is_unsafe(crate::arch::resume::range().start));
    }
}
