//! What libc says about its own structures, in symbols that it keeps for debuggers
//! (`libthread_db`).

use super::symbol;
use core::ffi::{CStr, c_void};

/// Offset of a field, as its descriptor says it: size in bits, number of elements, offset in bytes.
pub(super) fn offset(name: &CStr) -> Option<usize> {
    // SAFETY: a descriptor in libc's read-only data.
    symbol(name).ok().map(|p| unsafe { *p.cast::<[u32; 3]>() }[2] as usize)
}

/// Address of a field of the dynamic loader's variables.
pub(super) fn in_loader(name: &CStr) -> Option<*mut c_void> {
    Some(symbol(c"_rtld_global").ok()?.wrapping_byte_add(offset(name)?))
}
