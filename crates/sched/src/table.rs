//! Tables with one word for each task, in memory that costs nothing until it is touched.
//!
//! A host may reserve room for millions of tasks and use a few: the tables come zeroed from the
//! allocator, which maps large ones without touching them. Zero therefore has to be a valid initial
//! value everywhere.

use alloc::boxed::Box;

use crate::{
    queue::HeapNode,
    sync::{AtomicU32, AtomicU64},
};

#[cfg(not(loom))]
pub(crate) fn zeroed_u32(len: u32) -> Box<[AtomicU32]> {
    // SAFETY: `AtomicU32` has the representation of `u32`, for which all bits zero is a valid
    // value.
    unsafe { Box::new_zeroed_slice(len as usize).assume_init() }
}

#[cfg(not(loom))]
pub(crate) fn zeroed_u64(len: u32) -> Box<[AtomicU64]> {
    // SAFETY: `AtomicU64` has the representation of `u64`, for which all bits zero is a valid
    // value.
    unsafe { Box::new_zeroed_slice(len as usize).assume_init() }
}

#[cfg(not(loom))]
pub(crate) fn zeroed_nodes(len: u32) -> Box<[HeapNode]> {
    // SAFETY: a node consists of atomic integers, for which all bits zero is a valid value.
    unsafe { Box::new_zeroed_slice(len as usize).assume_init() }
}

#[cfg(loom)]
pub(crate) fn zeroed_nodes(len: u32) -> Box<[HeapNode]> {
    (0..len).map(|_| HeapNode::default()).collect()
}

#[cfg(loom)]
pub(crate) fn zeroed_u32(len: u32) -> Box<[AtomicU32]> {
    (0..len).map(|_| AtomicU32::new(0)).collect()
}

#[cfg(loom)]
pub(crate) fn zeroed_u64(len: u32) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}
