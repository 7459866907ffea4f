//! Stacks: mapped in chunks, guarded, never moved.
//!
//! ```text
//!   region          guard            stack (grows down)              TLS block     region + size
//!     | inaccessible | <----------------------------------- top | base ... tp ... |
//! ```
//!
//! A chunk of [`CHUNK`] regions is one mapping without huge pages (a stack touches two pages, not
//! two megabytes). The guard is installed with `MADV_GUARD_INSTALL` (Linux 6.13), which costs no
//! VMA, or with `mprotect`, which costs two a stack and therefore runs into `vm.max_map_count` at
//! some 30,000 threads.
//!
//! A thread may also run on an [`OwnStack`], larger than the others or given by the program. Its
//! TLS block stays in its region.

use super::table::Exhausted;
use crate::sys;
use core::ops::Range;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Regions in a mapping.
pub(crate) const CHUNK: u32 = 64;
/// Bytes of guard below each stack: larger than a page, because C code without stack probes may
/// step over one.
pub(crate) const GUARD: usize = 16 * 1024;

const PAGE: usize = 4096;
const MADV_GUARD_INSTALL: i32 = 102;

const GUARD_UNKNOWN: u8 = 0;
const GUARD_MADVISE: u8 = 1;
const GUARD_MPROTECT: u8 = 2;
static GUARD_KIND: AtomicU8 = AtomicU8::new(GUARD_UNKNOWN);

/// The kernel's smallest signal frame on this CPU.
pub(crate) fn min_signal_frame() -> usize {
    // SAFETY: reads the auxiliary vector.
    let n = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    n.max(2048)
}

/// What the handler, which may be interrupted twice, and the scheduler take beside the frames, and
/// a little for the thread itself. With two frames 4 KiB were seen, without optimisation 10 KiB.
const CODE: usize = if cfg!(debug_assertions) { 20 * 1024 } else { 10 * 1024 };

/// The smallest stack that a preempted thread can live on: three signal frames (a second may come
/// in the last instructions of the first, and a third in the handler of the second), and [`CODE`].
pub(crate) fn min_stack_size() -> usize {
    (3 * min_signal_frame() + CODE).next_multiple_of(PAGE)
}

/// The sizes of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes from the guard's start to the region's end.
    pub(crate) size: usize,
}

impl Shape {
    /// A region with `stack` usable bytes and `tls` bytes for the TLS block.
    pub(crate) fn new(stack: usize, tls: usize) -> Shape {
        Shape { size: (stack + tls).next_multiple_of(PAGE) + GUARD }
    }

    /// Maps a chunk: [`CHUNK`] regions, without guards yet.
    ///
    /// # Errors
    ///
    /// The kernel's, usually `ENOMEM`.
    pub(crate) fn map_chunk(self) -> io::Result<usize> {
        self.map(CHUNK as usize)
    }

    /// Maps this many regions.
    fn map(self, n: usize) -> io::Result<usize> {
        let len = self.size * n;
        // SAFETY: a new private mapping.
        let p = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: our own mapping; failure (no THP in this kernel) is harmless.
        unsafe { libc::madvise(p, len, libc::MADV_NOHUGEPAGE) };
        Ok(p as usize)
    }

    /// Unmaps a chunk.
    ///
    /// # Safety
    ///
    /// `chunk` came from [`map_chunk`](Shape::map_chunk) of the same shape and nothing refers to it
    /// any more.
    pub(crate) unsafe fn unmap_chunk(self, chunk: usize) {
        // SAFETY: the caller's contract.
        unsafe { libc::munmap(chunk as *mut _, self.size * CHUNK as usize) };
    }

