//! The tables of policies: slices of fixed length, on the heap or in memory that a host provides.
//!
//! A host may reserve room for millions of tasks and use a few: tables of words come zeroed from
//! the allocator, which maps large ones without touching them. Zero therefore has to be a valid
//! initial value everywhere.
//!
//! A policy that several processes use lies, with all its tables, in memory that they share
//! (`Spec::build_at`). Policies do not know it: the `site` says, for a kernel thread that is making
//! one, where tables come from.

use alloc::boxed::Box;
#[cfg(any(test, feature = "std"))]
use core::alloc::Layout;
use core::{fmt, ops::Deref, ptr::NonNull, slice};

use crate::{
    queue::HeapNode,
    sync::{AtomicU32, AtomicU64},
};

#[cfg(any(test, feature = "std"))]
pub(crate) mod site;

/// As `Box<[T]>`, where the `site` says.
pub(crate) struct Table<T> {
    slice: NonNull<[T]>,
    /// Of the heap; else of a site's memory, which outlives it.
    owned: bool,
}

// SAFETY: a table is its elements, as a box is.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Table<T> {
    fn owned(elements: Box<[T]>) -> Self {
        Table { slice: NonNull::from(Box::leak(elements)), owned: true }
    }

    /// Elements that `make` makes, of these numbers from 0 on. In a site's memory nothing uses the
    /// heap.
    pub(crate) fn of(len: usize, make: impl FnMut(usize) -> T) -> Self {
        let elements = (0..len).map(make);
        let Some(at) = Self::placed(len) else { return Self::owned(elements.collect()) };
        for (index, element) in elements.enumerate() {
            // SAFETY: memory of the site for `len` elements, which nobody else uses.
            unsafe { at.add(index).write(element) };
        }
        Table { slice: NonNull::slice_from_raw_parts(at, len), owned: false }
    }

    /// There are no sites.
    #[cfg(not(any(test, feature = "std")))]
    fn placed(_len: usize) -> Option<NonNull<T>> {
        None
    }

    /// In the memory of the site, if there is one: uninitialised, or as a maker before has left it.
    #[cfg(any(test, feature = "std"))]
    fn placed(len: usize) -> Option<NonNull<T>> {
        Some(site::take(Layout::array::<T>(len).ok()?)?.cast())
    }

    #[cfg(not(loom))]
    fn zeroed(len: u32) -> Self
    where
        T: Zeroed,
    {
        let len = len as usize;
        let Some(at) = Self::placed(len) else {
            // SAFETY: all bits zero is a value of `T`.
            return Self::owned(unsafe { Box::new_zeroed_slice(len).assume_init() });
        };
        // SAFETY: memory of the site for `len` elements, which nobody else uses; the site's maker
        // has zeroed it, and all bits zero is a value of `T`.
        Table { slice: NonNull::slice_from_raw_parts(at, len), owned: false }
    }

    #[cfg(loom)]
    fn zeroed(len: u32) -> Self
    where
        T: Default,
    {
        Self::of(len as usize, |_| T::default())
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: initialised elements, which live as long as the table.
        unsafe { self.slice.as_ref() }
    }
}

impl<'a, T> IntoIterator for &'a Table<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: what `owned` has leaked.
            drop(unsafe { Box::from_raw(self.slice.as_ptr()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// All bits zero is a value.
///
/// # Safety
///
/// It is.
#[cfg(not(loom))]
unsafe trait Zeroed {}
// SAFETY: it has the representation of `u32`.
#[cfg(not(loom))]
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: it has the representation of `u64`.
#[cfg(not(loom))]
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: it consists of atomic integers.
#[cfg(not(loom))]
unsafe impl Zeroed for HeapNode {}

pub(crate) fn zeroed_u32(len: u32) -> Table<AtomicU32> {
    Table::zeroed(len)
}

pub(crate) fn zeroed_u64(len: u32) -> Table<AtomicU64> {
    Table::zeroed(len)
}

pub(crate) fn zeroed_nodes(len: u32) -> Table<HeapNode> {
    Table::zeroed(len)
}
