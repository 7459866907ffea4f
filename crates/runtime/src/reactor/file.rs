//! What is known of a file, by its number: who waits for it, and how often something has happened.

use crate::park::SpinLock;
use crate::segments::Segments;
use crate::sync::list::WaitList;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

/// Events of epoll that end any wait.
pub(super) const ANY: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// How the epoll instance knows a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileKind {
    /// Not yet, or as a file that belongs to others: each wait arms it, unless it can be
    /// [heard of for good](super::heard).
    Foreign,
    /// For good, edge-triggered: its reads, and its writes since somebody has waited for them.
    /// Sockets of datagrams, and those of AF_XDP, can be written to again with each one that has
    /// gone: who only sends must not be told of that.
    Source { writes: bool },
    /// Not at all: a stack in user space announces its events.
    Served,
}

/// What is guarded by a file's lock.
pub(super) struct FileState {
    /// Who waits, and for which events.
    pub(super) waiters: WaitList<u32>,
    pub(super) kind: FileKind,
}

/// A file.
#[repr(align(64))]
pub(super) struct File {
    pub(super) state: SpinLock<FileState>,
    /// Events of a source in each direction.
    pub(super) reads: AtomicU32,
    pub(super) writes: AtomicU32,
    /// Something else than data has come: the end, an error, urgent data. That a read found less
    /// than it wanted does not mean any more that the next one would have to wait.
    pub(super) special: AtomicBool,
    /// What is known of a file of others, see [`heard`](super::heard). Changed under the lock.
    pub(super) standing: AtomicU8,
    /// The reads that had been counted when a read of a foreign stream found less than it wanted;
    /// if none has, fewer than there are.
    pub(super) drained: AtomicU32,
    /// Calls on a foreign source were found to have no timeout, and to wait, when there had been so
    /// many changes; 0: never.
    pub(super) patient: AtomicU32,
    pub(super) waits: AtomicU32,
}

impl File {
    const fn new() -> File {
        let state = FileState { waiters: WaitList::new(), kind: FileKind::Foreign };
        File {
            state: SpinLock::new(state),
            reads: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            special: AtomicBool::new(false),
            standing: AtomicU8::new(0),
            drained: AtomicU32::new(u32::MAX),
            patient: AtomicU32::new(0),
            waits: AtomicU32::new(0),
        }
    }
}

static TABLE: Segments<File> = Segments::new();

/// The file of this number, if there has ever been a wait for one near it.
pub(super) fn known(fd: i32) -> Option<&'static File> {
    TABLE.get(fd)
}

/// The file of this number; `None` for those beyond what Linux allows by default (a million), and
/// where there is no memory.
pub(super) fn of(fd: i32) -> Option<&'static File> {
    TABLE.get_or_make(fd, File::new)
}

/// The smallest number from `first` to `last` whose file `is` one of those sought.
pub(super) fn find(first: u32, last: u32, is: impl Fn(&File) -> bool) -> Option<i32> {
    TABLE.find(first, last, is)
}

/// In the child of a fork: nobody waits, and nobody holds a lock.
///
/// # Safety
///
/// There is no other thread.
pub(super) unsafe fn forget_all() {
    // SAFETY: the caller's contract; nothing in a file needs to be dropped.
    unsafe { TABLE.rewrite(|_| File::new()) };
}

const _: () = assert!(size_of::<File>() == 64);
