//! A FIFO queue without limit, in blocks.
//!
//! It lives under a spin lock, where nothing may be allocated or freed. So pushing takes a new
//! block from the caller when it needs one, and popping hands a used-up block to the caller when
//! there is already one in reserve. A queue that runs empty starts its last block again: in steady
//! state nothing is allocated at all.

use std::mem::MaybeUninit;
use std::ptr;

/// Values in a block. With the link, a block of words fills 256 bytes.
const CAPACITY: usize = 31;

/// Part of a queue: a heap block for some values.
pub(super) struct Block<T> {
    values: [MaybeUninit<T>; CAPACITY],
    next: *mut Block<T>,
}

impl<T> Block<T> {
    /// A block without values.
    pub(super) fn new() -> Box<Block<T>> {
        let mut block = Box::<Block<T>>::new_uninit();
        // SAFETY: `next` is written here, and `values` need not be.
        unsafe {
            (&raw mut (*block.as_mut_ptr()).next).write(ptr::null_mut());
            block.assume_init()
        }
    }
}

/// See the module documentation.
///
/// Values are at `head_at..` of the first block, `..tail_at` of the last, and everywhere in
/// between. With no block at all `tail_at` is `CAPACITY`: no room.
pub(super) struct Blocks<T> {
    head: *mut Block<T>,
    head_at: usize,
    tail: *mut Block<T>,
    tail_at: usize,
    len: usize,
    reserve: Option<Box<Block<T>>>,
}

// SAFETY: the queue owns its blocks and values.
unsafe impl<T: Send> Send for Blocks<T> {}

impl<T> Blocks<T> {
    pub(super) const fn new() -> Blocks<T> {
        Blocks {
            head: ptr::null_mut(),
            head_at: 0,
            tail: ptr::null_mut(),
            tail_at: CAPACITY,
            len: 0,
            reserve: None,
        }
    }

    #[cfg(not(loom))]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for one value, with the block from `spare` if need be. `false`: a block is
    /// needed, and `spare` has none.
    #[inline]
    pub(super) fn make_room(&mut self, spare: &mut Option<Box<Block<T>>>) -> bool {
        self.tail_at < CAPACITY || self.grow(spare)
    }

    fn grow(&mut self, spare: &mut Option<Box<Block<T>>>) -> bool {
        let Some(block) = self.reserve.take().or_else(|| spare.take()) else { return false };
        let block = Box::into_raw(block);
        if self.tail.is_null() {
            self.head = block;
            self.head_at = 0;
        } else {
            // SAFETY: the tail is a live block of ours.
            unsafe { (*self.tail).next = block };
        }
        self.tail = block;
        self.tail_at = 0;
        true
    }

    /// Appends a value.
    ///
    /// # Safety
    ///
    /// [`make_room`](Self::make_room) has returned `true`, and no value has been pushed since.
    #[inline]
    pub(super) unsafe fn push(&mut self, value: T) {
        debug_assert!(self.tail_at < CAPACITY);
        // SAFETY: there is room, so the tail is a live block and the place is free.
        unsafe { (&raw mut (*self.tail).values[self.tail_at]).write(MaybeUninit::new(value)) };
        self.tail_at += 1;
        self.len += 1;
    }

    /// Takes the oldest value. A block that is not needed any more may be left in `garbage`, which
    /// must be empty, to be freed outside the lock.
    #[inline]
    pub(super) fn pop(&mut self, garbage: &mut Option<Box<Block<T>>>) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: the queue is not empty, so there is a value at `head_at` of the live head block.
        let value = unsafe { (&raw const (*self.head).values[self.head_at]).read().assume_init() };
        self.head_at += 1;
        self.len -= 1;
        if self.len == 0 {
            // Head and tail are the same block.
            (self.head_at, self.tail_at) = (0, 0);
        } else if self.head_at == CAPACITY {
            // SAFETY: there are more values, so there is a next block; this one is ours and not
            // linked any more.
            let mut used = unsafe {
                let used = Box::from_raw(self.head);
                self.head = used.next;
                used
            };
            self.head_at = 0;
            used.next = ptr::null_mut();
            if self.reserve.is_none() {
                self.reserve = Some(used);
            } else {
                *garbage = Some(used);
            }
        }
        Some(value)
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        let mut garbage = None;
        while let Some(value) = self.pop(&mut garbage) {
            drop(value);
            garbage = None;
        }
        if !self.head.is_null() {
            // SAFETY: an empty queue has one block, and it is ours.
            drop(unsafe { Box::from_raw(self.head) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::rc::Rc;

    fn push<T>(q: &mut Blocks<T>, value: T) -> bool {
        let mut spare = None;
        let allocated = !q.make_room(&mut spare);
        if allocated {
            spare = Some(Block::new());
            assert!(q.make_room(&mut spare));
        }
        // SAFETY: room was made just now.
        unsafe { q.push(value) };
        allocated
    }

    /// Against the standard library's queue, with runs of all lengths around the block size.
    #[test]
    fn behaves_like_a_queue() {
        let mut q = Blocks::new();
        let mut model = VecDeque::new();
        let mut next = 0u32;
        for round in 0..200usize {
            for _ in 0..(round * 7) % 67 {
                push(&mut q, Box::new(next));
                model.push_back(next);
                next += 1;
            }
            for _ in 0..(round * 5) % 71 {
                let mut garbage = None;
                assert_eq!(q.pop(&mut garbage).map(|b| *b), model.pop_front());
            }
            assert_eq!(q.len(), model.len());
        }
    }

    #[test]
    fn steady_state_allocates_nothing() {
        let mut q = Blocks::new();
        let mut allocated = 0;
        for i in 0..1000 {
            allocated += u32::from(push(&mut q, i));
            assert_eq!(q.pop(&mut None), Some(i));
        }
        assert_eq!(allocated, 1);
    }

    #[test]
    fn drops_what_is_left() {
        let witness = Rc::new(());
        let mut q = Blocks::new();
        for _ in 0..100 {
            push(&mut q, witness.clone());
        }
        for _ in 0..40 {
            q.pop(&mut None);
        }
        assert_eq!(Rc::strong_count(&witness), 61);
        drop(q);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn holds_values_without_size() {
        let mut q = Blocks::new();
        for _ in 0..100 {
            push(&mut q, ());
        }
        assert_eq!(std::iter::from_fn(|| q.pop(&mut None)).count(), 100);
    }
}
