//! Listeners.

use super::{SocketAddr, UnixStream};
use crate::net::forward::common;
use crate::net::socket::StdSocket;
use std::io;
use std::iter::FusedIterator;
use std::os::unix::net;
use std::path::Path;

/// A Unix socket that accepts connections, with the interface of
/// [`std::os::unix::net::UnixListener`].
///
/// [`accept`](Self::accept) parks the user thread until a connection comes. Several threads may
/// accept from one listener. The file at its path remains when the listener is dropped.
pub struct UnixListener {
    socket: StdSocket<net::UnixListener>,
}

common!(UnixListener, net::UnixListener);

impl UnixListener {
    /// A listener at `path`, where a file is made.
    ///
    /// # Errors
    ///
    /// As `bind(2)`, `AddrInUse` when the file exists; `InvalidInput` for a path that is too long
    /// or contains a null byte.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        Ok(UnixListener { socket: StdSocket::new(net::UnixListener::bind(path)?)? })
    }

    /// A listener at an address, which may be abstract.
    ///
    /// # Errors
    ///
    /// As `bind(2)`, `AddrInUse` when somebody has the address.
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener> {
        Ok(UnixListener { socket: StdSocket::new(net::UnixListener::bind_addr(socket_addr)?)? })
    }

    /// The next connection and its other end. Parks the user thread until there is one.
    ///
    /// # Errors
    ///
    /// As `accept(2)`, for example when the process has no descriptor left.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let shut_down = || Err(io::Error::from_raw_os_error(libc::EINVAL));
        let (stream, peer) = self.socket.receive(net::UnixListener::accept, shut_down)?;
        Ok((UnixStream { socket: self.socket.accepted(stream)? }, peer))
    }

    /// The connections as they come, without end; see [`accept`](Self::accept).
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Its address.
    ///
    /// # Errors
    ///
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::UnixListener::local_addr)
    }
}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}

/// Connections of a [`UnixListener`]: see [`UnixListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedIterator for Incoming<'_> {}
