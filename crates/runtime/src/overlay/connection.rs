//! How sockets come to be served: binding, connecting, accepting.

use super::served::{Served, errno_of, failed};
use super::table::{self, DescriptorEntry};
use super::wait::WaitManner;
use super::{Words, address, kernel, options, stack};
use crate::net::stack::{Kind, Readiness, Stack};
use crate::reactor::{FileWait, Wanted};
use crate::sys;
use core::sync::atomic::Ordering::*;
use libc::{
    EAFNOSUPPORT, EAGAIN, EALREADY, ECONNABORTED, EINPROGRESS, EINTR, EINVAL, EISCONN, ENETDOWN,
    ENOMEM, EOPNOTSUPP, POLLIN, POLLOUT, SO_RCVTIMEO, SO_SNDTIMEO, SOCK_CLOEXEC, SOCK_NONBLOCK,
    SYS_close, socklen_t,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// What serves `fd`: a result, if its stack has gone; `None`, if nothing does.
pub(super) fn served(fd: i32) -> Option<Result<Arc<Served>, isize>> {
    match table::get(fd)? {
        DescriptorEntry::Socket(served) => Some(Ok(served)),
        DescriptorEntry::Lost => Some(Err(failed(ENETDOWN))),
        _ => None,
    }
}

/// Makes a stack serve a socket of the kernel's for which it `has` a way, unless the kernel has
/// given it an address already. `begin` is what it does first, and its error that of the call.
fn take_over(
    fd: i32,
    family: impl FnOnce(bool) -> bool,
    has: impl FnOnce(&dyn Stack) -> bool,
    begin: impl FnOnce(&Served) -> isize,
) -> Option<Result<Arc<Served>, isize>> {
    let stack = stack()?;
    let (kind, is_v6) = address::kind_of(fd).filter(|&(_, is_v6)| family(is_v6))?;
    if !has(&*stack) || !address::is_unbound(fd) {
        return None;
    }
    let socket = match stack.socket(kind) {
        Ok(socket) => socket,
        Err(e) => return Some(Err(errno_of(&e))),
    };
    let served = Served::new(socket, kind, is_v6);
    options::hand_over(fd, &served);
    let begun = begin(&served);
    if begun < 0 {
        return Some(Err(begun));
    }
    Some(if served.begin(fd) { Ok(served) } else { Err(failed(ENOMEM)) })
}

/// `bind`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn bind(a: Words) -> Option<isize> {
    let (fd, at, len) = (a[0] as i32, a[1] as *const u8, a[2]);
    // SAFETY: the caller's contract.
    let local = unsafe { address::read(at, len) };
    // SAFETY: as above; it has been read.
    let fits = |is_v6| local.is_ok() && unsafe { address::is_of_family(at, is_v6) };
    if let Some(served) = served(fd) {
        return Some(served.map_or_else(
            |e| e,
            |served| match local {
                Ok(_) if !fits(served.is_v6) => failed(EAFNOSUPPORT),
                Ok(local) => served.call(|socket| socket.bind(local).map(|()| 0)),
                Err(e) => e,
            },
        ));
    }
    let local = local.ok()?;
    let begin = |served: &Served| served.call(|socket| socket.bind(local).map(|()| 0));
    let done = take_over(fd, fits, |stack| stack.owns(local.ip()), begin)?;
    Some(done.map_or_else(|e| e, |_| 0))
}

/// `listen`: as many connections may wait as Linux allows by default.
const MOST: usize = 4096;

/// `listen`.
pub(super) fn listen(served: &Served, fd: i32, backlog: i32) -> isize {
    // Negative: as many as there may be.
    let backlog = usize::try_from(backlog).unwrap_or(MOST).min(MOST);
    let done = served.call(|socket| socket.listen(backlog).map(|()| 0));
    if done == 0 {
        served.listens.store(true, SeqCst);
        served.heirlooms.update(fd);
    }
    done
}

/// `connect`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn connect(a: Words, how: WaitManner) -> Option<isize> {
    let (fd, at, len) = (a[0] as i32, a[1] as *const u8, a[2]);
    // SAFETY: the caller's contract.
    let peer = unsafe { address::read(at, len) };
    let served = match served(fd) {
        Some(Err(e)) => return Some(e),
        Some(Ok(served)) => served,
        None => {
            let peer = peer.ok()?;
            let fits = |is_v6| address::fits(peer.ip(), is_v6);
            match take_over(fd, fits, |stack| stack.reaches(peer.ip()), |_| 0)? {
                Ok(served) => served,
                Err(e) => return Some(e),
            }
        }
    };
    Some(match peer {
        Ok(peer) if !address::fits(peer.ip(), served.is_v6) => failed(EAFNOSUPPORT),
        Ok(peer) => connect_to(&served, fd, peer, how),
        Err(e) => e,
    })
}

