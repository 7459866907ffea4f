//! Connecting streams: `std` can do it only by waiting in the kernel.

use super::socket::{StdSocket, uninterrupted};
use crate::block_in_place;
use crate::reactor::Direction;
use socket2::{Domain, SockAddr, Type};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::{Duration, Instant};

/// A TCP connection to `address`, for which it waits no longer than `timeout`.
pub(super) fn tcp(
    address: SocketAddr,
    timeout: Option<Duration>,
) -> io::Result<StdSocket<TcpStream>> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let new = socket2::Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    let under_way = match new.connect(&address.into()) {
        Ok(()) => false,
        // An interrupted call goes on all the same.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => true,
        Err(e) => return Err(e),
    };
    let socket = StdSocket::from_nonblocking(new.into());
    if !under_way {
        return Ok(socket);
    }
    if timeout == Some(Duration::ZERO) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
    }
    socket.ready(Direction::Write, deadline).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, "connection timed out"),
        _ => e,
    })?;
    match socket.with(TcpStream::take_error)? {
        Some(e) => Err(e),
        None => Ok(socket),
    }
}

/// A connection to the listener at `address`.
pub(super) fn unix(address: &UnixAddr) -> io::Result<StdSocket<UnixStream>> {
    let new = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    let address = to_sock_addr(address)?;
    match uninterrupted(|| new.connect(&address)) {
        // Its queue is full, and nothing tells when it no longer is: only the kernel can wait.
        Err(e) if e.kind() == ErrorKind::WouldBlock => {
            new.set_nonblocking(false)?;
            block_in_place(|| uninterrupted(|| new.connect(&address)))?;
            new.set_nonblocking(true)?;
        }
        result => result?,
    }
    Ok(StdSocket::from_nonblocking(new.into()))
}

fn to_sock_addr(address: &UnixAddr) -> io::Result<SockAddr> {
    if let Some(path) = address.as_pathname() {
        return SockAddr::unix(path);
    }
    match address.as_abstract_name() {
        Some(name) => SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat())),
        None => SockAddr::unix(""),
    }
}
