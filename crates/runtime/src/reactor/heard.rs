//! Files of others that are heard of for good.
//!
//! A descriptor whose making was seen here, and whose end will be, means one file in between. So
//! its file can become a source ([`FileKind::Source`]) at the first wait, as those of `net` do,
//! instead of being armed for each wait. Such files are sockets of TCP, UDP and the Unix domain,
//! and instances of epoll. For writing only those of TCP are: another socket of datagrams may be
//! writable, and a send have to wait all the same, for the queue of its peer, of which no event
//! tells.
//!
//! Descriptors may be closed unseen, by system calls that the C library does not make. That does no
//! harm until their numbers are made again unseen as well. Of sources it is remembered that they
//! have no timeout and wait; so `fcntl`, `ioctl` and `setsockopt` of such a kind are not noticed
//! once a thread has waited.

use super::file::{self, File, FileKind, FileState};
use super::{Direction, REACTOR, epoll, wait};
use crate::{preempt, sys};
use core::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;

/// The making of the descriptor was seen.
const MADE: u8 = 1;
/// An instance of epoll.
const EPOLL: u8 = 2;
/// A source.
const SOURCE: u8 = 4;
/// A stream of TCP, with nothing between it and the program.
const STREAM: u8 = 8;
/// It would be a stream of TCP, but for a layer that has been put upon it.
const LAYERED: u8 = 16;
/// It was a source, and was closed where that could not be noted.
const STALE: u8 = 32;

/// How often a timeout or `O_NONBLOCK` has been set or taken back on any file, plus one.
static CHANGES: AtomicU32 = AtomicU32::new(1);
/// There has been a child that may change files which it shares.
const SHARED: u32 = 0;

/// What a call has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// A socket.
    Socket,
    /// An instance of epoll.
    Epoll,
}

/// What is known of a foreign file when an operation is tried on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Seen {
    /// Nothing that helps.
    #[default]
    Nothing,
    /// It may become a source.
    New,
    /// So many of its events, before the operation was tried and would have had to wait.
    Events(u32),
}

/// A call has made descriptor `fd`. `is_ours`: by this process, and not by the child of a `vfork`;
/// asked when that makes a difference.
pub(crate) fn made(fd: i32, what: Made, is_ours: impl FnOnce() -> bool) {
    let Some(file) = file::of(fd) else { return };
    if preempt::in_section() {
        return;
    }
    if file.standing.load(Relaxed) & (SOURCE | STALE) != 0 {
        // Its predecessor was closed unseen, unless this is the child of a `vfork`.
        end(file, fd, is_ours);
        if file.standing.load(Relaxed) != 0 {
            return;
        }
    }
    let _state = file.state.lock();
    file.standing.store(if what == Made::Epoll { MADE | EPOLL } else { MADE }, Release);
}

/// Descriptor `fd` is about to be closed or replaced. `is_ours` as for [`made`].
#[inline]
pub(crate) fn left(fd: i32, is_ours: impl FnOnce() -> bool) {
    if let Some(file) = file::known(fd)
        && file.standing.load(Relaxed) != 0
    {
        end(file, fd, is_ours);
    }
}

/// [`left`] for all from `first` to `last`.
pub(crate) fn range_left(first: u32, last: u32, is_ours: impl Fn() -> bool) {
    let mut from = first;
    while let Some(fd) = file::find(from, last, |file| file.standing.load(Relaxed) != 0) {
        left(fd, &is_ours);
        if fd as u32 == last {
            return;
        }
        from = fd as u32 + 1;
    }
}

#[cold]
fn end(file: &File, fd: i32, is_ours: impl FnOnce() -> bool) {
    if !is_ours() {
        return;
    }
    if preempt::in_section() {
        // A handler that has interrupted the runtime, which may hold the lock.
        let was_source = file.standing.load(Relaxed) & (SOURCE | STALE) != 0;
        return file.standing.store(if was_source { STALE } else { 0 }, Release);
    }
    let mut state = file.state.lock();
    let was_source = forget(file, &mut state);
    file.standing.store(0, Release);
    if was_source && let Some(epoll) = REACTOR.instance() {
        // A duplicate would keep it in the instance after it has been closed.
        let _ = epoll::control(epoll, (libc::EPOLL_CTL_DEL, fd, 0), 0);
    }
    drop(state);
    if was_source {
        // Who waits for it hears of it no more, and looks.
        super::announce(fd, wait::ANYTHING);
    }
}

/// It is no foreign source any more. Was it one? Under the file's lock.
pub(super) fn forget(file: &File, state: &mut FileState) -> bool {
    let standing = file.standing.load(Relaxed);
    if standing & (SOURCE | STALE) == 0 {
        return false;
    }
    file.standing.store(standing & !(SOURCE | STALE | STREAM), Release);
    file.drained.store(file.reads.load(Relaxed).wrapping_sub(1), Relaxed);
    file.patient.store(0, Relaxed);
    file.waits.store(0, Relaxed);
    state.kind = FileKind::Foreign;
    true
}

/// A layer, say TLS, is put upon a stream of TCP: a read may return less than there is.
pub(crate) fn is_layered(fd: i32) {
    if let Some(file) = file::known(fd)
        && file.standing.load(Relaxed) != 0
        && !preempt::in_section()
    {
        let _state = file.state.lock();
        let standing = file.standing.load(Relaxed);
        file.standing.store(standing & !STREAM | LAYERED, Release);
    }
}