    /// Makes the lowest [`GUARD`] bytes of a region inaccessible.
    ///
    /// # Errors
    ///
    /// The kernel's, usually `ENOMEM` when `vm.max_map_count` is reached.
    pub(crate) fn guard(self, region: usize) -> io::Result<()> {
        let kind = GUARD_KIND.load(Relaxed);
        if kind != GUARD_MPROTECT {
            // SAFETY: pages of our own mapping that hold nothing.
            let r = unsafe { libc::madvise(region as *mut _, GUARD, MADV_GUARD_INSTALL) };
            if r == 0 {
                GUARD_KIND.store(GUARD_MADVISE, Relaxed);
                return Ok(());
            }
            if kind == GUARD_MADVISE {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: pages of our own mapping that hold nothing.
        if unsafe { libc::mprotect(region as *mut _, GUARD, libc::PROT_NONE) } == 0 {
            GUARD_KIND.store(GUARD_MPROTECT, Relaxed);
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }
}

/// A stack for one thread, instead of that in its region.
#[derive(Debug)]
pub(crate) struct OwnStack {
    /// Bytes; the lowest [`GUARD`] cannot be used.
    region: Range<usize>,
    /// It is unmapped at the end.
    mapped: bool,
}

impl OwnStack {
    /// One with `size` usable bytes, if that is more than `others` have.
    ///
    /// # Errors
    ///
    /// The kernel's, usually `ENOMEM`.
    #[inline]
    pub(crate) fn if_larger(size: usize, others: usize) -> io::Result<Option<OwnStack>> {
        if size <= others { Ok(None) } else { OwnStack::map(size).map(Some) }
    }

    /// Maps one with `size` usable bytes.
    #[cold]
    fn map(size: usize) -> io::Result<OwnStack> {
        let no_memory = || Exhausted::Memory(io::Error::from_raw_os_error(libc::ENOMEM));
        // Half the address space is more than there is; so no sum below overflows.
        let size = Some(size).filter(|&size| size < usize::MAX / 2).ok_or_else(no_memory);
        let map = || {
            let shape = Shape::new(size? + TOP, 0);
            let base = shape.map(1)?;
            let stack = OwnStack { region: base..base + shape.size, mapped: true };
            shape.guard(base)?;
            Ok(stack)
        };
        map().map_err(|e: Exhausted| io::Error::other(e))
    }

    /// Memory of the program's, which has no guard.
    ///
    /// # Safety
    ///
    /// It is writable, and nobody else uses it before the thread has been joined, or for ever if it
    /// is detached.
    pub(crate) unsafe fn given(memory: Range<usize>) -> Option<OwnStack> {
        let usable = memory.len() >= min_stack_size() + TOP && memory.start > GUARD;
        usable.then(|| OwnStack { region: memory.start - GUARD..memory.end, mapped: false })
    }

    /// The least that [`given`](OwnStack::given) takes, in whole pages.
    pub(crate) fn smallest() -> usize {
        (min_stack_size() + TOP).next_multiple_of(PAGE)
    }

    /// All of it, with the guard.
    pub(crate) fn region(&self) -> Range<usize> {
        self.region.clone()
    }

    /// Where the guard begins, and the end of the usable bytes.
    pub(crate) fn bounds(&self) -> (usize, usize) {
        (self.region.start, (self.region.end - TOP) & !63)
    }

    /// Usable bytes.
    pub(crate) fn size(&self) -> usize {
        let (region, top) = self.bounds();
        top - region - GUARD
    }
}

/// Bytes above the end of such a stack, which debuggers read.
const TOP: usize = 64;

impl Drop for OwnStack {
    fn drop(&mut self) {
        if self.mapped {
            let (at, len) = (self.region.start as u64, self.region.len() as u64);
            // Without libc: this may be the path out of a handler.
            // SAFETY: mapped in `if_larger`; whoever drops it knows that no thread is on it.
            unsafe { sys::syscall3(libc::SYS_munmap, at, len, 0) };
        }
    }
}

/// Can guards be made without a VMA each? Tries it on a page of its own.
pub(crate) fn guard_install_works() -> bool {
    let shape = Shape { size: GUARD };
    let Ok(chunk) = shape.map_chunk() else { return false };
    // SAFETY: our own fresh mapping.
    unsafe {
        let ok = libc::madvise(chunk as *mut _, PAGE, MADV_GUARD_INSTALL) == 0;
        shape.unmap_chunk(chunk);
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_writable_above_its_guard() {
        let shape = Shape::new(64 * 1024, 8 * 1024);
        let chunk = shape.map_chunk().unwrap();
        for i in 0..CHUNK as usize {
            let region = chunk + i * shape.size;
            shape.guard(region).unwrap();
            // SAFETY: first word above the guard and last of the region.
            unsafe {
                ((region + GUARD) as *mut usize).write(1);
                ((region + shape.size - 8) as *mut usize).write(2);
            }
        }
        // SAFETY: nothing refers to the chunk.
        unsafe { shape.unmap_chunk(chunk) };
    }

    #[test]
    fn own_stacks_have_their_size() {
        assert!(OwnStack::if_larger(4096, 4096).unwrap().is_none());
        let own = OwnStack::if_larger(1 << 20, 4096).unwrap().unwrap();
        let (region, top) = own.bounds();
        assert!(own.size() >= 1 << 20 && top % 64 == 0 && region % PAGE == 0);
        // SAFETY: the lowest and the highest word.
        unsafe {
            ((region + GUARD) as *mut usize).write(1);
            ((top - 8) as *mut usize).write(2);
        }
        for size in [1 << 60, usize::MAX] {
            let e = OwnStack::if_larger(size, 4096).unwrap_err().to_string();
            assert!(e.contains("cannot map another stack"), "{e}");
        }
    }

    #[test]
    fn smallest_stack_holds_three_frames() {
        assert!(min_stack_size() >= 3 * min_signal_frame() + 4096);
    }
}
