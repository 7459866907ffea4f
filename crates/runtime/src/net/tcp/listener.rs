//! Listeners.

use super::TcpStream;
use crate::net::addrs;
use crate::net::forward::common;
use crate::net::socket::StdSocket;
use crate::net::{SocketAddr, ToSocketAddrs};
use crate::reactor::Direction;
use socket2::SockRef;
use std::io;
use std::iter::FusedIterator;
use std::net;

/// A socket that accepts TCP connections, with the interface of [`std::net::TcpListener`].
///
/// [`accept`](Self::accept) parks the user thread until a connection comes. Several threads may
/// accept from one listener.
///
/// # Examples
///
/// An echo server with a user thread for each connection. One worker serves all, and a connection
/// that is silent occupies none.
///
/// ```
/// use quaver::net::{Shutdown, TcpListener, TcpStream};
/// use std::io::{self, Read, Write};
///
/// fn echo(mut stream: TcpStream) -> io::Result<()> {
///     let mut buffer = [0; 1024];
///     loop {
///         let n = stream.read(&mut buffer)?;
///         if n == 0 {
///             return Ok(());
///         }
///         stream.write_all(&buffer[..n])?;
///     }
/// }
///
/// # fn main() -> io::Result<()> {
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let server = quaver::spawn(move || -> io::Result<()> {
///     let connections: Vec<_> = listener
///         .incoming()
///         .take(2)
///         .map(|stream| stream.map(|stream| quaver::spawn(move || echo(stream))))
///         .collect::<io::Result<_>>()?;
///     connections.into_iter().try_for_each(|thread| thread.join().unwrap())
/// });
///
/// let silent = TcpStream::connect(address)?;
/// let mut client = TcpStream::connect(address)?;
/// client.write_all(b"hello")?;
/// client.shutdown(Shutdown::Write)?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert_eq!(answer, "hello");
///
/// drop(silent);
/// server.join().unwrap()
/// # })
/// # }
/// ```
pub struct TcpListener {
    socket: StdSocket<net::TcpListener>,
}

common!(TcpListener, net::TcpListener);

impl TcpListener {
    /// A listener at the first of the addresses that can be had. Port 0 asks for a free port.
    ///
    /// The queue of connections that nobody has accepted yet is as long as the system allows
    /// (`net.core.somaxconn`), not 128 as in `std`: threads that share a worker come in bursts, and
    /// a client that finds no room tries again after a second. An address given as text may be
    /// looked up by name: see [waiting](crate::net#waiting).
    ///
    /// # Errors
    ///
    /// For the last of the addresses; or when there are none.
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        let listener = addrs::first(addr, net::TcpListener::bind)?;
        SockRef::from(&listener).listen(-1)?;
        Ok(TcpListener { socket: StdSocket::new(listener)? })
    }

    /// The next connection and its other end. Parks the user thread until there is one.
    ///
    /// # Errors
    ///
    /// As `accept(2)`, for example when the process has no descriptor left. A connection that was
    /// lost again can be an error, too: servers go on.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.socket.io(Direction::Read, net::TcpListener::accept)?;
        Ok((TcpStream { socket: self.socket.accepted(stream)? }, peer))
    }

    /// The connections as they come, without end; see [`accept`](Self::accept).
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Its address, also the port if it was bound to port 0.
    ///
    /// # Errors
    ///
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::TcpListener::local_addr)
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
        self.socket.with(net::TcpListener::ttl)
    }
}

/// Connections of a [`TcpListener`]: see [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}
