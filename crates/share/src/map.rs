//! Memory that processes share.

use crate::layout::SIZE;
#[cfg(feature = "broker")]
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::os::fd::AsFd;
#[cfg(feature = "broker")]
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};

/// A mapping of one page of shared memory; removed when dropped.
#[derive(Debug)]
pub(crate) struct Mapping(NonNull<u8>);

// SAFETY: the memory consists of atomics, and belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `file`, for writing if it `writes`. Children of this process do not inherit it.
    pub(crate) fn new(file: impl AsFd, writes: bool) -> Result<Mapping, Errno> {
        // A file that could shrink would end us with SIGBUS.
        if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(Errno::PERM);
        }
        let rights = if writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe { mmap(null_mut(), SIZE, rights, MapFlags::SHARED, file, 0) }?;
        let mapping = Mapping(NonNull::new(at.cast()).expect("not at address 0"));
        // SAFETY: the mapping made above. A forked child would be a second writer.
        unsafe { madvise(at, SIZE, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    /// The memory as `T`.
    ///
    /// # Safety
    ///
    /// `T` fills a page, consists of atomics, and any bits are a value of it.
    pub(crate) unsafe fn cast<T>(&self) -> &T {
        const { assert!(size_of::<T>() == SIZE) };
        // SAFETY: mapped while `self` lives, of that size and aligned to pages; the rest is
        // the caller's contract.
        unsafe { self.0.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped; `cast` has lent it for no longer.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), SIZE) };
    }
}

/// A page of shared memory that cannot change its size.
#[cfg(feature = "broker")]
pub(crate) fn page(name: &str) -> Result<OwnedFd, Errno> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, SIZE as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// From now on nobody gets another mapping of `file` that can be written; those that exist stay.
#[cfg(feature = "broker")]
pub(crate) fn seal(file: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
}
