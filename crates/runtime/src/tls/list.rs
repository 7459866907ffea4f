//! libc's list of the threads whose stacks the program allocated.
//!
//! User threads are put into it when the program calls `dlopen` for the first time
//! ([`crate::interpose`]), because the dynamic loader goes through it
//!
//! * to give the variables of a library with static TLS (`-ftls-model=initial-exec`) that is loaded
//!   now their initial values in every thread: no thread asks for them later;
//! * to wait, before it frees what `dlopen` replaced or `dlclose` removed, for threads that look a
//!   symbol up.
//!
//! Not earlier, because debuggers go through it, too, and find in a core file threads that the
//! kernel did not know. In the child of a fork libc empties the list. `setuid` and its like find
//! the process's kernel threads in it.
//!
//! ```text
//!   _rtld_global: ... | _dl_stack_used | _dl_stack_user | _dl_stack_cache
//!                       next, prev       next, prev       next, prev
//!                     | bytes cached | in flight | lock | ...
//!                       8              8           4
//! ```
//!
//! The places of the first two and of the links in a thread's block are exported for libthread_db.
//! The lock's is inferred, and what is there is checked once ([`ThreadList::find`]); should another
//! glibc lay things out differently, user threads stay outside.

use super::descriptors;
use crate::preempt::no_preempt;
use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering::*};

#[repr(C)]
struct Link {
    next: *mut Link,
    prev: *mut Link,
}

/// The variables of the dynamic loader, as above.
#[repr(C)]
struct Lists {
    used: Link,
    user: Link,
    cache: Link,
    cached_bytes: usize,
    in_flight: usize,
    lock: AtomicU32,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and others may be waiting.
const CONTENDED: u32 = 2;

pub(super) struct ThreadList {
    lists: *mut Lists,
    /// Of the links, in a thread's block.
    node: usize,
}

// SAFETY: the loader's variables, changed under the loader's lock only.
unsafe impl Send for ThreadList {}
// SAFETY: as above.
unsafe impl Sync for ThreadList {}

impl ThreadList {
    /// Finds the list and its lock.
    pub(super) fn find() -> Option<ThreadList> {
        let lists = descriptors::in_loader(c"_thread_db_rtld_global__dl_stack_used")?.cast();
        let user = descriptors::in_loader(c"_thread_db_rtld_global__dl_stack_user")?;
        let list = ThreadList { lists, node: descriptors::offset(c"_thread_db_pthread_list")? };
        // SAFETY: only addresses are computed before the first fields are known to be there.
        let fits = unsafe { (&raw mut (*lists).user).cast() == user && list.is_plausible() };
        fits.then_some(list)
    }

    /// Do the fields hold what they should, with the lock held?
    ///
    /// # Safety
    ///
    /// `lists` points into the loader's variables.
    unsafe fn is_plausible(&self) -> bool {
        let linked = |head: *mut Link| {
            // SAFETY: the heads of circular lists, if the layout is right; a null pointer is not
            // followed.
            unsafe {
                let Link { next, prev } = head.read();
                !next.is_null()
                    && !prev.is_null()
                    && next.is_aligned()
                    && prev.is_aligned()
                    && (*next).prev == head
                    && (*prev).next == head
            }
        };
        // SAFETY: the caller's contract; 0, 1 and 2 are the values of libc's locks.
        unsafe {
            let lists = self.lists;
            if (*lists).lock.load(Relaxed) > CONTENDED {
                return false;
            }
            self.locked(|| {
                linked(&raw mut (*lists).used)
                    && linked(&raw mut (*lists).user)
                    && linked(&raw mut (*lists).cache)
                    && (*lists).in_flight == 0
            })
        }
    }

    /// Adds the block at `tp`. Waits for whoever changes the list.
    ///
    /// # Safety
    ///
    /// The block is writable as far as its static TLS and its links, and stays until
    /// [`remove`](ThreadList::remove).
    pub(super) unsafe fn add(&self, tp: usize) {
        let node = (tp + self.node) as *mut Link;
        // SAFETY: the list is ours under the lock.
        self.locked(|| unsafe {
            let head = &raw mut (*self.lists).user;
            let first = (*head).next;
            node.write(Link { next: first, prev: head });
            (*first).prev = node;
            (*head).next = node;
        });
    }

