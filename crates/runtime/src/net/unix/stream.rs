//! Connections.

use super::SocketAddr;
use crate::net::forward::{common, stream_io, timeouts};
use crate::net::socket::StdSocket;
use crate::net::{Shutdown, connect};
use std::io;
use std::os::unix::net;
use std::path::Path;

/// A connection over a Unix socket, with the interface of [`std::os::unix::net::UnixStream`].
///
/// Reads and writes park the user thread. One thread may read while another writes, by
/// `&UnixStream` or by [clones](Self::try_clone).
///
/// ```
/// use quaver::net::unix::UnixStream;
/// use std::io::{Read, Write};
///
/// # fn main() -> std::io::Result<()> {
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let (mut left, mut right) = UnixStream::pair()?;
/// let reader = quaver::spawn(move || {
///     let mut text = String::new();
///     right.read_to_string(&mut text).map(|_| text)
/// });
/// left.write_all(b"hello")?;
/// drop(left);
/// assert_eq!(reader.join().unwrap()?, "hello");
/// # Ok(())
/// # })
/// # }
/// ```
pub struct UnixStream {
    pub(super) socket: StdSocket<net::UnixStream>,
}

common!(UnixStream, net::UnixStream);
timeouts!(UnixStream, net::UnixStream);
stream_io!(UnixStream, net::UnixStream);

impl UnixStream {
    /// Connects to the listener at `path`. As [`connect_addr`](Self::connect_addr).
    ///
    /// # Errors
    ///
    /// As `connect(2)`; `InvalidInput` for a path that is too long or contains a null byte.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to a listener. While the listener's queue is full the thread waits in the kernel,
    /// and gives its worker away.
    ///
    /// # Errors
    ///
    /// As `connect(2)`.
    pub fn connect_addr(socket_addr: &SocketAddr) -> io::Result<UnixStream> {
        Ok(UnixStream { socket: connect::unix(socket_addr)? })
    }

    /// Two sockets without names that are connected to each other.
    ///
    /// # Errors
    ///
    /// When the process has no descriptor left.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (a, b) = net::UnixStream::pair()?;
        Ok((UnixStream { socket: StdSocket::new(a)? }, UnixStream { socket: StdSocket::new(b)? }))
    }

    /// Ends one direction or both, for all clones. Threads that wait for it go on: readers with
    /// the end of the data, writers with an error.
    ///
    /// # Errors
    ///
    /// `NotConnected`, when it is not connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.with(|socket| socket.shutdown(how))
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::UnixStream::local_addr)
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// As `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::UnixStream::peer_addr)
    }
}
