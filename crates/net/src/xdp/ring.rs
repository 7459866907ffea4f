//! The rings that a socket shares with the kernel.
//!
//! One side produces entries, the other consumes them. Each writes its own index, which only grows
//! and wraps at 2^32; the place of entry `i` is `i` modulo the length, a power of two.
//!
//! * A producer writes entries, then its index (release); the consumer reads that (acquire), then
//!   the entries.
//! * A consumer reads entries, then writes its index (release); the producer reads that (acquire),
//!   and only then writes over them.
//!
//! Here each side keeps what it has last seen of the other, and looks again when that does not do.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::Mapping;

/// Where the parts of a ring are, in bytes from the start of the mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub producer: usize,
    pub consumer: usize,
    pub entries: usize,
    pub flags: usize,
}

impl From<libc::xdp_ring_offset> for Layout {
    fn from(offset: libc::xdp_ring_offset) -> Layout {
        Layout {
            producer: offset.producer as usize,
            consumer: offset.consumer as usize,
            entries: offset.desc as usize,
            flags: offset.flags as usize,
        }
    }
}

/// What both sides have: indices, and entries of type `T`, for which every bit pattern is valid.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    layout: Layout,
    mask: u32,
    of: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// The ring of the socket `file` at `offset`.
    fn map(file: BorrowedFd<'_>, at: libc::off_t, layout: Layout, len: u32) -> io::Result<Self> {
        let bytes = layout.entries + len as usize * size_of::<T>();
        Ok(Self::new(Mapping::ring(file, bytes, at)?, layout, len))
    }

    fn new(memory: Mapping, layout: Layout, len: u32) -> Self {
        assert!(len.is_power_of_two(), "a ring of {len} entries");
        assert!(memory.len() >= layout.entries + len as usize * size_of::<T>());
        Ring { memory, layout, mask: len - 1, of: PhantomData }
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at + 4 <= self.memory.len());
        // SAFETY: the kernel says that there is an aligned word, which lives as long as the mapping
        // and which both sides access atomically only.
        unsafe { self.memory.start().byte_add(at).cast().as_ref() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.layout.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.layout.consumer)
    }

    /// Entry `index`. In bounds for every index.
    fn entry(&self, index: u32) -> NonNull<T> {
        let nth = (index & self.mask) as usize;
        // SAFETY: `new` has checked that the mapping has an entry for each value under the mask.
        unsafe { self.memory.start().byte_add(self.layout.entries).cast::<T>().add(nth) }
    }

    fn wants_wakeup(&self) -> bool {
        self.word(self.layout.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Our side of a ring: that which produces, or that which consumes.
#[derive(Debug)]
pub(crate) struct Side<T, const PRODUCES: bool> {
    ring: Ring<T>,
    /// Our index. The kernel sees it after [`show`](Side::show).
    next: u32,
    shown: u32,
    /// The kernel's index, as last seen.
    seen: u32,
}

/// A ring that we fill.
pub(crate) type Producer<T> = Side<T, true>;

/// A ring that the kernel fills.
pub(crate) type Consumer<T> = Side<T, false>;

impl<T: Copy, const PRODUCES: bool> Side<T, PRODUCES> {
    pub(crate) fn map(
        file: BorrowedFd<'_>,
        at: libc::off_t,
        layout: impl Into<Layout>,
        len: u32,
    ) -> io::Result<Self> {
        Ok(Self::over(Ring::map(file, at, layout.into(), len)?))
    }

    fn over(ring: Ring<T>) -> Self {
        let mut side = Side { ring, next: 0, shown: 0, seen: 0 };
        side.next = side.ours().load(Ordering::Relaxed);
        side.shown = side.next;
        side.look();
        side
    }

    fn ours(&self) -> &AtomicU32 {
        if PRODUCES { self.ring.producer() } else { self.ring.consumer() }
    }

    /// Sees how far the kernel is. What it has done before is seen, too.
    fn look(&mut self) {
        let theirs = if PRODUCES { self.ring.consumer() } else { self.ring.producer() };
        self.seen = theirs.load(Ordering::Acquire);
    }

    /// Lets the kernel see how far we are: what was pushed, or that the places of what was popped
    /// are its again.
    pub(crate) fn show(&mut self) {
        if self.shown != self.next {
            self.ours().store(self.next, Ordering::Release);
            self.shown = self.next;
        }
    }
}

impl<T: Copy> Producer<T> {
    /// Is there no room?
    pub(crate) fn is_full(&mut self) -> bool {
        if self.next.wrapping_sub(self.seen) <= self.ring.mask {
            return false;
        }
        self.look();
        self.next.wrapping_sub(self.seen) > self.ring.mask
    }

    /// Writes an entry, if there is room.
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.is_full() {
            return false;
        }
        // SAFETY: the place is in bounds, and the consumer has done with it: `is_full` has seen
        // its index beyond what was here before.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// How many shown entries the kernel has not taken.
    pub(crate) fn pending(&mut self) -> u32 {
        self.look();
        self.shown.wrapping_sub(self.seen)
    }

    /// Does the kernel sleep, so that it has to be told?
    pub(crate) fn wants_wakeup(&self) -> bool {
        self.ring.wants_wakeup()
    }
}

impl<T: Copy> Consumer<T> {
    /// The next entry, if there is one.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.next == self.seen {
            self.look();
            if self.next == self.seen {
                return None;
            }
        }
        // SAFETY: the place is in bounds. The producer's index is beyond it, so the entry has been
        // written, and nobody writes over it before it is shown that it was taken.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
