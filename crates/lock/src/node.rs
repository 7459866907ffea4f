//! Nodes of the queue, and their numbers.
//!
//! A node's memory is never returned, because one that gave up may still be told that it is first,
//! at any time later (README, invariant 4). Nodes lie in slabs of 1,024. A thread takes one at its
//! first wait and returns it when it ends. Nothing here calls the allocator: it may use our locks.

use crate::cell::cell;
use std::ptr::{self, null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// In no queue.
pub(crate) const NONE: u32 = 0;
/// In a queue, behind another.
#[cfg(all(test, any(loom, feature = "host")))]
pub(crate) const WAITING: u32 = 1;
/// The one that spins on the word.
pub(crate) const FIRST: u32 = 2;

/// A place in a queue. A line of the cache, so that waiters do not disturb each other.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// [`NONE`], [`WAITING`] or [`FIRST`]. The owner changes it, and who tells it that it is first.
    pub(crate) place: AtomicU32,
    /// While free: the next free node's handle.
    free: AtomicU32,
    /// Who is behind. Written by that thread, once for each time in a queue.
    pub(crate) next: AtomicPtr<Node>,
    /// The word of the lock whose queue it is, for the monitor. Written by the owner before it
    /// joins.
    pub(crate) lock: AtomicPtr<AtomicU32>,
}

impl Node {
    pub(crate) const fn new() -> Self {
        Self {
            place: AtomicU32::new(NONE),
            free: AtomicU32::new(0),
            next: AtomicPtr::new(null_mut()),
            lock: AtomicPtr::new(null_mut()),
        }
    }
}

const SLAB: usize = 1024;
/// As many as Linux can have threads (`PID_MAX_LIMIT`).
const SLABS: usize = 4096;

static TABLE: [AtomicPtr<Node>; SLABS] = [const { AtomicPtr::new(null_mut()) }; SLABS];
/// Nodes that were ever taken; handles begin at 1.
static TAKEN: AtomicU32 = AtomicU32::new(0);
/// The first free node: its handle, and above it a number that changes with each removal.
static FREE: AtomicU64 = AtomicU64::new(0);
/// The key whose destructor returns the node of a thread that ends.
static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

/// The node of a `handle` that is in use, or was.
pub(crate) fn node(handle: u32) -> &'static Node {
    let index = handle as usize - 1;
    let slab = TABLE[index / SLAB].load(Acquire);
    debug_assert!(!slab.is_null());
    // SAFETY: handles are given out only after their slab has been entered, and slabs stay.
    unsafe { &*slab.add(index % SLAB) }
}

/// The node of any `handle`; `None` if this process has not given it out.
pub(crate) fn find(handle: u32) -> Option<&'static Node> {
    let index = (handle as usize).checked_sub(1)?;
    let slab = TABLE.get(index / SLAB)?.load(Acquire);
    // SAFETY: slabs stay, and all their nodes are valid.
    (!slab.is_null()).then(|| unsafe { &*slab.add(index % SLAB) })
}

/// The calling thread's node and its handle; `None` if memory is short. A thread's first call may
/// map memory.
pub(crate) fn own() -> Option<(&'static Node, u32)> {
    let cell = cell();
    // SAFETY: the cell is the calling thread's, and nobody else writes `node` and `handle`.
    unsafe {
        if (*cell).node.is_null() {
            let handle = take()?;
            (*cell).handle = handle;
            (&raw mut (*cell).node).write_volatile(node(handle));
            remember();
        }
        Some((&*(*cell).node, (*cell).handle))
    }
}

fn take() -> Option<u32> {
    let mut head = FREE.load(Acquire);
    while head as u32 != 0 {
        let rest = node(head as u32).free.load(Relaxed);
        let next = ((head >> 32).wrapping_add(1) << 32) | u64::from(rest);
        match FREE.compare_exchange_weak(head, next, AcqRel, Acquire) {
            Ok(_) => return Some(head as u32),
            Err(now) => head = now,
        }
    }
    let index = TAKEN
        .try_update(Relaxed, Relaxed, |n| ((n as usize) < SLAB * SLABS).then_some(n + 1))
        .ok()?;
    let slab = &TABLE[index as usize / SLAB];
    if slab.load(Acquire).is_null() && !map_slab(slab) {
        // A number is lost with each failure, which only shortens the table.
        return None;
    }
    Some(index + 1)
}

