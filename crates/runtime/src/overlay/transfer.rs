//! Receiving and sending.

use super::served::{Served, errno_of, failed, result};
use super::wait::WaitManner;
use super::{Words, address};
use crate::calls::Span;
use crate::net::stack::{Kind, Readiness, Received};
use crate::sys;
use core::ffi::c_void;
use core::mem::size_of;
use libc::{
    EAGAIN, EINVAL, EMSGSIZE, EOPNOTSUPP, EPIPE, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_NOSIGNAL, MSG_OOB,
    MSG_PEEK, MSG_TRUNC, MSG_WAITALL, MSG_WAITFORONE, POLLIN, POLLOUT, SIGPIPE, SO_RCVTIMEO,
    SO_SNDTIMEO, SYS_getpid, iovec, mmsghdr, msghdr, socklen_t, timespec,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;

/// As many buffers as the kernel takes.
const BUFFERS: usize = 1024;
/// As many at once as there is room for on a stack.
const SOME: usize = 16;
const INTO: (i16, i32) = (POLLIN, SO_RCVTIMEO);
const OUT: (i16, i32) = (POLLOUT, SO_SNDTIMEO);

/// The buffers of a call.
///
/// # Safety
///
/// They are the program's, and as long as they say.
pub(super) unsafe fn buffers<'a>(vec: *const iovec, n: usize) -> Result<&'a [iovec], isize> {
    match n {
        0 => Ok(&[]),
        // SAFETY: the caller's contract.
        1..=BUFFERS => Ok(unsafe { core::slice::from_raw_parts(vec, n) }),
        _ => Err(failed(if vec.is_null() { EINVAL } else { EMSGSIZE })),
    }
}

/// What is left of buffers after `skip` bytes, or as much of it as there is room for.
fn rest(all: &[iovec], mut skip: usize) -> ([iovec; SOME], usize) {
    let mut some = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; SOME];
    let mut n = 0;
    for v in all {
        let skipped = skip.min(v.iov_len);
        skip -= skipped;
        if skipped < v.iov_len && n < SOME {
            let iov_base = v.iov_base.cast::<u8>().wrapping_add(skipped).cast();
            some[n] = iovec { iov_base, iov_len: v.iov_len - skipped };
            n += 1;
        }
    }
    (some, n)
}

fn total(all: &[iovec]) -> usize {
    all.iter().map(|v| v.iov_len).sum()
}

