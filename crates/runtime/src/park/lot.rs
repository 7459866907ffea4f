//! The parking lot: who waits for which word in memory.
//!
//! A table of wait lists, keyed by the address of the word, for waits with the meaning of the
//! kernel's `futex`. User threads stand in the lists. Kernel threads wait in the kernel and are
//! counted here, so that nobody makes a system call to wake them where none waits, and so that they
//! get their share of the wake-ups.
//!
//! # Why no wake-up is lost
//!
//! A user thread counts itself in `users`, locks its list and compares the word, all before it
//! stands in the list. A kernel thread counts itself in its bucket before the kernel compares the
//! word. A waker has changed the word before it looks at either count, then locks the same list.
//! Each of the three has a full fence between its two steps. So either the waiter sees the new
//! word, or the waker sees the waiter.
//!
//! # Order
//!
//! Within a list first come, first served. Where both kinds may wait for a word, they take turns:
//! who is asked first is drawn for each wake-up, and whatever one side does not use goes to the
//! other. A draw and not strict alternation, because one bucket serves many words: two that are
//! woken by turns would otherwise always find the same side first.
//!
//! # Bounds
//!
//! A bucket's lock is held for [`STRIDE`] nodes at most. A waker that has further to go leaves a
//! bookmark in the list, a node of nobody's, and can be preempted before it goes on behind it.
//! `wake` asks for no more threads than waited when it came, so threads that wait again at once do
//! not keep it.

use super::shim::{AtomicU32, AtomicUsize, const_unless_loom, fence};
use super::{SpinGuard, SpinLock, Waiter};
use crate::sync::list::{Batch, Node, Signal, WaitList};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// How many nodes are looked at under a bucket's lock.
const STRIDE: usize = 32;

/// What a node waits for; nothing, if it is a bookmark, whose address is 0.
pub(crate) struct Want {
    address: usize,
    bits: u32,
}

/// Who waits at the addresses that share this bucket.
struct Bucket {
    list: SpinLock<WaitList<Want>>,
    /// Kernel threads that wait in the kernel or are about to.
    kernel: AtomicUsize,
    /// Draws whose turn it is.
    turns: AtomicU32,
}

/// The table. `N` is a power of two.
pub(crate) struct Lot<const N: usize> {
    /// User threads that wait or are about to.
    users: AtomicUsize,
    buckets: [Bucket; N],
}

/// A kernel thread that is counted, until this is dropped.
#[must_use = "counts as long as it exists"]
pub(crate) struct InKernel<'a>(&'a AtomicUsize);

impl Drop for InKernel<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Who may sleep in the kernel at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleepers {
    /// Those alone that were counted by [`Lot::in_kernel`].
    Counted,
    /// Others too: the kernel is asked whatever the count.
    Any,
}

impl Bucket {
    const_unless_loom! {
        fn new() -> Bucket {
            Bucket {
                list: SpinLock::new(WaitList::new()),
                kernel: AtomicUsize::new(0),
                turns: AtomicU32::new(0),
            }
        }
    }

    /// Is it the kernel's turn? Both sides get half of them, whatever the pattern of the calls.
    fn draw(&self) -> bool {
        // Two wakers may draw the same number.
        let next = self.turns.load(Relaxed).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.turns.store(next, Relaxed);
        next >> 31 != 0
    }
}

impl<const N: usize> Lot<N> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Lot<N> {
        Lot { users: AtomicUsize::new(0), buckets: [const { Bucket::new() }; N] }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Lot<N> {
        Lot { users: AtomicUsize::new(0), buckets: std::array::from_fn(|_| Bucket::new()) }
    }

    fn bucket(&self, address: usize) -> &Bucket {
        let hash = ((address >> 2) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.buckets[hash as usize % N]
    }

    /// Waits as `me`, the calling thread, until woken, if `unchanged` says that the word has its
    /// expected value. `sleep` parks the thread, and ends the wait by an error.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the word has changed, or that of `sleep`.
    pub(crate) fn wait(
        &self,
        me: Waiter,
        address: usize,
        bits: u32,
        unchanged: impl FnOnce() -> bool,
        mut sleep: impl FnMut() -> Result<(), i32>,
    ) -> Result<(), i32> {
        let node = Node::new(me, Want { address, bits });
        let bucket = self.bucket(address);
        self.users.fetch_add(1, Relaxed);
        fence(SeqCst);
        let mut list = bucket.list.lock();
        if !unchanged() {
            drop(list);
            self.users.fetch_sub(1, Relaxed);
            return Err(libc::EAGAIN);
        }
        // SAFETY: the node is new. Below, either its signal is seen or it is removed.
        unsafe { list.push_back(NonNull::from(&node)) };
        drop(list);
        let mut result = Ok(());
        while result.is_ok() && matches!(node.signal(), Signal::Waiting | Signal::Abandoned) {
            result = sleep();
        }
        if result.is_err() {
            let mut list = bucket.list.lock();
            match node.signal() {
                // SAFETY: list invariant 5: signals of these nodes are set under this lock.
                Signal::Waiting => unsafe { list.remove(&node) },
                // It is counted no longer.
                Signal::Abandoned => return result,
                // Woken at the last moment.
                _ => result = Ok(()),
            }
        }
        self.users.fetch_sub(1, Relaxed);
        result
    }

    /// Counts the calling thread, which is about to wait for `address` in the kernel.
    pub(crate) fn in_kernel(&self, address: usize) -> InKernel<'_> {
        let kernel = &self.bucket(address).kernel;
        kernel.fetch_add(1, Relaxed);
        fence(SeqCst);
        InKernel(kernel)
    }