/// Whether and how long calls on a file wait has been changed. It may have other numbers, too.
pub(crate) fn has_changed() {
    let _ = CHANGES.fetch_update(SeqCst, Relaxed, |count| match count {
        SHARED => None,
        u32::MAX => Some(1),
        count => Some(count + 1),
    });
}

/// The process is about to have a child with the same files.
pub(crate) fn are_shared() {
    CHANGES.store(SHARED, SeqCst);
}

/// The file, if it is a source, and how many changes there have been.
fn settled(fd: i32) -> Option<(&'static File, u32)> {
    let file = file::known(fd).filter(|file| file.standing.load(Relaxed) & SOURCE != 0)?;
    let changes = CHANGES.load(SeqCst);
    (changes != SHARED).then_some((file, changes))
}

/// How long calls on `fd` wait, if not for ever, as this option says. Both options are asked for at
/// once, and no more while neither has been set.
pub(crate) fn timeout_of(fd: i32, option: i32) -> Option<Duration> {
    let Some((file, changes)) = settled(fd) else { return sys::timeout_of(fd, option) };
    if file.patient.load(Relaxed) == changes {
        return None;
    }
    let timeout = sys::timeout_of(fd, option);
    if timeout.is_none() && !sys::has_timeout(fd) {
        file.patient.store(changes, Relaxed);
    }
    timeout
}

/// Do calls on `fd` return instead of waiting? No more asked while they do not.
pub(crate) fn is_nonblocking(fd: i32) -> bool {
    let Some((file, changes)) = settled(fd) else { return sys::is_nonblocking(fd) };
    if file.waits.load(Relaxed) == changes {
        return false;
    }
    let is_nonblocking = sys::is_nonblocking(fd);
    if !is_nonblocking {
        file.waits.store(changes, Relaxed);
    }
    is_nonblocking
}

/// What is known of `fd` before something is tried on it.
#[inline]
pub(crate) fn look(fd: i32, direction: Direction) -> Seen {
    let Some(file) = file::known(fd) else { return Seen::Nothing };
    let standing = file.standing.load(Acquire);
    match direction {
        _ if standing & SOURCE == 0 => {
            if standing & MADE == 0 {
                Seen::Nothing
            } else {
                Seen::New
            }
        }
        Direction::Read => Seen::Events(file.reads.load(Acquire)),
        Direction::Write if standing & STREAM == 0 => Seen::Nothing,
        Direction::Write => Seen::Events(file.writes.load(Acquire)),
    }
}

/// Had all that had come been read when there had been so many events? Then reading would have to
/// wait.
#[inline]
pub(crate) fn is_drained(fd: i32, seen: Seen) -> bool {
    let (Some(file), Seen::Events(count)) = (file::known(fd), seen) else { return false };
    file.drained.load(Acquire) == count
}

/// A read would have had to wait, `seen` before.
#[inline]
pub(crate) fn is_empty(fd: i32, seen: Seen) {
    if let (Some(file), Seen::Events(count)) = (file::known(fd), seen) {
        file.drained.store(count, Release);
    }
}

/// A read of `wanted` bytes has returned `got`, `seen` before. It has taken what it got.
#[inline]
pub(crate) fn has_read(fd: i32, seen: Seen, got: usize, wanted: usize) {
    let (Some(file), Seen::Events(count)) = (file::known(fd), seen) else { return };
    if file.standing.load(Relaxed) & STREAM == 0 {
        return;
    }
    let all = 0 < got && got < wanted && !file.special.load(Relaxed);
    file.drained.store(if all { count } else { count.wrapping_sub(1) }, Release);
}

/// Makes a source of a foreign file for which somebody is about to wait, if it can be one. Under
/// the file's lock. `false`: it must be armed.
pub(super) fn become_source(file: &File, state: &mut FileState, fd: i32, writes: bool) -> bool {
    let standing = file.standing.load(Relaxed);
    // Others that wait are armed, for other events perhaps.
    if state.kind != FileKind::Foreign || standing & MADE == 0 || !wait::is_single(state) {
        return false;
    }
    let is_stream = match standing & EPOLL != 0 {
        true => Some(false),
        false => kind_of(fd),
    };
    let Some(is_stream) = is_stream else {
        file.standing.store(0, Release);
        return false;
    };
    if writes && !is_stream || wait::register(state, file, fd, writes).is_err() {
        return false;
    }
    let stream = if is_stream && standing & LAYERED == 0 { STREAM } else { 0 };
    file.standing.store(standing | SOURCE | stream, Release);
    true
}

/// Somebody waits for events that sources do not tell of: it must be armed, for good. Under the
/// file's lock.
pub(super) fn cannot_be_source(file: &File, state: &mut FileState) {
    if file.standing.load(Relaxed) != 0 {
        forget(file, state);
        file.standing.store(0, Release);
    }
}

/// Is this a stream of TCP? `None`: nor another socket that can be a source.
fn kind_of(fd: i32) -> Option<bool> {
    match (sys::domain_of_socket(fd)?, sys::protocol_of_socket(fd)?) {
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_TCP) => Some(true),
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_UDP) | (libc::AF_UNIX, _) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
