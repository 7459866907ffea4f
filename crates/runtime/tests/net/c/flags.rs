//! `FIONREAD`, and the flags of `recv` and `send`.

use super::{connected, datagrams, done, receive, send, until};
use crate::on::{On, a_moment};
use socket2::SockRef;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// How many bytes there are.
fn pending(fd: RawFd) -> Result<i32, i32> {
    let mut n = -1i32;
    // SAFETY: the number lives across the call.
    done(unsafe { libc::ioctl(fd, libc::FIONREAD, &mut n) }).map(|_| n)
}

pub fn bytes_that_can_be_read(_: On) {
    let listener = TcpListener::bind((crate::HOST, 0)).unwrap();
    assert_eq!(pending(listener.as_raw_fd()), Err(libc::EINVAL));
    let (one, mut other) = connected();
    let fd = one.as_raw_fd();
    assert_eq!(pending(fd), Ok(0));
    other.write_all(b"abc").unwrap();
    until(fd, libc::POLLIN);
    assert_eq!(pending(fd), Ok(3));
    other.shutdown(Shutdown::Write).unwrap();
    until(fd, libc::POLLRDHUP);
    // The end counts for nothing.
    assert_eq!(pending(fd), Ok(3));
    assert_eq!(receive(fd, 2, 0).unwrap(), b"ab");
    assert_eq!(pending(fd), Ok(1));
    assert_eq!(receive(fd, 2, 0).unwrap(), b"c");
    assert_eq!(pending(fd), Ok(0));
    assert_eq!(receive(fd, 2, 0), Ok(vec![]));
    assert_eq!(pending(fd), Ok(0));
    drop(other);
    a_moment();
    assert_eq!(pending(fd), Ok(0));

    let (one, other) = datagrams();
    let fd = one.as_raw_fd();
    assert_eq!(pending(fd), Ok(0));
    other.send(b"").unwrap();
    other.send(b"four").unwrap();
    // The next one's.
    assert_eq!(pending(fd), Ok(0));
    assert_eq!(receive(fd, 9, 0), Ok(vec![]));
    until(fd, libc::POLLIN);
    assert_eq!(pending(fd), Ok(4));
    assert_eq!(receive(fd, 1, libc::MSG_PEEK).unwrap(), b"f");
    assert_eq!(pending(fd), Ok(4));
    assert_eq!(receive(fd, 1, 0).unwrap(), b"f");
    assert_eq!(pending(fd), Ok(0));
}

