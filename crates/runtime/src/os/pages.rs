//! Memory from the kernel: for calls that may be made in signal handlers, which the allocator does
//! not survive.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;

/// Places for so many values, which are not written yet. Freed when it is dropped; the values are
/// not.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    first: NonNull<MaybeUninit<T>>,
    n: usize,
}

impl<T> Pages<T> {
    /// `None`: there is no memory, or nothing is asked for.
    pub(crate) fn new(n: usize) -> Option<Pages<T>> {
        const { assert!(align_of::<T>() <= 4096) };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory.
        let at = unsafe { libc::mmap(ptr::null_mut(), Self::len(n)?, rights, flags, -1, 0) };
        let first = (at != libc::MAP_FAILED).then(|| NonNull::new(at.cast())).flatten()?;
        Some(Pages { first, n })
    }

    /// Its length in bytes.
    fn len(n: usize) -> Option<usize> {
        n.checked_mul(size_of::<T>()).filter(|&len| len > 0)
    }

    /// The places.
    pub(crate) fn places(&mut self) -> &mut [MaybeUninit<T>] {
        // SAFETY: `new` has mapped so many places, aligned to a page; they are borrowed as this is.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.n) }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and borrowed by nobody any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.n * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_apart_and_there_are_as_many() {
        let mut pages = Pages::<u64>::new(10_000).unwrap();
        assert_eq!(pages.places().len(), 10_000);
        for (i, place) in pages.places().iter_mut().enumerate() {
            place.write(i as u64);
        }
        // SAFETY: written above.
        let written = unsafe { pages.places().assume_init_ref() };
        assert!(written.iter().enumerate().all(|(i, &value)| value == i as u64));
        assert!(Pages::<u64>::new(0).is_none() && Pages::<u64>::new(usize::MAX).is_none());
    }
}
