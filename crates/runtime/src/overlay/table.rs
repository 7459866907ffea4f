//! What serves a descriptor, by its number.

use super::epoll::{Candidate, Set};
use super::served::Served;
use crate::park::SpinLock;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, Ordering::*};
use std::sync::Arc;

/// What is known of a descriptor.
#[derive(Clone)]
pub(super) enum Entry {
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

impl Entry {
    fn mark(&self) -> u8 {
        match self {
            Entry::Nothing => NOTHING,
            Entry::Socket(_) | Entry::Lost => SOCKET,
            Entry::Set(_) | Entry::Candidate(_) => OTHER,
        }
    }
}

/// A descriptor.
pub(super) struct Slot {
    /// What the entry is. May be asked without the lock.
    mark: AtomicU8,
    /// The next descriptor of the same socket or instance, under the lock of what they share; -1:
    /// this is the last.
    next: AtomicI32,
    entry: SpinLock<Entry>,
}

impl Slot {
    fn new(entry: Entry) -> Slot {
        let mark = AtomicU8::new(entry.mark());
        Slot { mark, next: AtomicI32::new(-1), entry: SpinLock::new(entry) }
    }

    /// Replaces the entry. What was there must not be dropped under a lock.
    fn replace(&self, new: Entry) -> Entry {
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

const IN_SEGMENT: usize = 256;
const SEGMENTS: usize = 4096;

/// The first slots of the segments, which are leaked.
static TABLE: [AtomicPtr<Slot>; SEGMENTS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS];

/// Entries, and one for an installed stack: while there is none, the overlay has nothing to do.
pub(super) static IN_USE: AtomicU32 = AtomicU32::new(0);

fn segment(index: usize) -> Option<&'static [Slot]> {
    let first = TABLE.get(index)?.load(Acquire);
    // SAFETY: null, or the first of so many that are leaked.
    (!first.is_null()).then(|| unsafe { core::slice::from_raw_parts(first, IN_SEGMENT) })
}

fn known(fd: i32) -> Option<&'static Slot> {
    let fd = usize::try_from(fd).ok()?;
    Some(&segment(fd / IN_SEGMENT)?[fd % IN_SEGMENT])
}

/// Sees to it that there is a place for this number. `false`: it is beyond what Linux allows by
/// default (a million).
pub(super) fn make_room(fd: i32) -> bool {
    if known(fd).is_some() {
        return true;
    }
    let Some(place) = usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd / IN_SEGMENT)) else {
        return false;
    };
    let new: Box<[Slot]> = (0..IN_SEGMENT).map(|_| Slot::new(Entry::Nothing)).collect();
    let new = Box::into_raw(new);
    if place.compare_exchange(core::ptr::null_mut(), new.cast(), AcqRel, Acquire).is_err() {
        // SAFETY: made above, known to nobody.
        drop(unsafe { Box::from_raw(new) });
    }
    true
}

/// What serves `fd`, if anything does.
#[inline]
pub(super) fn get(fd: i32) -> Option<Entry> {
    let slot = known(fd).filter(|slot| slot.mark.load(Acquire) != NOTHING)?;
    let entry = slot.entry.lock();
    match &*entry {
        Entry::Nothing => None,
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
pub(super) fn replace(fd: i32, new: Entry) -> Entry {
    known(fd).map_or(Entry::Nothing, |slot| slot.replace(new))
}

/// The smallest descriptor from `first` to `last` of which something is known.
pub(super) fn smallest(first: u32, last: u32) -> Option<i32> {
    let (mut fd, last) = (first as usize, (last as usize).min(IN_SEGMENT * SEGMENTS - 1));
    while fd <= last {
        match segment(fd / IN_SEGMENT) {
            None => fd = (fd / IN_SEGMENT + 1) * IN_SEGMENT,
            Some(slots) if slots[fd % IN_SEGMENT].mark.load(Acquire) != NOTHING => {
                return Some(fd as i32);
            }
            Some(_) => fd += 1,
        }
    }
    None
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
    for first in &TABLE {
        let first = first.load(Relaxed);
        for i in 0..if first.is_null() { 0 } else { IN_SEGMENT } {
            // SAFETY: the caller's contract: whoever held the lock does not exist here.
            unsafe {
                let slot = first.add(i);
                let was_socket = (*slot).mark.load(Relaxed) == SOCKET;
                left += u32::from(was_socket);
                slot.write(Slot::new(if was_socket { Entry::Lost } else { Entry::Nothing }));
            }
        }
    }
    IN_USE.store(left, SeqCst);
}
