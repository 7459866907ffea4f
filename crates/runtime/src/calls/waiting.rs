//! Who waits for which descriptor.
//!
//! ```text
//!   a thread that waits                            whoever closes the descriptor
//!   ------------------------------------------     ------------------------------------------
//!   1 into the table                               a  somebody waits for it? duplicate it
//!   2 wait for the descriptor of its entry         b  lock; entry not HELD? put the duplicate
//!   3 HELD; try; not HELD                             there; unlock
//!   4 out of the table; close its duplicate        c  wake the thread; from b on for the next one
//!                                                  d  close
//! ```
//!
//! A try uses the descriptor of the entry, which nobody replaces while it is HELD: a thread never
//! meets another file of the same number. Who closes waits for a try to end, unless it is a handler
//! on that very thread.

use crate::overlay;
use crate::park::{Section, SpinLock};
use crate::reactor::Wanted;
use crate::sys;
use crate::thread::raw;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::*};

const BUCKETS: usize = 256;

/// The thread is using the descriptor.
const HELD: u64 = 1 << 32;
/// It is a duplicate, which belongs to the entry.
const MOVED: u64 = 1 << 33;

/// A thread waits for a file.
pub(super) struct WaitEntry {
    /// The descriptor, and the flags above.
    word: AtomicU64,
    /// The thread.
    owner: u32,
    /// The program's descriptor.
    original: i32,
    /// The list of the bucket, under its lock.
    next: Cell<*const WaitEntry>,
    previous: Cell<*const WaitEntry>,
}

/// Entries of descriptors with the same remainder. The first one may be looked at without the lock.
struct WaitBucket {
    first: AtomicPtr<WaitEntry>,
    lock: SpinLock<()>,
}

impl WaitBucket {
    const fn new() -> WaitBucket {
        WaitBucket { first: AtomicPtr::new(ptr::null_mut()), lock: SpinLock::new(()) }
    }
}

static TABLE: [WaitBucket; BUCKETS] = [const { WaitBucket::new() }; BUCKETS];
/// The process whose threads these are: the child of a `vfork` has descriptors of its own.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Duplicates that there are, plus one; 0: none. A child of a fork closes its own, where no call
/// waits. There may be more, which the child then keeps.
static DUPLICATES: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

fn exchange_duplicate(from: i32, to: i32) {
    let _ = DUPLICATES.iter().find(|d| d.compare_exchange(from, to, Relaxed, Relaxed).is_ok());
}

/// Closes a duplicate, which nobody else knows.
fn close_duplicate(fd: i32) {
    exchange_duplicate(fd + 1, 0);
    overlay::leave(fd);
    // SAFETY: no memory.
    unsafe { sys::syscall3(libc::SYS_close, fd as u64, 0, 0) };
}

fn process() -> i32 {
    // SAFETY: no arguments.
    unsafe { sys::syscall3(libc::SYS_getpid, 0, 0, 0) as i32 }
}

/// Are the threads that wait this process's? Not those that the child of a `vfork` sees.
pub(super) fn is_owner() -> bool {
    OWNER.load(Relaxed) == process()
}

fn bucket(fd: i32) -> &'static WaitBucket {
    &TABLE[fd as usize % BUCKETS]
}

fn number(word: u64) -> i32 {
    word as u32 as i32
}

impl WaitEntry {
    fn fd(&self) -> i32 {
        number(self.word.load(SeqCst))
    }

    /// # Safety
    ///
    /// The entry stays where it is until it has been unlinked.
    unsafe fn link(&self) {
        let bucket = bucket(self.original);
        let _locked = bucket.lock.lock();
        let first = bucket.first.load(Relaxed);
        self.next.set(first);
        self.previous.set(ptr::null());
        // SAFETY: entries in the list are alive.
        if let Some(first) = unsafe { first.as_ref() } {
            first.previous.set(self);
        }
        bucket.first.store(ptr::from_ref(self).cast_mut(), SeqCst);
    }

    /// # Safety
    ///
    /// It is in the list.
    unsafe fn unlink(&self) {
        let bucket = bucket(self.original);
        let _locked = bucket.lock.lock();
        let (next, previous) = (self.next.get(), self.previous.get());
        // SAFETY: entries in the list are alive.
        unsafe {
            if let Some(next) = next.as_ref() {
                next.previous.set(previous);
            }
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => bucket.first.store(next.cast_mut(), SeqCst),
            }
        }
    }
}

