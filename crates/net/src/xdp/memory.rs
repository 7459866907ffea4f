//! Memory that is shared with the kernel: mappings, and the area of frames.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A mapping, which ends with it.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory. Who may touch which part of it when is the affair of `Area` and `ring`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of nobody else, from huge pages if there are any.
    pub(crate) fn anonymous(len: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::map(len, flags | libc::MAP_HUGETLB, None, 0).or_else(|_| {
            let mapping = Self::map(len, flags & !libc::MAP_POPULATE, None, 0)?;
            // SAFETY: the range is the mapping's. A refusal changes nothing but speed.
            unsafe { libc::madvise(mapping.start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
            Ok(mapping)
        })
    }

    /// A ring of the socket `file`.
    pub(crate) fn ring(file: BorrowedFd<'_>, len: usize, at: libc::off_t) -> io::Result<Mapping> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, Some(file), at)
    }

    fn map(
        len: usize,
        flags: libc::c_int,
        file: Option<BorrowedFd<'_>>,
        at: libc::off_t,
    ) -> io::Result<Mapping> {
        let file = file.map_or(-1, |file| file.as_raw_fd());
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses a place where nothing is.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, file, at) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: NonNull::new(start.cast()).expect("nothing is at 0"), len })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is ours, and whoever has had a pointer into it has borrowed or owned it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The right to the bytes of one frame of an [`Area`]. There is one of each: it is in a [`Stock`],
/// in somebody's hands, or has been given to the kernel by a ring.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Frame(u32);

/// Frames that nobody uses. The last that was put back is the next to be taken: it is in the cache.
#[derive(Debug, Default)]
pub(crate) struct Stock(Vec<Frame>);

impl Stock {
    pub(crate) fn take(&mut self) -> Option<Frame> {
        self.0.pop()
    }

    pub(crate) fn put(&mut self, frame: Frame) {
        self.0.push(frame);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Frames, one after the other: what the kernel calls a UMEM.
#[derive(Debug)]
pub(crate) struct Area {
    memory: Mapping,
    /// The length of a frame is a power of two.
    shift: u32,
}

/// What the kernel keeps free before what it receives.
pub(crate) const HEADROOM: usize = 256;

impl Area {
    /// So many frames of `size` bytes, a power of two.
    pub(crate) fn new(frames: u32, size: usize) -> io::Result<(Area, Stock)> {
        assert!(size.is_power_of_two(), "frames of {size} bytes");
        let memory = Mapping::anonymous((frames as usize * size).next_multiple_of(2 << 20))?;
        let stock = Stock((0..frames).rev().map(Frame).collect());
        Ok((Area { memory, shift: size.trailing_zeros() }, stock))
    }

    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// The bytes of a frame.
    pub(crate) fn frame_size(&self) -> usize {
        1 << self.shift
    }

    /// Where a frame begins, as the kernel counts.
    pub(crate) fn address(&self, frame: &Frame) -> u64 {
        u64::from(frame.0) << self.shift
    }

    /// The frame at `address`, and how far it is from its beginning.
    ///
    /// # Safety
    ///
    /// The kernel has given back this frame of this area, which it had been given.
    pub(crate) unsafe fn frame_at(&self, address: u64) -> (Frame, usize) {
        (Frame((address >> self.shift) as u32), address as usize & (self.frame_size() - 1))
    }

    /// Bytes of a frame of this area.
    ///
    /// # Panics
    ///
    /// There are not as many.
    pub(crate) fn bytes<'a>(&'a self, frame: &'a mut Frame, at: usize, len: usize) -> &'a mut [u8] {
        let start = (frame.0 as usize) << self.shift;
        assert!(
            at <= self.frame_size()
                && len <= self.frame_size() - at
                && start + self.frame_size() <= self.memory.len,
            "{len} bytes at {at}"
        );
        // SAFETY: the range is inside the mapping. It is inside one frame, which is the caller's
        // alone: it has the only `Frame` of it, and the kernel touches only what it was given.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr().add(start + at), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_apart_and_writable() {
        let (area, mut stock) = Area::new(3, 2048).unwrap();
        assert_eq!(stock.len(), 3);
        let mut frames: Vec<_> = std::iter::from_fn(|| stock.take()).collect();
        for (n, frame) in frames.iter_mut().enumerate() {
            assert_eq!(area.address(frame), n as u64 * 2048);
            area.bytes(frame, 0, 2048).fill(n as u8);
        }
        for (n, frame) in frames.iter_mut().enumerate() {
            assert!(area.bytes(frame, 100, 1948).iter().all(|&byte| byte == n as u8));
        }
        // SAFETY: nobody uses the second `Frame` that this makes.
        let (frame, at) = unsafe { area.frame_at(4096 + 256) };
        assert_eq!((frame, at), (Frame(2), 256));
    }

    #[test]
    fn the_last_frame_put_back_is_the_next() {
        let (_area, mut stock) = Area::new(4, 2048).unwrap();
        let (first, second) = (stock.take().unwrap(), stock.take().unwrap());
        let kept = first.0;
        stock.put(second);
        stock.put(first);
        assert_eq!(stock.take().unwrap().0, kept);
    }

    #[test]
    #[should_panic(expected = "bytes at 2000")]
    fn nobody_reaches_into_the_next_frame() {
        let (area, mut stock) = Area::new(2, 2048).unwrap();
        area.bytes(&mut stock.take().unwrap(), 2000, 49);
    }
}
