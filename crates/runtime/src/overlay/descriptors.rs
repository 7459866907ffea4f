//! Descriptors that come and go.

use super::served::failed;
use super::table::{self, DescriptorEntry};
use super::{Words, is_active, kernel};
use core::sync::atomic::{AtomicI32, Ordering::*};
use libc::{ENFILE, F_DUPFD, F_DUPFD_CLOEXEC, SYS_close, SYS_dup2, SYS_dup3, SYS_getpid};

/// The process whose table this is: the child of a `vfork` has descriptors of its own.
static OWNER: AtomicI32 = AtomicI32::new(0);

fn process() -> i32 {
    // SAFETY: no arguments.
    unsafe { kernel(SYS_getpid, [0; 6]) as i32 }
}

/// This process has a stack from now on.
pub(super) fn begin() {
    OWNER.store(process(), SeqCst);
}

/// `fd` is about to be closed or replaced, or turns out to have been.
#[inline]
pub(crate) fn leave(fd: i32) {
    if is_active() && table::has(fd) && OWNER.load(Relaxed) == process() {
        forget(fd);
    }
}

/// [`leave`] for all from `first` to `last`.
pub(crate) fn leave_range(first: u32, last: u32) {
    if !is_active() || OWNER.load(Relaxed) != process() {
        return;
    }
    let mut from = first;
    while let Some(fd) = table::smallest(from, last) {
        forget(fd);
        from = fd as u32 + 1;
    }
}

#[cold]
fn forget(fd: i32) {
    match table::replace(fd, DescriptorEntry::Nothing) {
        DescriptorEntry::Socket(served) => served.leave(fd),
        DescriptorEntry::Set(set) => set.leave(fd),
        DescriptorEntry::Candidate(_) | DescriptorEntry::Lost | DescriptorEntry::Nothing => {}
    }
}

/// `new` is a duplicate of `old`. `false`: there is no room for its number.
pub(crate) fn share(old: i32, new: i32) -> bool {
    if !is_active() || old == new {
        return true;
    }
    leave(new);
    match table::get(old) {
        None | Some(DescriptorEntry::Nothing) => true,
        Some(DescriptorEntry::Socket(served)) => served.serve(new),
        Some(DescriptorEntry::Set(set)) => set.serve(new),
        Some(other) => {
            let has_room = table::make_room(new);
            if has_room {
                drop(table::replace(new, other));
            }
            has_room
        }
    }
}

/// `socket`. Of its number something may be known still, if that was closed where nobody sees it:
/// by `fclose`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn socket(a: Words) -> isize {
    // SAFETY: the caller's contract.
    let new = unsafe { kernel(libc::SYS_socket, a) };
    if new >= 0 {
        leave(new as i32);
    }
    new
}

/// `dup` and its relatives, whose result is another descriptor of `fd`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn duplicate(number: i64, fd: i32, a: Words) -> Option<isize> {
    let is_one = number != libc::SYS_fcntl || matches!(a[1] as i32, F_DUPFD | F_DUPFD_CLOEXEC);
    let concerns_us = table::has(fd) || matches!(number, SYS_dup2 | SYS_dup3);
    if !is_one || !concerns_us || OWNER.load(Relaxed) != process() {
        return None;
    }
    // SAFETY: the caller's contract.
    let new = unsafe { kernel(number, a) };
    if new >= 0 && !share(fd, new as i32) {
        // SAFETY: made above.
        unsafe { kernel(SYS_close, [new as usize, 0, 0, 0, 0, 0]) };
        return Some(failed(ENFILE));
    }
    Some(new)
}
