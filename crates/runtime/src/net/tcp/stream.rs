//! Connections.

use crate::net::forward::{common, stream_io, timeouts};
use crate::net::socket::StdSocket;
use crate::net::{Shutdown, SocketAddr, ToSocketAddrs};
use crate::net::{addrs, connect};
use crate::reactor::Direction;
use std::io;
use std::net;
use std::os::linux::net::TcpStreamExt;
use std::time::Duration;

/// A TCP connection, with the interface of [`std::net::TcpStream`].
///
/// Reads, writes, [`peek`](Self::peek) and [`connect`](Self::connect) park the user thread. One
/// thread may read while another writes, by `&TcpStream` or by [clones](Self::try_clone). When the
/// last clone is dropped, the connection is closed. See
/// [`TcpListener`](crate::net::TcpListener) for an example.
pub struct TcpStream {
    pub(super) socket: StdSocket<net::TcpStream>,
}

common!(TcpStream, net::TcpStream);
timeouts!(TcpStream, net::TcpStream);
stream_io!(TcpStream, net::TcpStream);

impl TcpStream {
    /// Connects to the first of the addresses that answers. Parks the user thread meanwhile.
    ///
    /// An address given as text may be looked up by name: see [waiting](crate::net#waiting).
    ///
    /// # Errors
    ///
    /// For the last of the addresses; or when there are none.
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        addrs::first(addr, |address| Ok(TcpStream { socket: connect::tcp(address, None)? }))
    }

    /// Connects within `timeout`. Parks the user thread meanwhile.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the time is up; `InvalidInput` for a duration of zero; as `connect(2)`.
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        Ok(TcpStream { socket: connect::tcp(*addr, Some(timeout))? })
    }

    /// Receives without taking the data away: the next read returns it again. Parks the user
    /// thread until there is data, the end, or the read timeout.
    ///
    /// # Errors
    ///
    /// As `recv(2)`; `WouldBlock` after the timeout.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.io(Direction::Read, |socket| socket.peek(buf))
    }

    /// Ends one direction or both, for all clones. Threads that wait for it go on: readers with
    /// the end of the data, writers with an error.
    ///
    /// # Errors
    ///
    /// `NotConnected`, when it is not connected (any more).
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.with(|socket| socket.shutdown(how))
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// As `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::TcpStream::peer_addr)
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::TcpStream::local_addr)
    }

    /// Sends small pieces of data at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.with(|socket| socket.set_nodelay(nodelay))
    }

    /// Are small pieces of data sent at once?
    ///
    /// # Errors
    ///
    /// When the option cannot be read.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.with(net::TcpStream::nodelay)
    }

    /// Acknowledges data at once, until the kernel decides otherwise (`TCP_QUICKACK`); as
    /// [`std::os::linux::net::TcpStreamExt`].
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        self.socket.with(|socket| socket.set_quickack(quickack))
    }

    /// Is data acknowledged at once?
    ///
    /// # Errors
    ///
    /// When the option cannot be read.
    pub fn quickack(&self) -> io::Result<bool> {
        self.socket.with(net::TcpStream::quickack)
    }

    /// Sets how many hops packets may take (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.with(|socket| socket.set_ttl(ttl))
    }

    /// How many hops packets may take.
    ///
    /// # Errors
    ///
    /// When the option cannot be read.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.with(net::TcpStream::ttl)
    }
}