/// Enters a new slab, if nobody else has done so meanwhile.
fn map_slab(slab: &AtomicPtr<Node>) -> bool {
    let size = SLAB * size_of::<Node>();
    // SAFETY: new anonymous memory; its zeros are valid nodes.
    let new = unsafe {
        libc::mmap(
            null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if new == libc::MAP_FAILED {
        return false;
    }
    if slab.compare_exchange(null_mut(), new.cast(), Release, Relaxed).is_err() {
        // SAFETY: mapped above, and nobody has seen it.
        unsafe { libc::munmap(new, size) };
    }
    true
}

fn give(handle: u32) {
    let mut head = FREE.load(Relaxed);
    loop {
        node(handle).free.store(head as u32, Relaxed);
        let next = (head & !0xffff_ffff) | u64::from(handle);
        match FREE.compare_exchange_weak(head, next, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Sees to it that the calling thread's node returns when the thread ends. If that fails, the node
/// is lost.
fn remember() {
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `forget` may run in any ending thread; the child's handler changes only memory of
        // this module.
        unsafe {
            libc::pthread_atfork(None, None, Some(only_this_thread));
            (libc::pthread_key_create(&mut key, Some(forget)) == 0).then_some(key)
        }
    });
    if let Some(key) = *key {
        // SAFETY: the key exists; the value must only differ from null.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(1)) };
    }
}

/// Runs at the end of a thread. A later destructor that waits for a lock takes a node anew, and
/// with it another round of destructors.
unsafe extern "C" fn forget(_: *mut libc::c_void) {
    let cell = cell();
    // SAFETY: the cell is the calling thread's. A thread that runs destructors is in no queue.
    unsafe {
        let handle = (*cell).handle;
        (&raw mut (*cell).node).write_volatile(null());
        (*cell).handle = 0;
        node(handle).place.store(NONE, Relaxed);
        give(handle);
    }
}

/// In the child of `fork`: the nodes of all other threads are free, for these do not exist here.
/// Not those that were in a queue: the lock may still name them, and an owner would be told of
/// others.
/// Who comes behind such a node spins until its budget is used up, and leaves an empty queue.
unsafe extern "C" fn only_this_thread() {
    // SAFETY: the cell is the calling thread's.
    let own = unsafe { (*cell()).handle };
    FREE.store(0, Relaxed);
    for handle in 1..=TAKEN.load(Relaxed) {
        let index = handle as usize - 1;
        if handle != own
            && !TABLE[index / SLAB].load(Relaxed).is_null()
            && node(handle).place.load(Relaxed) == NONE
        {
            give(handle);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// 10,000 threads, at most 8 at a time, need few nodes.
    #[test]
    fn nodes_of_threads_that_ended_are_used_again() {
        let _turn = crate::TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = TAKEN.load(Relaxed);
        for _ in 0..10_000 / 8 {
            let together = Barrier::new(8);
            let handles: Vec<u32> = std::thread::scope(|s| {
                let one = || {
                    let (node, handle) = own().expect("memory");
                    together.wait();
                    let (again, same) = own().expect("memory");
                    assert!(ptr::eq(node, again) && handle == same);
                    handle
                };
                let threads: Vec<_> = (0..8).map(|_| s.spawn(one)).collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let mut different = handles.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), 8, "{handles:?}");
        }
        // A scope ends before its threads' last destructors, so two generations overlap.
        assert!(TAKEN.load(Relaxed) <= before + 40, "{before}, {TAKEN:?}");
    }

    /// In a child of `fork` all nodes are free but the forking thread's own.
    #[test]
    fn a_child_of_fork_has_all_nodes() {
        let _turn = crate::TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (_, own_handle) = own().expect("memory");
        let others = Barrier::new(3);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    own().expect("memory");
                    others.wait();
                    others.wait();
                });
            }
            others.wait();
            // SAFETY: the child calls only what is here, and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let taken = TAKEN.load(Relaxed);
                let fine = (1..taken)
                    .all(|_| take().is_some_and(|h| h != own_handle && h <= taken))
                    && take() == Some(taken + 1);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(!fine)) };
            }
            let mut status = 0;
            // SAFETY: our child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            others.wait();
            assert_eq!(status, 0);
        });
    }
}
