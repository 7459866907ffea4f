//! Memory of the program at an address that may be wrong. Where the kernel reads a call's arguments
//! a wrong address is `EFAULT`, and where the shim answers the call itself it is too: the kernel
//! copies.

use crate::sys::call;
use core::ffi::{c_int, c_long};
use core::mem::MaybeUninit;
use libc::{EFAULT, SYS_process_vm_readv, SYS_process_vm_writev, iovec};

/// The plain value at `from`, or `EFAULT`. Where a sandbox forbids the call a wrong address is a
/// fault.
///
/// # Safety
///
/// What can be read there is a value of this type, which any bytes are.
pub(crate) unsafe fn get<T: Copy>(from: *const T) -> Result<T, c_int> {
    let mut value = MaybeUninit::<T>::uninit();
    let bytes = value.as_mut_ptr().cast::<u8>();
    // SAFETY: room for the value; the caller's contract.
    unsafe {
        fill(bytes, from.cast(), size_of::<T>())?;
        Ok(value.assume_init())
    }
}

/// Fills `to` with the bytes from `from` on, or `EFAULT`.
///
/// # Safety
///
/// What can be read there is the caller's to read.
pub(crate) unsafe fn get_bytes(from: *const u8, to: &mut [u8]) -> Result<(), c_int> {
    // SAFETY: as long as it is; the caller's contract.
    unsafe { fill(to.as_mut_ptr(), from, to.len()) }
}

/// # Safety
///
/// Room for `size` bytes at `to`; `from` as for [`get_bytes`].
unsafe fn fill(to: *mut u8, from: *const u8, size: usize) -> Result<(), c_int> {
    match copy(SYS_process_vm_readv, to, from.cast_mut(), size) {
        Some(n) if n < size => Err(EFAULT),
        Some(_) => Ok(()),
        None => {
            // SAFETY: the caller's contract, as far as anybody can tell.
            unsafe { core::ptr::copy_nonoverlapping(from, to, size) };
            Ok(())
        }
    }
}

/// The same of an address that may be null.
///
/// # Safety
///
/// As for [`get`].
pub(crate) unsafe fn get_if_any<T: Copy>(from: *const T) -> Result<Option<T>, c_int> {
    // SAFETY: handed on.
    if from.is_null() { Ok(None) } else { unsafe { get(from) }.map(Some) }
}

/// Fills `to` with the C string from `from` on, or as much of it as there is room for; more bytes
/// may follow. The result is how many, or `EFAULT` without any.
pub(crate) fn get_string(from: *const u8, to: &mut [u8]) -> Result<usize, c_int> {
    match copy(SYS_process_vm_readv, to.as_mut_ptr(), from.cast_mut(), to.len()) {
        Some(0) => Err(EFAULT),
        Some(n) => Ok(n),
        None => {
            // SAFETY: a C string, as far as anybody can tell.
            let n = unsafe { libc::strnlen(from.cast(), to.len() - 1) } + 1;
            // SAFETY: as above.
            unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), n) };
            Ok(n)
        }
    }
}

/// Writes `value` to `to`, or `EFAULT`.
///
/// # Safety
///
/// What can be written there is the program's, and for this.
pub(crate) unsafe fn put<T: Copy>(to: *mut T, value: T) -> Result<(), c_int> {
    let size = size_of::<T>();
    let from = (&raw const value).cast_mut().cast();
    match copy(SYS_process_vm_writev, from, to.cast(), size) {
        Some(n) if n < size => Err(EFAULT),
        Some(_) => Ok(()),
        None => {
            // SAFETY: the caller's contract, as far as anybody can tell.
            unsafe { to.write_unaligned(value) };
            Ok(())
        }
    }
}

/// How many bytes the kernel has copied from or to `remote`. `None`: it does not.
fn copy(number: c_long, local: *mut u8, remote: *mut u8, size: usize) -> Option<usize> {
    let local = iovec { iov_base: local.cast(), iov_len: size };
    let remote = iovec { iov_base: remote.cast(), iov_len: size };
    let pid = std::process::id() as usize;
    let a = [pid, &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: `local` is the caller's; `remote` is what this is about.
    let r = unsafe { call(number, a) };
    if r == -(EFAULT as isize) { Some(0) } else { usize::try_from(r).ok() }
}
