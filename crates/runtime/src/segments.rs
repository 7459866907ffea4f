//! Tables by descriptor, which grow in segments and are never freed.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};

const IN_SEGMENT: usize = 256;
const SEGMENTS: usize = 4096;

/// One entry for each descriptor, up to what Linux allows by default (a million).
pub(crate) struct Segments<T: 'static> {
    /// The first entries, or null.
    places: [AtomicPtr<T>; SEGMENTS],
}

impl<T: Sync> Segments<T> {
    /// How many descriptors may have entries.
    pub(crate) const MOST: usize = IN_SEGMENT * SEGMENTS;

    pub(crate) const fn new() -> Segments<T> {
        Segments { places: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS] }
    }

    /// The entry of `fd`, if there is one for it or a number near it.
    #[inline]
    pub(crate) fn get(&self, fd: i32) -> Option<&'static T> {
        let fd = usize::try_from(fd).ok()?;
        let first = self.places.get(fd / IN_SEGMENT)?.load(Acquire);
        // SAFETY: null, or the first of so many, which have been written and stay.
        unsafe { first.as_ref().map(|_| &*first.add(fd % IN_SEGMENT)) }
    }

    /// The entry of `fd`, made as `new` says if there is none; `None` for numbers that are too
    /// large, and where there is no memory.
    pub(crate) fn get_or_make(&self, fd: i32, new: fn() -> T) -> Option<&'static T> {
        self.get(fd).or_else(|| self.make(fd, new))
    }

    #[cold]
    fn make(&self, fd: i32, new: fn() -> T) -> Option<&'static T> {
        let place = self.places.get(usize::try_from(fd).ok()? / IN_SEGMENT)?;
        let first = map::<T>()?;
        // SAFETY: mapped for this, not yet shared; entries that are all zero bytes need not be
        // equal to new ones, so they are written.
        unsafe { (0..IN_SEGMENT).for_each(|i| first.add(i).write(new())) };
        if place.compare_exchange(ptr::null_mut(), first, AcqRel, Acquire).is_err() {
            // SAFETY: mapped above, known to nobody. What is in it needs no drop: it is new.
            unsafe { libc::munmap(first.cast(), size_of::<T>() * IN_SEGMENT) };
        }
        self.get(fd)
    }

    /// The smallest number from `first` to `last` whose entry `is` one of those sought.
    pub(crate) fn find(&self, first: u32, last: u32, is: impl Fn(&T) -> bool) -> Option<i32> {
        let (mut fd, last) = (first as usize, (last as usize).min(Self::MOST - 1));
        while fd <= last {
            match self.get(fd as i32) {
                None => fd = (fd / IN_SEGMENT + 1) * IN_SEGMENT,
                Some(entry) if is(entry) => return Some(fd as i32),
                Some(_) => fd += 1,
            }
        }
        None
    }

    /// Writes all entries anew. Those that were there are not dropped.
    ///
    /// # Safety
    ///
    /// There is no other thread, and nobody has a reference to an entry.
    pub(crate) unsafe fn rewrite(&self, mut new: impl FnMut(&T) -> T) {
        for first in &self.places {
            let first = first.load(Relaxed);
            for i in 0..if first.is_null() { 0 } else { IN_SEGMENT } {
                // SAFETY: one of the segment's; the caller's contract.
                unsafe {
                    let entry = first.add(i);
                    entry.write(new(&*entry));
                }
            }
        }
    }
}

/// Memory from the kernel: waits may happen in signal handlers, which the allocator does not
/// survive.
fn map<T>() -> Option<*mut T> {
    const { assert!(align_of::<T>() <= 4096) };
    let len = size_of::<T>() * IN_SEGMENT;
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn entries_are_found_by_their_number() {
        static TABLE: Segments<AtomicU32> = Segments::new();
        let of = |fd| TABLE.get_or_make(fd, || AtomicU32::new(7));
        let most = Segments::<AtomicU32>::MOST as i32;
        for fd in [0, 255, 256, 70_000, most - 1] {
            let entry = of(fd).unwrap();
            assert_eq!(entry.swap(fd as u32, Relaxed), 7);
            assert!(ptr::eq(entry, TABLE.get(fd).unwrap()) && ptr::eq(entry, of(fd).unwrap()));
        }
        assert!(of(-1).is_none() && of(most).is_none() && TABLE.get(500_000).is_none());
        let not_new = |entry: &AtomicU32| entry.load(Relaxed) != 7;
        assert_eq!(TABLE.find(1, u32::MAX, not_new), Some(255));
        assert_eq!(TABLE.find(257, u32::MAX, not_new), Some(70_000));
        assert_eq!(TABLE.find(257, 69_999, not_new), None);
        // SAFETY: nobody else knows the table.
        unsafe { TABLE.rewrite(|entry| AtomicU32::new(entry.load(Relaxed) / 2)) };
        assert_eq!(TABLE.get(70_000).unwrap().load(Relaxed), 35_000);
    }
}
