//! The place on a waiting thread's stack where a value changes hands.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// Room for a value, in a wait-list node. The protocol says whether it is filled: a receiver's is
/// when its node is signalled `Granted`; a sender's is until its node is. Whoever takes the node
/// out of its list has the mailbox to itself until it signals. A filled mailbox that is dropped
/// does not drop its value.
pub(crate) struct Mailbox<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: one thread at a time accesses the mailbox, and moves the value.
unsafe impl<T: Send> Send for Mailbox<T> {}

impl<T> Mailbox<T> {
    pub(crate) fn empty() -> Mailbox<T> {
        Mailbox(UnsafeCell::new(MaybeUninit::uninit()))
    }

    pub(crate) fn filled(value: T) -> Mailbox<T> {
        Mailbox(UnsafeCell::new(MaybeUninit::new(value)))
    }

    /// # Safety
    ///
    /// The caller has the mailbox to itself, and it is empty.
    pub(crate) unsafe fn put(&self, value: T) {
        // SAFETY: exclusive by contract.
        unsafe { (*self.0.get()).write(value) };
    }

    /// # Safety
    ///
    /// The caller has the mailbox to itself, and it is filled. It is empty afterwards.
    pub(crate) unsafe fn take(&self) -> T {
        // SAFETY: exclusive and filled by contract.
        unsafe { (*self.0.get()).assume_init_read() }
    }
}