pub fn peeking_and_cutting(_: On) {
    let (one, mut other) = connected();
    let fd = one.as_raw_fd();
    other.write_all(b"abcdef").unwrap();
    until(fd, libc::POLLIN);
    assert_eq!(receive(fd, 3, libc::MSG_PEEK).unwrap(), b"abc");
    // Without a place to put it.
    let none = core::ptr::null_mut();
    for (flags, n) in [(libc::MSG_TRUNC | libc::MSG_PEEK, 6), (libc::MSG_TRUNC, 2)] {
        let most = if n == 6 { 100 } else { 2 };
        // SAFETY: nothing is written.
        assert_eq!(done(unsafe { libc::recv(fd, none, most, flags) }), Ok(n));
    }
    assert_eq!(receive(fd, 100, libc::MSG_DONTWAIT).unwrap(), b"cdef");
    assert_eq!(receive(fd, 100, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    // Nothing is asked for: `read` has done that at once, `recv` waits for something.
    assert_eq!(receive(fd, 0, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    // SAFETY: nothing is written.
    assert_eq!(done(unsafe { libc::read(fd, none, 0) }), Ok(0));
    other.write_all(b"x").unwrap();
    assert_eq!(receive(fd, 0, 0), Ok(vec![]));
    assert_eq!(receive(fd, 9, 0).unwrap(), b"x");

    let (one, other) = datagrams();
    let fd = one.as_raw_fd();
    other.send(b"abcdef").unwrap();
    let mut room = [0u8; 2];
    let at = room.as_mut_ptr().cast();
    for flags in [libc::MSG_TRUNC | libc::MSG_PEEK, libc::MSG_TRUNC] {
        // SAFETY: room for two bytes.
        assert_eq!(done(unsafe { libc::recv(fd, at, 2, flags) }), Ok(6));
    }
    assert_eq!(&room, b"ab");
    assert_eq!(receive(fd, 2, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
}

pub fn all_or_the_end(on: On) {
    let (one, mut other) = connected();
    let fd = one.as_raw_fd();
    let waiter = on.spawn(move || receive(fd, 6, libc::MSG_WAITALL));
    for piece in [b"ab", b"cd", b"ef"] {
        other.write_all(piece).unwrap();
        a_moment();
    }
    assert_eq!(waiter.join().unwrap(), b"abcdef");
    // What there is when the time is over.
    other.write_all(b"gh").unwrap();
    until(fd, libc::POLLIN);
    one.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(receive(fd, 6, libc::MSG_WAITALL).unwrap(), b"gh");
    assert_eq!(receive(fd, 6, libc::MSG_WAITALL), Err(libc::EAGAIN));
    one.set_read_timeout(None).unwrap();
    other.write_all(b"ij").unwrap();
    until(fd, libc::POLLIN);
    let both = libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    assert_eq!(receive(fd, 6, both).unwrap(), b"ij");
    let waiter = on.spawn(move || receive(fd, 6, libc::MSG_WAITALL));
    other.write_all(b"kl").unwrap();
    a_moment();
    drop(other);
    assert_eq!(waiter.join().unwrap(), b"kl");
    assert_eq!(receive(fd, 6, libc::MSG_WAITALL), Ok(vec![]));
}

/// They are for the next call.
pub fn errors_behind_a_part(on: On) {
    let (one, mut other) = connected();
    let fd = one.as_raw_fd();
    let waiter = on.spawn(move || receive(fd, 6, libc::MSG_WAITALL));
    other.write_all(b"ab").unwrap();
    a_moment();
    SockRef::from(&other).set_linger(Some(Duration::ZERO)).unwrap();
    drop(other);
    let (first, then) = (waiter.join(), receive(fd, 6, 0));
    // Data that nobody has read yet goes with the reset.
    let lost = (Err(libc::ECONNRESET), Ok(vec![]));
    let kept = (Ok(b"ab".to_vec()), Err(libc::ECONNRESET));
    assert!([lost, kept].contains(&(first, then)));
    assert_eq!(receive(fd, 6, 0), Ok(vec![]));

    let (one, other) = connected();
    let fd = one.as_raw_fd();
    let waiter = on.spawn(move || send(fd, &vec![1; 32 << 20], libc::MSG_NOSIGNAL));
    a_moment();
    a_moment();
    SockRef::from(&other).set_linger(Some(Duration::ZERO)).unwrap();
    drop(other);
    // Unless it came so late that nothing was sent.
    if waiter.join().is_ok_and(|n| 0 < n && n < 32 << 20) {
        assert_eq!(send(fd, b"x", libc::MSG_NOSIGNAL), Err(libc::ECONNRESET));
    }
    assert_eq!(send(fd, b"x", libc::MSG_NOSIGNAL), Err(libc::EPIPE));
}

/// With flags that change nothing here.
pub fn nobody_reads(_: On) {
    let (one, other) = connected();
    let fd = one.as_raw_fd();
    assert_eq!(send(fd, b"ab", libc::MSG_MORE), Ok(2));
    assert_eq!(send(fd, b"cd", libc::MSG_DONTROUTE | libc::MSG_EOR), Ok(2));
    assert_eq!(send(fd, b"", 0), Ok(0));
    let flags = libc::MSG_WAITALL | libc::MSG_CMSG_CLOEXEC;
    assert_eq!(receive(other.as_raw_fd(), 4, flags).unwrap(), b"abcd");
    one.shutdown(Shutdown::Write).unwrap();
    assert_eq!(send(fd, b"x", libc::MSG_NOSIGNAL), Err(libc::EPIPE));
    assert_eq!(send(fd, b"x", libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT), Err(libc::EPIPE));
    assert_eq!(receive(other.as_raw_fd(), 4, 0), Ok(vec![]));
}

pub fn what_is_not_there(_: On) {
    let (one, other) = connected();
    let fd = one.as_raw_fd();
    assert_eq!(receive(fd, 4, libc::MSG_OOB), Err(libc::EINVAL));
    assert_eq!(receive(fd, 4, libc::MSG_ERRQUEUE), Err(libc::EAGAIN));
    drop(other);
    let listener = TcpListener::bind((crate::HOST, 0)).unwrap();
    let fd = listener.as_raw_fd();
    assert_eq!(receive(fd, 4, 0), Err(libc::ENOTCONN));
    assert_eq!(receive(fd, 4, libc::MSG_WAITALL), Err(libc::ENOTCONN));
    assert_eq!(send(fd, b"x", libc::MSG_NOSIGNAL), Err(libc::EPIPE));
    let (one, _other) = datagrams();
    let fd = one.as_raw_fd();
    assert_eq!(receive(fd, 4, libc::MSG_DONTWAIT | libc::MSG_WAITALL), Err(libc::EAGAIN));
    assert_eq!(send(fd, b"x", 0), Err(libc::EDESTADDRREQ));
    assert_eq!(send(fd, b"x", libc::MSG_OOB), Err(libc::EOPNOTSUPP));
    assert!(TcpStream::connect((crate::HOST, 1)).is_err());
}
