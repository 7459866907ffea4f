//! Descriptors that are closed or replaced, and what is remembered of them.

use super::waiting::{self, Awaiter};
use crate::park::Relax;
use crate::reactor::heard;
use crate::thread::raw;
use crate::{overlay, preempt, sys};
use core::ffi::c_long;
use core::sync::atomic::{AtomicU8, Ordering::*};

/// What kind of file a descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DescriptorKind {
    /// Pipes, sockets, terminals and their like: there may be nothing yet, or no room.
    Stream,
    /// Files of a disk, and directories: calls on them wait for nobody.
    Plain,
}

const STREAM: u8 = 1;
const PLAIN: u8 = 2;

/// What descriptors were when they were first used. Those that are closed where nobody sees it, in
/// the C library's streams, may be others by now: of a plain file that counts as a stream a read
/// may return less than there is, and of a stream that counts as a plain file calls block in the
/// kernel.
static KINDS: [AtomicU8; 8192] = [const { AtomicU8::new(0) }; 8192];

/// What is `fd`? Asks the kernel only the first time. Plain if there is none.
pub fn kind(fd: i32) -> DescriptorKind {
    let known = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd));
    match known.map_or(0, |known| known.load(Relaxed)) {
        STREAM => DescriptorKind::Stream,
        PLAIN => DescriptorKind::Plain,
        _ => ask(fd, known),
    }
}

#[cold]
fn ask(fd: i32, known: Option<&AtomicU8>) -> DescriptorKind {
    // SAFETY: an all-zero stat, filled by the kernel.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { sys::syscall3(libc::SYS_fstat, fd as u64, &raw mut st as u64, 0) } != 0 {
        return DescriptorKind::Plain;
    }
    let is_plain =
        matches!(st.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK);
    if let Some(known) = known {
        known.store(if is_plain { PLAIN } else { STREAM }, Relaxed);
    }
    if is_plain { DescriptorKind::Plain } else { DescriptorKind::Stream }
}

pub use crate::reactor::Made;

/// To be called when `fd` has been made by one of these calls.
pub fn made(fd: i32, what: Made) {
    heard::made(fd, what, waiting::is_owner);
}

/// To be called when `setsockopt`, `fcntl` or `ioctl` (`number`) has been called.
#[inline]
pub fn has_set(number: c_long, a: [usize; 6]) {
    // As the C library numbers them where times have 32 bits, and where they have 64.
    const TIMEOUTS: [i32; 4] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, 66, 67];
    let (fd, first, second) = (a[0] as i32, a[1] as i32, a[2] as i32);
    match (number, first) {
        (libc::SYS_fcntl, libc::F_SETFL) => heard::has_changed(),
        (libc::SYS_ioctl, _) if a[1] as libc::c_ulong == libc::FIONBIO => heard::has_changed(),
        (libc::SYS_setsockopt, libc::SOL_SOCKET) if TIMEOUTS.contains(&second) => {
            heard::has_changed();
        }
        (libc::SYS_setsockopt, libc::IPPROTO_TCP) if second == libc::TCP_ULP => {
            heard::is_layered(fd);
        }
        _ => {}
    }
}

/// To be called before `fd` is closed or replaced: threads that wait for it keep its file.
#[inline]
pub fn leave(fd: i32) {
    let Ok(index) = usize::try_from(fd) else { return };
    if let Some(known) = KINDS.get(index) {
        known.store(0, Relaxed);
    }
    if waiting::is_awaited(fd) {
        move_all(fd);
    }
    heard::left(fd, waiting::is_owner);
    overlay::leave(fd);
}

/// [`leave`] for all descriptors from `first` to `last`.
pub fn leave_range(first: u32, last: u32) {
    for known in KINDS.iter().take((last as usize).saturating_add(1)).skip(first as usize) {
        known.store(0, Relaxed);
    }
    let mut from = first;
    while let Some(fd) = waiting::smallest(from, last) {
        move_all(fd);
        from = fd as u32 + 1;
    }
    heard::range_left(first, last, waiting::is_owner);
    overlay::leave_range(first, last);
}

#[cold]
fn move_all(fd: i32) {
    // A handler that has interrupted the runtime: it may hold the table's locks.
    if preempt::in_section() {
        return;
    }
    let mut relax = Relax::new();
    loop {
        match waiting::look_for(fd) {
            Awaiter::Nobody => return,
            Awaiter::Held => {
                if !raw::try_yield() {
                    relax.relax();
                }
            }
            Awaiter::Somebody => waiting::give(fd, duplicate(fd)),
        }
    }
}

/// Another descriptor of the same file, out of the way if it can be; -1 if there can be none.
fn duplicate(fd: i32) -> i32 {
    let new =
        sys::duplicate(fd, sys::OUT_OF_THE_WAY).or_else(|_| sys::duplicate(fd, 0)).unwrap_or(-1);
    overlay::share(fd, new);
    new
}