fn connect_to(served: &Served, fd: i32, peer: SocketAddr, how: WaitManner) -> isize {
    if served.kind == Kind::Datagram {
        return served.call(|socket| socket.connect(peer).map(|()| 0));
    }
    let first = begin_connecting(served, peer);
    if first != failed(EINPROGRESS) && first != failed(EALREADY) || sys::is_nonblocking(fd) {
        return first;
    }
    let time = sys::timeout_of(fd, SO_SNDTIMEO);
    let deadline = time.and_then(|time| Instant::now().checked_add(time));
    loop {
        let end = how.wait(&[Wanted::new(fd, POLLOUT)], deadline);
        let outcome = outcome(served);
        if outcome != failed(EALREADY) {
            return outcome;
        }
        match end {
            FileWait::TimedOut => return first,
            FileWait::Interrupted if how.interruptible => return failed(EINTR),
            _ => {}
        }
    }
}

fn begin_connecting(served: &Served, peer: SocketAddr) -> isize {
    if served.connects.load(SeqCst) {
        return outcome(served);
    }
    let first = served.call(|socket| socket.connect(peer).map(|()| 0));
    if first == failed(EINPROGRESS) {
        served.connects.store(true, SeqCst);
    }
    first
}

/// What has become of a connection; `EALREADY`: it is still under way. The first to ask is told.
fn outcome(served: &Served) -> isize {
    let ready = served.readiness();
    let has = |bit: Readiness| ready & bit.bits() != 0;
    let told = |result| {
        if served.connects.swap(false, SeqCst) { result } else { failed(EISCONN) }
    };
    if has(Readiness::ERROR) {
        let error = served.with(|socket| socket.take_error());
        return match error {
            Err(e) => e,
            Ok(error) => {
                served.connects.store(false, SeqCst);
                error.map_or(failed(ECONNABORTED), |e| errno_of(&e))
            }
        };
    }
    match served.with(|socket| socket.peer_addr().is_some()) {
        Err(e) => e,
        Ok(true) if has(Readiness::WRITABLE | Readiness::HANG_UP) => told(0),
        Ok(false) if has(Readiness::HANG_UP) => told(failed(ECONNABORTED)),
        Ok(_) => failed(EALREADY),
    }
}

/// `accept4` with these flags.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn accept(served: &Served, a: Words, flags: i32, how: WaitManner) -> isize {
    if flags & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 {
        return failed(EINVAL);
    }
    if served.kind == Kind::Datagram {
        return failed(EOPNOTSUPP);
    }
    let (fd, at, len) = (a[0] as i32, a[1] as *mut u8, a[2] as *mut socklen_t);
    how.until_ready(fd, (POLLIN, SO_RCVTIMEO), false, || {
        // Not for each try another descriptor.
        if served.listens.load(Relaxed) && served.readiness() & Readiness::READABLE.bits() == 0 {
            return failed(EAGAIN);
        }
        let new = match placeholder(served.is_v6, flags) {
            new if new < 0 => return new,
            new => new as i32,
        };
        match accept_as(served, new) {
            Ok(peer) => {
                // SAFETY: the caller's contract.
                unsafe { address::write(peer, served.is_v6, at, len) };
                new as isize
            }
            Err(e) => {
                super::descriptors::leave(new);
                // SAFETY: made above, known to nobody else.
                unsafe { kernel(SYS_close, [new as usize, 0, 0, 0, 0, 0]) };
                e
            }
        }
    })
}

fn accept_as(listener: &Served, new: i32) -> Result<SocketAddr, isize> {
    let accepted = listener.with(|socket| socket.accept())?;
    let (socket, peer) = accepted.map_err(|e| errno_of(&e))?;
    let served = Served::new(socket, Kind::Stream, listener.is_v6);
    listener.heirlooms.give(new, &served);
    if served.begin(new) { Ok(peer) } else { Err(failed(ENOMEM)) }
}

/// A socket of the kernel's that will be served.
fn placeholder(is_v6: bool, flags: i32) -> isize {
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    let kind = libc::SOCK_STREAM | flags;
    // SAFETY: no memory.
    unsafe { super::descriptors::socket([family as usize, kind as usize, 0, 0, 0, 0]) }
}

/// `sendto` and `sendmsg`: what serves `fd` if it is sent to this address.
///
/// # Safety
///
/// `at` is null, or there are `len` bytes.
pub(super) unsafe fn served_to(
    fd: i32,
    at: *const u8,
    len: usize,
) -> Option<Result<Arc<Served>, isize>> {
    if let Some(served) = served(fd) {
        return Some(served);
    }
    if at.is_null() || stack().is_none() {
        return None;
    }
    // SAFETY: the caller's contract.
    let to = unsafe { address::read(at, len) }.ok()?;
    let (kind, _) = address::kind_of(fd)?;
    if kind == Kind::Stream {
        return None;
    }
    let fits = |is_v6| address::fits(to.ip(), is_v6);
    take_over(fd, fits, |stack| stack.reaches(to.ip()), |_| 0)
}