/// One call of the socket's.
fn receive_once(
    served: &Served,
    all: &[iovec],
    done: usize,
    peek: bool,
) -> Result<std::io::Result<Received>, isize> {
    // SAFETY: `IoSliceMut` is an `iovec`; buffers of the program's, which are its to write.
    let slices = |some: &mut [iovec]| unsafe {
        &mut *(core::ptr::from_mut(some) as *mut [IoSliceMut<'static>])
    };
    if done == 0 && all.len() > SOME {
        let mut all = all.to_vec();
        return served.with(|socket| socket.receive(slices(&mut all), peek));
    }
    let (mut some, n) = rest(all, done);
    served.with(|socket| socket.receive(slices(&mut some[..n]), peek))
}

/// `read` and its like: with no room they say 0 at once, where `recv` waits for something.
pub(super) fn read(served: &Served, fd: i32, all: &[iovec], flags: i32, how: WaitManner) -> isize {
    if served.kind == Kind::Stream && total(all) == 0 {
        return served.with(|_| 0).unwrap_or_else(|e| e);
    }
    receive(served, fd, all, flags, false, how).0
}

/// What a message behind the first comes to where an error is pending, which is for the next call.
const ENOUGH: isize = -(libc::ECANCELED as isize);

/// `recvmsg`: how many bytes, or how many there were; what is to be said of it; and from whom.
/// `later`: others have been received before by the same call.
pub(super) fn receive(
    served: &Served,
    fd: i32,
    all: &[iovec],
    flags: i32,
    later: bool,
    how: WaitManner,
) -> (isize, i32, Option<SocketAddr>) {
    if flags & MSG_OOB != 0 {
        return (failed(EINVAL), 0, None);
    }
    if flags & MSG_ERRQUEUE != 0 {
        return (failed(EAGAIN), 0, None);
    }
    let (peek, never) = (flags & MSG_PEEK != 0, flags & MSG_DONTWAIT != 0);
    let is_stream = served.kind == Kind::Stream;
    let wanted = total(all);
    if is_stream && flags & MSG_TRUNC != 0 {
        return (discard(served, fd, wanted, peek, never, how), 0, None);
    }
    // A system call.
    let waits = || !never && !sys::is_nonblocking(fd);
    let (mut done, mut said, mut from) = (0, 0, None);
    loop {
        let n = how.until_ready(fd, INTO, never, || {
            if (later || done > 0) && served.has_error() {
                return ENOUGH;
            }
            match receive_once(served, all, done, peek) {
                Err(e) => e,
                Ok(Err(e)) if !is_stream && is_shut(&e, served) && waits() => 0,
                Ok(Err(e)) => result(Err(e)),
                Ok(Ok(got)) => {
                    from = got.from;
                    let cut = !is_stream && got.whole > got.len;
                    said = if cut { MSG_TRUNC } else { 0 };
                    (if cut && flags & MSG_TRUNC != 0 { got.whole } else { got.len }) as isize
                }
            }
        });
        if n <= 0 {
            return (if done > 0 { done as isize } else { n }, said, from);
        }
        done += n as usize;
        let goes_on = is_stream && flags & MSG_WAITALL != 0 && !peek && !never;
        if !goes_on || done >= wanted || !waits() {
            return (done as isize, said, from);
        }
    }
}

/// Would a call wait for datagrams of a socket that receives no more? One that may wait ends then;
/// others say `EAGAIN` all the same.
fn is_shut(error: &std::io::Error, served: &Served) -> bool {
    error.raw_os_error() == Some(EAGAIN) && served.readiness() & Readiness::END.bits() != 0
}

/// `MSG_TRUNC` of a stream: the data is not wanted, and there may be no room for it.
fn discard(
    served: &Served,
    fd: i32,
    wanted: usize,
    peek: bool,
    never: bool,
    how: WaitManner,
) -> isize {
    let mut room = vec![0u8; wanted.min(1 << 16)];
    let room = [iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }];
    how.until_ready(fd, INTO, never, || match receive_once(served, &room, 0, peek) {
        Err(e) => e,
        Ok(got) => result(got.map(|got| got.len)),
    })
}

/// `sendmsg`: all of a stream's bytes, if it waits.
pub(super) fn send(
    served: &Served,
    fd: i32,
    all: &[iovec],
    to: Option<SocketAddr>,
    flags: i32,
    how: WaitManner,
) -> isize {
    if flags & MSG_OOB != 0 {
        return failed(EOPNOTSUPP);
    }
    let (never, is_stream) = (flags & MSG_DONTWAIT != 0, served.kind == Kind::Stream);
    // SAFETY: `IoSlice` is an `iovec`; buffers of the program's.
    let slices =
        |some: &[iovec]| unsafe { &*(core::ptr::from_ref(some) as *const [IoSlice<'static>]) };
    let wanted = total(all);
    let mut done = 0;
    loop {
        let n = how.until_ready(fd, OUT, never, || {
            if done > 0 && served.has_error() {
                return 0;
            }
            if !is_stream {
                return served.call(|socket| socket.send(slices(all), to));
            }
            if wanted == 0 {
                return served.call(|_| Ok(0));
            }
            let (some, n) = rest(all, done);
            served.call(|socket| socket.send(slices(&some[..n]), None))
        });
        if n < 0 && done > 0 {
            return done as isize;
        }
        if n == failed(EPIPE) && is_stream && flags & MSG_NOSIGNAL == 0 {
            raise_sigpipe();
        }
        if n < 0 || !is_stream {
            return n;
        }
        done += n as usize;
        if n == 0 || done >= wanted {
            return done as isize;
        }
    }
}

/// As the kernel does: the calling thread gets it before it goes on.
fn raise_sigpipe() {
    // SAFETY: no arguments.
    let process = unsafe { sys::syscall3(SYS_getpid, 0, 0, 0) } as i32;
    let _ = sys::tgkill(process, sys::gettid(), SIGPIPE);
}

/// `recvfrom`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn receive_from(served: &Served, a: Words, how: WaitManner) -> isize {
    let buffer = [iovec { iov_base: a[1] as *mut c_void, iov_len: a[2] }];
    let (n, _, from) = receive(served, a[0] as i32, &buffer, a[3] as i32, false, how);
    if n >= 0 {
        let (at, len) = (a[4] as *mut u8, a[5] as *mut socklen_t);
        // SAFETY: the caller's contract.
        unsafe { write_sender(served, from, at, len) };
    }
    n
}

/// # Safety
///
/// As for [`address::write`].
unsafe fn write_sender(
    served: &Served,
    from: Option<SocketAddr>,
    at: *mut u8,
    len: *mut socklen_t,
) {
    match from {
        // SAFETY: the caller's contract.
        Some(from) => unsafe { address::write(from, served.is_v6, at, len) },
        // Of a stream nobody; nor of a datagram socket that was shut down. The kernel leaves the
        // room for the address as it is: who looks at it all the same finds none.
        None if !at.is_null() && !len.is_null() => {
            // SAFETY: as above.
            unsafe {
                if *len as usize >= size_of::<libc::sa_family_t>() {
                    at.cast::<libc::sa_family_t>().write_unaligned(libc::AF_UNSPEC as u16);
                }
                *len = 0;
            }
        }
        None => {}
    }
}

/// What comes of `f` with the buffers of a message.
///
/// # Safety
///
/// As for `recvmsg` and `sendmsg`.
unsafe fn with_buffers(message: *const msghdr, f: impl FnOnce(&[iovec]) -> isize) -> isize {
    // SAFETY: the caller's contract.
    unsafe { buffers((*message).msg_iov, (*message).msg_iovlen) }.map_or_else(|e| e, f)
}

/// `recvmsg`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn receive_message(
    served: &Served,
    fd: i32,
    message: *mut msghdr,
    flags: i32,
    later: bool,
    how: WaitManner,
) -> isize {
    let receive = |all: &[iovec]| {
        let (n, said, from) = receive(served, fd, all, flags, later, how);
        if n >= 0 {
            // SAFETY: the caller's contract.
            unsafe {
                let at = (*message).msg_name.cast();
                write_sender(served, from, at, &raw mut (*message).msg_namelen);
                (*message).msg_controllen = 0;
                (*message).msg_flags = said;
            }
        }
        n
    };
    // SAFETY: the caller's contract.
    unsafe { with_buffers(message, receive) }
}

/// The address in these arguments.
///
/// # Safety
///
/// Null, or so many bytes.
unsafe fn target(served: &Served, at: *const u8, len: usize) -> Result<Option<SocketAddr>, isize> {
    if at.is_null() || served.kind == Kind::Stream {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    unsafe { address::read(at, len) }.map(Some)
}

/// `sendto`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn send_to(served: &Served, a: Words, how: WaitManner) -> isize {
    let buffer = [iovec { iov_base: a[1] as *mut c_void, iov_len: a[2] }];
    // SAFETY: the caller's contract.
    match unsafe { target(served, a[4] as *const u8, a[5]) } {
        Ok(to) => send(served, a[0] as i32, &buffer, to, a[3] as i32, how),
        Err(e) => e,
    }
}

/// `sendmsg`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn send_message(
    served: &Served,
    fd: i32,
    message: *const msghdr,
    flags: i32,
    how: WaitManner,
) -> isize {
    let send = |all: &[iovec]| {
        // SAFETY: the caller's contract.
        let to =
            unsafe { target(served, (*message).msg_name.cast(), (*message).msg_namelen as usize) };
        to.map_or_else(|e| e, |to| send(served, fd, all, to, flags, how))
    };
    // SAFETY: the caller's contract.
    unsafe { with_buffers(message, send) }
}

/// `recvmmsg`. Its time is looked at after each message only, and an error behind the first message
/// is for the next call.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn receive_several(served: &Served, a: Words, how: WaitManner) -> isize {
    let (fd, messages, n) = (a[0] as i32, a[1] as *mut mmsghdr, a[2] as u32 as usize);
    let mut flags = a[3] as i32;
    // SAFETY: the caller's contract: null or a time.
    let time = unsafe { (a[4] as *mut timespec).as_mut() };
    let Some(span) = Span::of_timespec(time.as_deref()) else { return failed(EINVAL) };
    if flags & MSG_ERRQUEUE == 0 {
        match served.with(|socket| socket.take_error()) {
            Err(e) => return e,
            Ok(Some(error)) => return errno_of(&error),
            Ok(None) => {}
        }
    }
    let waits_for_one = flags & MSG_WAITFORONE != 0;
    flags &= !MSG_WAITFORONE;
    let mut done = 0;
    while done < n {
        // SAFETY: the caller's contract.
        let message = unsafe { &mut *messages.add(done) };
        // SAFETY: as above.
        match unsafe { receive_message(served, fd, &mut message.msg_hdr, flags, done > 0, how) } {
            r if r < 0 && done == 0 => return r,
            r if r < 0 => break,
            r => message.msg_len = r as u32,
        }
        done += 1;
        if waits_for_one {
            flags |= MSG_DONTWAIT;
        }
        if time.is_some() && span.rest() == 0 {
            break;
        }
    }
    if let Some(time) = time
        && done > 0
    {
        *time = span.left(true).unwrap_or(*time);
    }
    done as isize
}

