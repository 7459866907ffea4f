//! What is known of a file, by its number: who waits for it, and how often something has happened.

use crate::park::SpinLock;
use crate::sync::list::WaitList;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};

/// Events of epoll that end any wait.
pub(super) const ANY: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// How the epoll instance knows a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Not yet, or as a file that belongs to others: each wait arms it.
    Foreign,
    /// For good, edge-triggered.
    Source,
    /// Not at all: a stack in user space announces its events.
    Served,
}

/// What is guarded by a file's lock.
pub(super) struct State {
    /// Who waits, and for which events.
    pub(super) waiters: WaitList<u32>,
    pub(super) kind: Kind,
}

/// A file.
#[repr(align(64))]
pub(super) struct File {
    pub(super) state: SpinLock<State>,
    /// Events of a source in each direction.
    pub(super) reads: AtomicU32,
    pub(super) writes: AtomicU32,
    /// Something else than data has come: the end, an error, urgent data. That a read found less
    /// than it wanted does not mean any more that the next one would have to wait.
    pub(super) special: AtomicBool,
}

impl File {
    const fn new() -> File {
        let state = State { waiters: WaitList::new(), kind: Kind::Foreign };
        File {
            state: SpinLock::new(state),
            reads: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            special: AtomicBool::new(false),
        }
    }
}

const IN_SEGMENT: usize = 256;
const SEGMENTS: usize = 4096;

/// Part of the table.
struct Segment([File; IN_SEGMENT]);

static TABLE: [AtomicPtr<Segment>; SEGMENTS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS];

/// The file of this number, if there has ever been a wait for one near it.
pub(super) fn known(fd: i32) -> Option<&'static File> {
    let fd = usize::try_from(fd).ok()?;
    let segment = TABLE.get(fd / IN_SEGMENT)?.load(Acquire);
    // SAFETY: null, or leaked.
    Some(&unsafe { segment.as_ref() }?.0[fd % IN_SEGMENT])
}

/// The file of this number; `None` for those beyond what Linux allows by default (a million), and
/// where there is no memory.
pub(super) fn of(fd: i32) -> Option<&'static File> {
    known(fd).or_else(|| make(fd))
}

#[cold]
fn make(fd: i32) -> Option<&'static File> {
    let place = TABLE.get(usize::try_from(fd).ok()? / IN_SEGMENT)?;
    let new = map_segment()?;
    // SAFETY: mapped for this, not yet shared; files that are all zero bytes need not be equal to
    // new ones, so they are written.
    unsafe {
        for i in 0..IN_SEGMENT {
            (&raw mut (*new).0[i]).write(File::new());
        }
    }
    if place.compare_exchange(core::ptr::null_mut(), new, AcqRel, Acquire).is_err() {
        // SAFETY: mapped above, known to nobody.
        unsafe { libc::munmap(new.cast(), size_of::<Segment>()) };
    }
    known(fd)
}

/// Memory from the kernel: waits may happen in signal handlers, which the allocator does not
/// survive.
fn map_segment() -> Option<*mut Segment> {
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory.
    let at =
        unsafe { libc::mmap(core::ptr::null_mut(), size_of::<Segment>(), rights, flags, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// In the child of a fork: nobody waits, and nobody holds a lock.
///
/// # Safety
///
/// There is no other thread.
pub(super) unsafe fn forget_all() {
    for segment in &TABLE {
        let segment = segment.load(Relaxed);
        if segment.is_null() {
            continue;
        }
        for i in 0..IN_SEGMENT {
            // SAFETY: the caller's contract; nothing in a file needs to be dropped.
            unsafe { (&raw mut (*segment).0[i]).write(File::new()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_number() {
        for fd in [0, 255, 256, 70_000, (IN_SEGMENT * SEGMENTS) as i32 - 1] {
            let file = of(fd).unwrap();
            assert!(core::ptr::eq(file, known(fd).unwrap()));
            assert!(core::ptr::eq(file, of(fd).unwrap()));
        }
        assert!(of(-1).is_none() && of((IN_SEGMENT * SEGMENTS) as i32).is_none());
        assert!(known(500_000).is_none());
        assert_eq!(size_of::<File>(), 64);
    }
}