/// The entries of a thread that waits for some files.
pub(super) struct WaitEntries<'a> {
    entries: &'a [WaitEntry],
}

impl<'a> WaitEntries<'a> {
    /// There are as many places as there are files, or more.
    pub(super) fn new(
        places: &'a mut [MaybeUninit<WaitEntry>],
        wanted: &[Wanted],
    ) -> WaitEntries<'a> {
        let owner = raw::current_handle().unwrap_or(u32::MAX);
        let places = &mut places[..wanted.len()];
        for (place, wanted) in places.iter_mut().zip(wanted) {
            place.write(WaitEntry {
                word: AtomicU64::new(u64::from(wanted.fd as u32)),
                owner,
                original: wanted.fd,
                next: Cell::new(ptr::null()),
                previous: Cell::new(ptr::null()),
            });
        }
        // SAFETY: all of these have been written.
        WaitEntries { entries: unsafe { places.assume_init_ref() } }
    }

    /// Into the table, until the result is dropped.
    pub(super) fn enter(&self) -> Entered<'_> {
        if OWNER.load(Relaxed) == 0 {
            OWNER.store(process(), Relaxed);
        }
        let entered = Entered(self.entries);
        for entry in entered.linked() {
            // SAFETY: borrowed until it has been dropped.
            unsafe { entry.link() };
        }
        entered
    }
}

/// Entries in the table. Must not be forgotten.
pub(super) struct Entered<'a>(&'a [WaitEntry]);

impl<'a> Entered<'a> {
    /// Those that wait for something.
    fn linked(&self) -> impl Iterator<Item = &'a WaitEntry> {
        self.0.iter().filter(|e| e.original >= 0)
    }

    /// Writes down the descriptors as they are now. `false`: one was closed, and there could be no
    /// duplicate.
    pub(super) fn update(&self, wanted: &mut [Wanted]) -> bool {
        self.0.iter().zip(wanted).all(|(entry, wanted)| {
            wanted.fd = entry.fd();
            wanted.fd >= 0 || entry.original < 0
        })
    }

    /// Are they others by now?
    pub(super) fn has_moved(&self, wanted: &[Wanted]) -> bool {
        self.0.iter().zip(wanted).any(|(entry, wanted)| wanted.fd != entry.fd())
    }

    /// The descriptors, which stay the same files until the result is dropped.
    pub(super) fn hold<'b>(&'b self, numbers: &'b mut [i32]) -> HeldFiles<'b> {
        for (entry, number) in self.0.iter().zip(numbers.iter_mut()) {
            *number = self::number(entry.word.fetch_or(HELD, SeqCst));
        }
        HeldFiles { entries: self.0, numbers: &numbers[..self.0.len()] }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        for entry in self.linked() {
            // SAFETY: linked by `enter`.
            unsafe { entry.unlink() };
            let word = entry.word.load(SeqCst);
            if word & MOVED != 0 && number(word) >= 0 {
                close_duplicate(number(word));
            }
        }
    }
}

/// Descriptors that nobody replaces.
pub(super) struct HeldFiles<'a> {
    entries: &'a [WaitEntry],
    numbers: &'a [i32],
}

impl HeldFiles<'_> {
    pub(super) fn files(&self) -> &[i32] {
        self.numbers
    }
}

impl Drop for HeldFiles<'_> {
    fn drop(&mut self) {
        for entry in self.entries {
            entry.word.fetch_and(!HELD, SeqCst);
        }
    }
}

/// Who waits for a descriptor.
#[derive(PartialEq, Eq)]
pub(super) enum Awaiter {
    Nobody,
    /// Somebody uses it at this moment.
    Held,
    Somebody,
}

/// Does anybody of this process wait for one of these descriptors? Costs a look where nobody does.
pub(super) fn is_awaited(fd: i32) -> bool {
    !bucket(fd).first.load(SeqCst).is_null() && is_owner()
}

/// Calls `f` with the entries for `fd` until it says something.
fn find<R>(fd: i32, mut f: impl FnMut(&WaitEntry, u64) -> Option<R>) -> (Option<R>, Section) {
    let bucket = bucket(fd);
    let locked = bucket.lock.lock();
    let mut next = bucket.first.load(Relaxed).cast_const();
    let mut found = None;
    // SAFETY: entries in the list are alive.
    while let Some(entry) = unsafe { next.as_ref() }
        && found.is_none()
    {
        let word = entry.word.load(SeqCst);
        if number(word) == fd && word & MOVED == 0 {
            found = f(entry, word);
        }
        next = entry.next.get();
    }
    (found, locked.unlock())
}

