//! Datagrams.

use super::SocketAddr;
use crate::net::Shutdown;
use crate::net::forward::{common, timeouts};
use crate::net::socket::{StdSocket, ready, would_block};
use crate::reactor::{Direction, FileSource};
use std::io;
use std::os::unix::net;
use std::path::Path;

/// A Unix socket for datagrams, with the interface of [`std::os::unix::net::UnixDatagram`].
///
/// Receiving parks the user thread until a datagram comes; sending, until the receiver has room for
/// it: none is lost. A datagram that is longer than the buffer is cut off.
pub struct UnixDatagram {
    socket: StdSocket<net::UnixDatagram>,
}

common!(UnixDatagram, net::UnixDatagram);
timeouts!(UnixDatagram, net::UnixDatagram);

impl UnixDatagram {
    /// A socket at `path`, where a file is made.
    ///
    /// # Errors
    ///
    /// As `bind(2)`, `AddrInUse` when the file exists; `InvalidInput` for a path that is too long
    /// or contains a null byte.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        Ok(UnixDatagram { socket: StdSocket::new(net::UnixDatagram::bind(path)?)? })
    }

    /// A socket at an address, which may be abstract.
    ///
    /// # Errors
    ///
    /// As `bind(2)`, `AddrInUse` when somebody has the address.
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixDatagram> {
        Ok(UnixDatagram { socket: StdSocket::new(net::UnixDatagram::bind_addr(socket_addr)?)? })
    }

    /// A socket without an address.
    ///
    /// # Errors
    ///
    /// When the process has no descriptor left.
    pub fn unbound() -> io::Result<UnixDatagram> {
        Ok(UnixDatagram { socket: StdSocket::new(net::UnixDatagram::unbound()?)? })
    }

    /// Two sockets without addresses that are connected to each other.
    ///
    /// # Errors
    ///
    /// When the process has no descriptor left.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (a, b) = net::UnixDatagram::pair()?;
        Ok((
            UnixDatagram { socket: StdSocket::new(a)? },
            UnixDatagram { socket: StdSocket::new(b)? },
        ))
    }

    /// Makes the socket at `path` its peer: [`send`](Self::send) goes there, and datagrams of
    /// others are not received.
    ///
    /// # Errors
    ///
    /// As `connect(2)`; `InvalidInput` for a path that is too long or contains a null byte.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.socket.with(|socket| socket.connect(path))
    }

    /// As [`connect`](Self::connect), with an address.
    ///
    /// # Errors
    ///
    /// As `connect(2)`.
    pub fn connect_addr(&self, socket_addr: &SocketAddr) -> io::Result<()> {
        self.socket.with(|socket| socket.connect_addr(socket_addr))
    }

    /// Receives a datagram: how many bytes it put into `buf`, and who sent it. Parks the user
    /// thread until there is one, or the read timeout.
    ///
    /// # Errors
    ///
    /// As `recvfrom(2)`; `WouldBlock` after the timeout.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket
            .receive(|socket| socket.recv_from(buf), || Ok((0, SocketAddr::from_pathname("")?)))
    }

    /// Receives a datagram. Parks the user thread until there is one, or the read timeout.
    ///
    /// # Errors
    ///
    /// As `recv(2)`; `WouldBlock` after the timeout.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(|socket| socket.recv(buf), || Ok(0))
    }

    /// Sends a datagram to the peer of [`connect`](Self::connect). Parks the user thread until
    /// the peer has room for it, or the write timeout.
    ///
    /// # Errors
    ///
    /// As `send(2)`; `WouldBlock` after the timeout.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.io(Direction::Write, |socket| socket.send(buf))
    }

    /// Sends a datagram to the socket at `path`. As [`send_to_addr`](Self::send_to_addr).
    ///
    /// # Errors
    ///
    /// As [`send_to_addr`](Self::send_to_addr); `InvalidInput` for a path that is too long or
    /// contains a null byte.
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a datagram. Parks the user thread until the receiver has room for it, or the write
    /// timeout.
    ///
    /// # Errors
    ///
    /// As `sendto(2)`; `WouldBlock` after the timeout.
    pub fn send_to_addr(&self, buf: &[u8], socket_addr: &SocketAddr) -> io::Result<usize> {
        let send = || self.socket.once(|socket| socket.send_to_addr(buf, socket_addr));
        let deadline = self.socket.deadline(Direction::Write);
        loop {
            match send() {
                Err(e) if would_block(&e) && !self.socket.is_nonblocking() => {}
                result => return result,
            }
            // Either this socket has used up its memory, which it can be asked for ...
            self.socket.ready(Direction::Write, deadline)?;
            match send() {
                Err(e) if would_block(&e) => {}
                result => return result,
            }
            // ... or the receiver has too many datagrams, of which only its peers are told.
            match peer_of(socket_addr) {
                Ok(peer) => ready(&peer, Direction::Write, deadline)?,
                Err(reason) => return send().map_err(|e| if would_block(&e) { reason } else { e }),
            }
        }
    }

    /// Ends one direction or both, for all clones. Threads that receive from it go on, with a
    /// datagram of no bytes.
    ///
    /// # Errors
    ///
    /// `NotConnected`, when it is not connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.with(|socket| socket.shutdown(how))
    }

    /// Its address.
    ///
    /// # Errors
    ///
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::UnixDatagram::local_addr)
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// `NotConnected`; as `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::UnixDatagram::peer_addr)
    }
}

/// A socket with which to wait until there is room at `address`.
fn peer_of(address: &SocketAddr) -> io::Result<FileSource> {
    let socket = net::UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(address)?;
    Ok(FileSource::new(socket.into()))
}
