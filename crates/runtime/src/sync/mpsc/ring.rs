//! A FIFO queue of fixed capacity, which may be 0.

use std::mem::MaybeUninit;

/// A ring buffer. All memory is allocated at the start: it lives under a spin lock.
pub(super) struct Ring<T> {
    values: Box<[MaybeUninit<T>]>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// An empty ring with room for `capacity` values.
    pub(super) fn new(capacity: usize) -> Ring<T> {
        Ring { values: Box::new_uninit_slice(capacity), head: 0, len: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.values.len()
    }

    #[cfg(not(loom))]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a value; the ring must not be full.
    pub(super) fn push(&mut self, value: T) {
        debug_assert!(!self.is_full());
        // No overflow: both are at most the length of a slice, which with sized values is below
        // `isize::MAX`; without size the sum wraps only beyond `usize::MAX` queued values.
        let room = self.values.len() - self.head;
        let at = if self.len < room { self.head + self.len } else { self.len - room };
        self.values[at].write(value);
        self.len += 1;
    }

    /// Takes the oldest value.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: there is a value at `head`, and it is not read again because `head` moves on.
        let value = unsafe { self.values[self.head].assume_init_read() };
        self.head = if self.head + 1 == self.values.len() { 0 } else { self.head + 1 };
        self.len -= 1;
        Some(value)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while let Some(value) = self.pop() {
            drop(value);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::rc::Rc;

    #[test]
    fn behaves_like_a_queue() {
        for capacity in 1..6 {
            let mut ring = Ring::new(capacity);
            let mut model = VecDeque::new();
            for i in 0..100usize {
                for _ in 0..i % (capacity + 1) {
                    if !ring.is_full() {
                        ring.push(Box::new(i));
                        model.push_back(i);
                    }
                }
                assert_eq!(ring.is_full(), model.len() == capacity);
                for _ in 0..(i * 3) % (capacity + 1) {
                    assert_eq!(ring.pop().map(|b| *b), model.pop_front());
                }
                assert_eq!(ring.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn no_room_at_all() {
        let mut ring = Ring::<u8>::new(0);
        assert!(ring.is_full() && ring.is_empty());
        assert_eq!(ring.pop(), None);
    }

    #[test]
    fn drops_what_is_left() {
        let witness = Rc::new(());
        let mut ring = Ring::new(3);
        ring.push(witness.clone());
        ring.pop();
        for _ in 0..3 {
            ring.push(witness.clone());
        }
        assert_eq!(Rc::strong_count(&witness), 4);
        drop(ring);
        assert_eq!(Rc::strong_count(&witness), 1);
    }
}