/// Who waits for `fd`?
pub(super) fn look_for(fd: i32) -> Awaiter {
    let me = raw::current_handle();
    let mut held = false;
    let (somebody, _quiet) = find(fd, |entry, word| {
        let is_held = word & HELD != 0;
        held |= is_held && Some(entry.owner) != me;
        (!is_held).then_some(())
    });
    match somebody {
        Some(()) => Awaiter::Somebody,
        None if held => Awaiter::Held,
        None => Awaiter::Nobody,
    }
}

/// Gives somebody who waits for `fd` the duplicate `new` instead, or -1, and wakes it. If nobody
/// does that could take it now, it is closed.
pub(super) fn give(fd: i32, new: i32) {
    if new >= 0 {
        exchange_duplicate(0, new + 1);
    }
    let (owner, quiet) = find(fd, |entry, word| {
        let moved = u64::from(new as u32) | MOVED;
        let given =
            word & HELD == 0 && entry.word.compare_exchange(word, moved, SeqCst, SeqCst).is_ok();
        given.then_some(entry.owner)
    });
    match owner {
        // Not preempted in between: nobody else would wake it.
        Some(owner) => raw::unpark(owner),
        None if new >= 0 => close_duplicate(new),
        None => {}
    }
    drop(quiet);
}

/// The descriptors for which somebody waits, from `first` to `last`: the smallest one.
pub(super) fn smallest(first: u32, last: u32) -> Option<i32> {
    if !is_owner() {
        return None;
    }
    let mut smallest = None;
    for bucket in &TABLE {
        if bucket.first.load(SeqCst).is_null() {
            continue;
        }
        let _locked = bucket.lock.lock();
        let mut next = bucket.first.load(Relaxed).cast_const();
        // SAFETY: entries in the list are alive.
        while let Some(entry) = unsafe { next.as_ref() } {
            let word = entry.word.load(SeqCst);
            let fd = number(word);
            let asked = fd >= 0 && (first..=last).contains(&(fd as u32));
            if asked && word & MOVED == 0 && smallest.is_none_or(|s| fd < s) {
                smallest = Some(fd);
            }
            next = entry.next.get();
        }
    }
    smallest
}

/// In the child of a fork: nobody waits, and nobody holds a lock.
///
/// # Safety
///
/// There is no other thread.
pub(crate) unsafe fn forget_all() {
    OWNER.store(0, Relaxed);
    for duplicate in DUPLICATES.iter().map(|d| d.swap(0, Relaxed)).filter(|&d| d != 0) {
        close_duplicate(duplicate - 1);
    }
    for bucket in &TABLE {
        // SAFETY: nobody else is there to use it.
        unsafe { ptr::from_ref(bucket).cast_mut().write(WaitBucket::new()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor that no other test uses after it has been closed.
    fn open() -> i32 {
        // SAFETY: no memory.
        unsafe { libc::fcntl(0, libc::F_DUPFD, 700) }
    }

    /// Is there such a descriptor?
    fn exists(fd: i32) -> bool {
        // SAFETY: no memory.
        unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
    }

    #[test]
    fn who_waits_gets_a_duplicate() {
        let fd = open();
        let mut place = [MaybeUninit::uninit()];
        let waiting = WaitEntries::new(&mut place, &[Wanted::new(fd, libc::POLLIN)]);
        let mut wanted = [Wanted::new(fd, libc::POLLIN)];
        let entered = waiting.enter();
        assert!(
            is_awaited(fd) && look_for(fd) == Awaiter::Somebody && look_for(-2) == Awaiter::Nobody
        );
        let mut numbers = [-1];
        let held = entered.hold(&mut numbers);
        // Whoever holds it keeps it.
        let vain = open();
        give(fd, vain);
        assert!(held.files() == [fd] && !exists(vain) && !entered.has_moved(&wanted));
        drop(held);
        let duplicate = open();
        give(fd, duplicate);
        assert!(entered.has_moved(&wanted) && look_for(fd) == Awaiter::Nobody);
        assert!(entered.update(&mut wanted) && wanted[0].fd == duplicate);
        drop(entered);
        assert!(!exists(duplicate) && exists(fd) && look_for(fd) == Awaiter::Nobody);
        // SAFETY: nobody else's.
        unsafe { libc::close(fd) };
    }
}
