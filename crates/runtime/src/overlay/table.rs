//! What serves a descriptor, by its number.

use super::epoll::{Candidate, Set};
use super::served::Served;
use crate::park::SpinLock;
use crate::segments::Segments;
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering::*};
use std::sync::Arc;

/// What is known of a descriptor.
#[derive(Clone)]
pub(super) enum DescriptorEntry {
    Nothing,
    /// A stack's socket.
    Socket(Arc<Served>),
    /// An epoll instance with members that are sockets of a stack, or may become some.
    Set(Arc<Set>),
    /// A socket of the kernel's that is in such instances, and may be taken over.
    Candidate(Arc<Candidate>),
    /// A stack's socket in the parent of this process.
    Lost,
}

const NOTHING: u8 = 0;
const SOCKET: u8 = 1;
const OTHER: u8 = 2;

impl DescriptorEntry {
    fn mark(&self) -> u8 {
        match self {
            DescriptorEntry::Nothing => NOTHING,
            DescriptorEntry::Socket(_) | DescriptorEntry::Lost => SOCKET,
            DescriptorEntry::Set(_) | DescriptorEntry::Candidate(_) => OTHER,
        }
    }
}

/// A descriptor.
pub(super) struct DescriptorSlot {
    /// What the entry is. May be asked without the lock.
    mark: AtomicU8,
    /// The next descriptor of the same socket or instance, under the lock of what they share; -1:
    /// this is the last.
    next: AtomicI32,
    entry: SpinLock<DescriptorEntry>,
}

impl DescriptorSlot {
    fn new(entry: DescriptorEntry) -> DescriptorSlot {
        let mark = AtomicU8::new(entry.mark());
        DescriptorSlot { mark, next: AtomicI32::new(-1), entry: SpinLock::new(entry) }
    }

    /// Replaces the entry. What was there must not be dropped under a lock.
    fn replace(&self, new: DescriptorEntry) -> DescriptorEntry {
        let mark = new.mark();
        let mut entry = self.entry.lock();
        let before = self.mark.swap(mark, SeqCst);
        let old = core::mem::replace(&mut *entry, new);
        match (before, mark) {
            (NOTHING, NOTHING) => {}
            (NOTHING, _) => _ = IN_USE.fetch_add(1, SeqCst),
            (_, NOTHING) => _ = IN_USE.fetch_sub(1, SeqCst),
            _ => {}
        }
        drop(entry);
        old
    }
}

static TABLE: Segments<DescriptorSlot> = Segments::new();

/// Entries, and one for an installed stack: while there is none, the overlay has nothing to do.
pub(super) static IN_USE: AtomicU32 = AtomicU32::new(0);

fn known(fd: i32) -> Option<&'static DescriptorSlot> {
    TABLE.get(fd)
}

/// Sees to it that there is a place for this number. `false`: it is beyond what Linux allows by
/// default (a million), or there is no memory.
pub(super) fn make_room(fd: i32) -> bool {
    TABLE.get_or_make(fd, || DescriptorSlot::new(DescriptorEntry::Nothing)).is_some()
}

/// What serves `fd`, if anything does.
#[inline]
pub(super) fn get(fd: i32) -> Option<DescriptorEntry> {
    let slot = known(fd).filter(|slot| slot.mark.load(Acquire) != NOTHING)?;
    let entry = slot.entry.lock();
    match &*entry {
        DescriptorEntry::Nothing => None,
        entry => Some(entry.clone()),
    }
}

/// Is anything known of `fd`?
#[inline]
pub(super) fn has(fd: i32) -> bool {
    known(fd).is_some_and(|slot| slot.mark.load(Acquire) != NOTHING)
}

/// Is it served, and not by the kernel?
pub(super) fn is_socket(fd: i32) -> bool {
    known(fd).is_some_and(|slot| slot.mark.load(Acquire) == SOCKET)
}

/// Replaces what is known of `fd`, for which there is [room](make_room); what that was.
pub(super) fn replace(fd: i32, new: DescriptorEntry) -> DescriptorEntry {
    known(fd).map_or(DescriptorEntry::Nothing, |slot| slot.replace(new))
}

/// The smallest descriptor from `first` to `last` of which something is known.
pub(super) fn smallest(first: u32, last: u32) -> Option<i32> {
    TABLE.find(first, last, |slot| slot.mark.load(Acquire) != NOTHING)
}

/// A list of descriptors, through their slots. Used under the lock of what they share.
pub(super) struct Descriptors(i32);

impl Descriptors {
    pub(super) const fn new() -> Descriptors {
        Descriptors(-1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = i32> + use<> {
        let next = |&fd: &i32| known(fd).map(|slot| slot.next.load(Relaxed));
        core::iter::successors(Some(self.0), next).take_while(|&fd| fd >= 0)
    }

    pub(super) fn add(&mut self, fd: i32) {
        if let Some(slot) = known(fd) {
            slot.next.store(self.0, Relaxed);
            self.0 = fd;
        }
    }

    pub(super) fn remove(&mut self, fd: i32) {
        let Some(slot) = known(fd) else { return };
        let next = slot.next.load(Relaxed);
        let mut slots = self.iter().filter_map(known);
        if self.0 == fd {
            self.0 = next;
        } else if let Some(before) = slots.find(|slot| slot.next.load(Relaxed) == fd) {
            before.next.store(next, Relaxed);
        }
    }
}

/// In the child of a fork: there is no stack, and nobody holds a lock. Nothing is dropped.
///
/// # Safety
///
/// There is no other thread.
pub(super) unsafe fn forget_all() {
    let mut left = 0;
    // SAFETY: the caller's contract: whoever held a lock does not exist here.
    unsafe {
        TABLE.rewrite(|slot| {
            let was_socket = slot.mark.load(Relaxed) == SOCKET;
            left += u32::from(was_socket);
            DescriptorSlot::new(if was_socket {
                DescriptorEntry::Lost
            } else {
                DescriptorEntry::Nothing
            })
        });
    }
    IN_USE.store(left, SeqCst);
}
