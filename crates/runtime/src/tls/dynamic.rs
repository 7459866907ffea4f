//! Variables of modules that were loaded with `dlopen`: outside the block, behind the dynamic
//! thread vector.
//!
//! glibc allocates such a module's variables for a thread when the thread first uses them. A
//! finished user thread gives them back, so that the next thread on its block starts with initial
//! values.
//!
//! ```text
//!   tp + 8 -> dtv[0] = { generation }        dtv[-1] = { number of entries }
//!             dtv[i] = { address of module i's variables, what to free or null }
//! ```
//!
//! The layout is part of what debuggers rely on and has not changed since glibc 2.25.

use core::ffi::c_void;

const TCB_DTV: usize = 8;
/// "Not allocated yet" (`TLS_DTV_UNALLOCATED`).
const UNALLOCATED: usize = usize::MAX;

#[repr(C)]
struct DtvEntry {
    value: usize,
    to_free: *mut c_void,
}

/// The vector of the block at `tp`.
///
/// # Safety
///
/// `tp` is the thread pointer of a complete block.
unsafe fn vector(tp: usize) -> *mut DtvEntry {
    // SAFETY: tcbhead_t's field.
    unsafe { ((tp + TCB_DTV) as *const *mut DtvEntry).read() }
}

/// The generation of the list of modules that a block knows.
///
/// # Safety
///
/// As for [`vector`].
pub(super) unsafe fn generation(tp: usize) -> usize {
    // SAFETY: entry 0 always exists.
    unsafe { (*vector(tp)).value }
}

/// Frees the calling thread's variables of dynamically loaded modules.
///
/// # Safety
///
/// `tp` is the calling thread's, whose destructors have run: it uses no such variable any more.
#[cold]
pub(super) unsafe fn release(tp: usize) {
    // SAFETY: the calling thread's own vector; entries 1 to dtv[-1] exist.
    unsafe {
        let dtv = vector(tp);
        let entries = (*dtv.sub(1)).value;
        for i in 1..=entries {
            let entry = &mut *dtv.add(i);
            if !entry.to_free.is_null() {
                let block = core::mem::replace(&mut entry.to_free, core::ptr::null_mut());
                entry.value = UNALLOCATED;
                libc::free(block);
            }
        }
    }
}