    /// Takes the block at `tp` out again.
    ///
    /// # Safety
    ///
    /// It was added, in this process.
    pub(super) unsafe fn remove(&self, tp: usize) {
        let node = (tp + self.node) as *mut Link;
        // SAFETY: the list is ours under the lock.
        self.locked(|| unsafe {
            let Link { next, prev } = node.read();
            (*next).prev = prev;
            (*prev).next = next;
        });
    }

    /// Calls `f` with the thread pointer of every thread that libc knows, with the lock held: `f`
    /// may neither wait nor allocate.
    pub(super) fn each(&self, mut f: impl FnMut(usize)) {
        // SAFETY: the lists are ours under the lock.
        self.locked(|| unsafe {
            for head in [&raw mut (*self.lists).used, &raw mut (*self.lists).user] {
                let mut node = (*head).next;
                while node != head {
                    f(node as usize - self.node);
                    node = (*node).next;
                }
            }
        });
    }

    /// Runs `f` with the lock, which is held as libc does. The holder is not preempted; who waits
    /// for it may be, because the holder may be another user thread, preempted in libc.
    fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: a word of the loader's.
        let lock = unsafe { &(*self.lists).lock };
        let mut f = Some(f);
        let mut held = HELD;
        loop {
            let done = no_preempt(|| {
                let taken = if held == HELD {
                    lock.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
                } else {
                    lock.swap(CONTENDED, Acquire) == FREE
                };
                let r = if taken { f.take().map(|f| f()) } else { None };
                if taken && lock.swap(FREE, Release) == CONTENDED {
                    sys::futex_wake(lock, 1);
                }
                r
            });
            if let Some(r) = done {
                return r;
            }
            if held == CONTENDED {
                // Whatever the reason to return: look again.
                let _ = sys::futex_wait(lock, CONTENDED, None);
            }
            held = CONTENDED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::segment;

    fn contains(list: &ThreadList, tp: usize) -> bool {
        let mut found = false;
        list.each(|other| found |= other == tp);
        found
    }

    #[test]
    fn the_calling_thread_is_listed() {
        let list = ThreadList::find().unwrap();
        assert!(contains(&list, segment::fs_base()));
        assert!(!contains(&list, 4096));
    }

    /// A thread that is being started waits for this very lock.
    #[test]
    fn the_lock_is_libcs() {
        let list = ThreadList::find().unwrap();
        let held = AtomicU32::new(0);
        std::thread::scope(|s| {
            let starter = s.spawn(|| {
                while held.load(Acquire) == 0 {
                    std::hint::spin_loop();
                }
                std::thread::spawn(|| ()).join().unwrap();
            });
            list.locked(|| {
                held.store(1, Release);
                // SAFETY: a word of the loader's.
                let lock = unsafe { &(*list.lists).lock };
                while lock.load(Relaxed) != CONTENDED {
                    std::hint::spin_loop();
                }
            });
            starter.join().unwrap();
        });
    }

    #[test]
    fn what_was_added_is_found_until_it_is_removed() {
        let list = ThreadList::find().unwrap();
        let words = (list.node + size_of::<Link>()).div_ceil(8);
        let blocks: Vec<Vec<u64>> = (0..3).map(|_| vec![0; words]).collect();
        let at = |i: usize| blocks[i].as_ptr() as usize;
        // SAFETY: the blocks hold the links, and are removed before they are freed.
        unsafe {
            for i in 0..3 {
                list.add(at(i));
            }
            for (step, i) in [1, 0, 2].into_iter().enumerate() {
                assert!(contains(&list, at(i)), "{step}");
                list.remove(at(i));
                assert!(!contains(&list, at(i)), "{step}");
            }
        }
        assert!(contains(&list, segment::fs_base()));
    }
}
