//! Waiting for one of several things.
//!
//! A [`Watched`] belongs to something that can become *ready*. Who waits for several of them enters
//! the list of each, looks whether one is ready, and sleeps if none is; who makes something ready
//! wakes everybody in its list. So it matters that one of the two sees the other. For a channel its
//! lock sees to that: entering comes before looking under the lock, and waking after the change
//! under the lock. Where readiness is an atomic, its accesses must be `SeqCst`, as those of
//! `waiting` are.
//!
//! Models of channels leave this out: there nobody watches.

#[cfg(loom)]
pub(crate) struct Watched;

#[cfg(loom)]
impl Watched {
    pub(crate) const fn new() -> Watched {
        Watched
    }

    pub(crate) fn wake(&self) {}
}

#[cfg(not(loom))]
pub use real::*;

#[cfg(not(loom))]
mod real {
    use crate::park::{self, SpinLock};
    use crate::sync::list::{Batch, Node, Signal, WaitList};
    use std::fmt;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Instant;

    /// See the module documentation.
    pub struct Watched {
        /// How many have entered and not left, so that nobody takes the lock for nothing.
        waiting: AtomicUsize,
        list: SpinLock<WaitList<()>>,
    }

    impl fmt::Debug for Watched {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Watched").field("waiting", &self.waiting).finish_non_exhaustive()
        }
    }

    impl Default for Watched {
        fn default() -> Watched {
            Watched::new()
        }
    }

    impl Watched {
        /// Nobody watches.
        pub const fn new() -> Watched {
            Watched { waiting: AtomicUsize::new(0), list: SpinLock::new(WaitList::new()) }
        }

        /// Wakes everybody who watches.
        #[inline]
        pub fn wake(&self) {
            if self.waiting.load(SeqCst) != 0 {
                self.wake_all();
            }
        }

        #[cold]
        fn wake_all(&self) {
            let mut list = self.list.lock();
            // Not those who come while this goes on.
            let mut left = list.len();
            loop {
                let mut batch = Batch::new();
                while left > 0 && !batch.is_full() {
                    let Some(first) = list.pop_front() else { break };
                    batch.push(first.signal(Signal::Woken));
                    left -= 1;
                }
                left = left.min(list.len());
                batch.unpark(list.unlock());
                if left == 0 {
                    return;
                }
                list = self.list.lock();
            }
        }

        /// # Safety
        ///
        /// The node is new, and stays where it is until it [leaves](Self::leave).
        unsafe fn enter(&self, node: &Node<()>) {
            self.waiting.fetch_add(1, SeqCst);
            // SAFETY: the caller's contract.
            unsafe { self.list.lock().push_back(NonNull::from(node)) };
        }

        /// # Safety
        ///
        /// The node has entered here.
        unsafe fn leave(&self, node: &Node<()>) {
            let mut list = self.list.lock();
            if node.signal() == Signal::Waiting {
                // SAFETY: signals of these nodes are set under the list's lock, so this one is
                // still in it.
                unsafe { list.remove(node) };
            }
            drop(list);
            self.waiting.fetch_sub(1, SeqCst);
        }
    }

    /// Waits until `ready` finds something. It is asked again when one of `watched` has been woken.
    /// `None`: `deadline` came first.
    pub fn wait<'a, R>(
        watched: impl Iterator<Item = &'a Watched> + Clone,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        loop {
            if let Some(found) = ready() {
                return Some(found);
            }
            let me = park::current();
            // Nodes must not move while they are in lists: the vector is complete before the first
            // enters.
            let nodes: Vec<(&Watched, Node<()>)> =
                watched.clone().map(|watched| (watched, Node::new(me, ()))).collect();
            for (watched, node) in &nodes {
                // SAFETY: a new node, which leaves below; nothing in between panics.
                unsafe { watched.enter(node) };
            }
            let mut found = ready();
            let woken = || nodes.iter().any(|(_, node)| node.signal() != Signal::Waiting);
            let mut late = false;
            while found.is_none() && !late && !woken() {
                let _waiting = park::waits_for(c"one of several", nodes.as_ptr());
                late = !park::park_deadline(me, deadline);
            }
            for (watched, node) in &nodes {
                // SAFETY: it has entered above.
                unsafe { watched.leave(node) };
            }
            if late && found.is_none() {
                found = ready();
            }
            if found.is_some() || late {
                return found;
            }
        }
    }
}