/// `sendmmsg`. An error behind the first message is lost, as in the kernel.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn send_several(served: &Served, a: Words, how: WaitManner) -> isize {
    let (fd, messages, flags) = (a[0] as i32, a[1] as *mut mmsghdr, a[3] as i32);
    let n = (a[2] as u32 as usize).min(BUFFERS);
    for i in 0..n {
        // SAFETY: the caller's contract.
        let message = unsafe { &mut *messages.add(i) };
        // SAFETY: as above.
        match unsafe { send_message(served, fd, &message.msg_hdr, flags, how) } {
            r if r < 0 && i > 0 => return i as isize,
            r if r < 0 => return r,
            r => message.msg_len = r as u32,
        }
        // SAFETY: as above; the buffers have been looked at.
        let all = unsafe { buffers(message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) };
        if (message.msg_len as usize) < all.map_or(0, total) {
            return i as isize + 1;
        }
    }
    n as isize
}

/// `sendfile` to a socket: what is read from the file is copied.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn send_file(served: &Served, a: Words, how: WaitManner) -> isize {
    const PIECE: usize = 1 << 16;
    let (fd, file, offset, count) = (a[0] as i32, a[1], a[2] as *mut i64, a[3]);
    let mut room = vec![0u8; PIECE.min(count)];
    let mut done = 0;
    while done < count {
        let n = room.len().min(count - done);
        let at = room.as_mut_ptr() as usize;
        // SAFETY: room for so many bytes; the offset is the program's.
        let n = unsafe {
            match offset.as_mut() {
                Some(o) => super::kernel(libc::SYS_pread64, [file, at, n, *o as usize, 0, 0]),
                None => super::kernel(libc::SYS_read, [file, at, n, 0, 0, 0]),
            }
        };
        if n <= 0 {
            return if done > 0 { done as isize } else { n };
        }
        let vec = [iovec { iov_base: room.as_mut_ptr().cast(), iov_len: n as usize }];
        let sent = send(served, fd, &vec, None, 0, how);
        let (moved, ends) = (sent.max(0), sent < n);
        // SAFETY: as above.
        match unsafe { offset.as_mut() } {
            Some(offset) => *offset += moved as i64,
            // What was read and not sent goes back.
            None if ends => {
                let back = (moved - n) as usize;
                // SAFETY: no memory.
                unsafe {
                    super::kernel(libc::SYS_lseek, [file, back, libc::SEEK_CUR as usize, 0, 0, 0])
                };
            }
            None => {}
        }
        done += moved as usize;
        if ends {
            return if done > 0 { done as isize } else { sent };
        }
    }
    done as isize
}

const _: () = assert!(size_of::<IoSlice<'static>>() == size_of::<iovec>());