    /// Wakes up to `n` threads that wait for `address` with one of these `bits`; returns how many.
    /// `kernel` wakes up to as many as it is asked for in the kernel.
    pub(crate) fn wake(
        &self,
        address: usize,
        n: u32,
        bits: u32,
        sleepers: Sleepers,
        kernel: impl Fn(u32) -> u32,
    ) -> u32 {
        fence(SeqCst);
        let bucket = self.bucket(address);
        let counted = bucket.kernel.load(Relaxed) != 0;
        let users = self.users.load(Relaxed);
        let mut woken = 0;
        let all = n >= i32::MAX as u32;
        if counted && users != 0 && !all && bucket.draw() {
            woken = kernel(n.div_ceil(2)).min(n);
        }
        if users != 0 && woken < n {
            let limit = u32::try_from(users).unwrap_or(u32::MAX).min(n - woken);
            woken += self.wake_users(bucket, Some(address), limit, bits);
        }
        if (counted || sleepers == Sleepers::Any) && woken < n {
            woken += kernel(n - woken);
        }
        woken
    }

    /// `None`: whatever they wait for.
    fn wake_users(&self, bucket: &Bucket, address: Option<usize>, n: u32, bits: u32) -> u32 {
        let bookmark =
            Node::new(Waiter::User { handle: 0, runtime: 0 }, Want { address: 0, bits: 0 });
        let mut woken = 0;
        let mut list = bucket.list.lock();
        // The last node that has been looked at and is still in the list.
        let mut before: Option<&Node<Want>> = None;
        loop {
            let mut batch = Batch::new();
            let mut steps = 0;
            let more = loop {
                // SAFETY: `before` is in the list, which is locked.
                let at = unsafe { list.after(before) };
                let Some(node) = at.filter(|_| woken < n) else { break false };
                if batch.is_full() || steps == STRIDE {
                    break true;
                }
                steps += 1;
                let want = node.payload();
                if want.address == 0
                    || address.is_some_and(|a| a != want.address)
                    || want.bits & bits == 0
                {
                    before = Some(node);
                    continue;
                }
                // SAFETY: in the list.
                let taken = unsafe { list.take(node) };
                if node.waiter().is_abandoned() {
                    taken.signal(Signal::Abandoned);
                    self.users.fetch_sub(1, Relaxed);
                } else {
                    batch.push(taken.signal(Signal::Granted));
                    woken += 1;
                }
            };
            if !more {
                batch.unpark(list.unlock());
                return woken;
            }
            match before {
                // SAFETY: `before` is in the list; the bookmark is in none, and is taken out below.
                Some(before) => unsafe { list.insert_after(before, &bookmark) },
                // SAFETY: as above.
                None => unsafe { list.push_front(NonNull::from(&bookmark)) },
            }
            batch.unpark(list.unlock());
            list = bucket.list.lock();
            before = Self::take_bookmark(&mut list, &bookmark);
        }
    }

    /// Takes the bookmark out; returns the node before it.
    fn take_bookmark<'a>(
        list: &mut SpinGuard<'_, WaitList<Want>>,
        bookmark: &Node<Want>,
    ) -> Option<&'a Node<Want>> {
        // SAFETY: it was put into this list, from which only its owner takes it; it matches no
        // address.
        unsafe {
            let before = list.before(bookmark);
            list.remove(bookmark);
            before
        }
    }

    /// Wakes all user threads.
    #[cfg(not(loom))]
    pub(crate) fn wake_everybody(&self) {
        fence(SeqCst);
        let users = u32::try_from(self.users.load(Relaxed)).unwrap_or(u32::MAX);
        for bucket in &self.buckets {
            self.wake_users(bucket, None, users, u32::MAX);
        }
    }

    /// In the child of a fork: nobody waits, and nobody holds a list, whatever the parent's threads
    /// were doing.
    ///
    /// # Safety
    ///
    /// There is no other thread.
    #[cfg(not(loom))]
    pub(crate) unsafe fn forget(&self) {
        self.users.store(0, Relaxed);
        for bucket in &self.buckets {
            // SAFETY: nobody else is there to use it.
            unsafe { (&raw const *bucket).cast_mut().write(Bucket::new()) };
        }
    }
}
