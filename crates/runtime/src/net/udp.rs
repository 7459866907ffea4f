//! UDP.

use super::forward::{common, timeouts};
use super::socket::StdSocket;
use super::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, addrs};
use crate::reactor::Direction;
use std::io;
use std::net;

/// A UDP socket, with the interface of [`std::net::UdpSocket`].
///
/// Receiving parks the user thread until a datagram comes; sending, until the socket has room for
/// it. A datagram that is longer than the buffer is cut off.
///
/// # Examples
///
/// ```
/// use quaver::net::UdpSocket;
///
/// # fn main() -> std::io::Result<()> {
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let server = UdpSocket::bind("127.0.0.1:0")?;
/// let address = server.local_addr()?;
/// let answers = quaver::spawn(move || -> std::io::Result<()> {
///     let mut datagram = [0; 1500];
///     let (n, client) = server.recv_from(&mut datagram)?;
///     datagram[..n].make_ascii_uppercase();
///     server.send_to(&datagram[..n], client)?;
///     Ok(())
/// });
///
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// client.connect(address)?;
/// client.send(b"hello")?;
/// let mut answer = [0; 5];
/// client.recv(&mut answer)?;
/// assert_eq!(&answer, b"HELLO");
/// answers.join().unwrap()
/// # })
/// # }
/// ```
pub struct UdpSocket {
    socket: StdSocket<net::UdpSocket>,
}

common!(UdpSocket, net::UdpSocket);
timeouts!(UdpSocket, net::UdpSocket);

impl UdpSocket {
    /// A socket at the first of the addresses that can be had. Port 0 asks for a free port.
    ///
    /// An address given as text may be looked up by name: see [waiting](crate::net#waiting).
    ///
    /// # Errors
    ///
    /// For the last of the addresses; or when there are none.
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        let socket = addrs::first(addr, net::UdpSocket::bind)?;
        Ok(UdpSocket { socket: StdSocket::new(socket)? })
    }

    /// Makes one peer the only one: [`send`](Self::send) goes there, and datagrams of others are
    /// not received. Takes the first of the addresses that can be had; sends nothing.
    ///
    /// # Errors
    ///
    /// For the last of the addresses; or when there are none.
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        addrs::first(addr, |address| self.socket.with(|socket| socket.connect(address)))
    }

    /// Receives a datagram: how many bytes it put into `buf`, and who sent it. Parks the user
    /// thread until there is one, or the read timeout.
    ///
    /// # Errors
    ///
    /// As `recvfrom(2)`; `WouldBlock` after the timeout.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.receive(|socket| socket.recv_from(buf), from_nobody)
    }

    /// As [`recv_from`](Self::recv_from); the next call returns the same datagram again.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](Self::recv_from).
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.receive(|socket| socket.peek_from(buf), from_nobody)
    }

    /// Sends a datagram to the first of the addresses. Parks the user thread until the socket has
    /// room for it, or the write timeout.
    ///
    /// # Errors
    ///
    /// As `sendto(2)`; `WouldBlock` after the timeout; `InvalidInput` when there is no address.
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let Some(to) = addrs::resolve(addr)?.next() else {
            let text = "no addresses to send data to";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        self.socket.io(Direction::Write, |socket| socket.send_to(buf, to))
    }

    /// Receives a datagram from the peer of [`connect`](Self::connect), or from anybody if there
    /// is none. Parks the user thread until there is one, or the read timeout.
    ///
    /// # Errors
    ///
    /// As `recv(2)`, for example `ConnectionRefused` after a datagram that nobody wanted;
    /// `WouldBlock` after the timeout.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(|socket| socket.recv(buf), || Ok(0))
    }

    /// As [`recv`](Self::recv); the next call returns the same datagram again.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(|socket| socket.peek(buf), || Ok(0))
    }

    /// Sends a datagram to the peer of [`connect`](Self::connect). Parks the user thread until the
    /// socket has room for it, or the write timeout.
    ///
    /// # Errors
    ///
    /// As `send(2)`; `WouldBlock` after the timeout.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.io(Direction::Write, |socket| socket.send(buf))
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// `NotConnected`; as `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::UdpSocket::peer_addr)
    }

    /// Its address, also the port if it was bound to port 0.
    ///
    /// # Errors
    ///
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.with(net::UdpSocket::local_addr)
    }

    /// Joins a multicast group on the interface with this address; unspecified: on any.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.socket.with(|socket| socket.join_multicast_v4(group, interface))
    }

    /// Joins a multicast group on the interface with this index; 0: on any.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.socket.with(|socket| socket.join_multicast_v6(group, interface))
    }

    /// Leaves a multicast group: see [`join_multicast_v4`](Self::join_multicast_v4).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.socket.with(|socket| socket.leave_multicast_v4(group, interface))
    }

    /// Leaves a multicast group: see [`join_multicast_v6`](Self::join_multicast_v6).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.socket.with(|socket| socket.leave_multicast_v6(group, interface))
    }
}

/// What `std` makes of the kernel's answer after the socket was shut down: it names no sender.
fn from_nobody<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, "invalid argument"))
}

/// Options that are passed on: a setter and a getter each.
macro_rules! options {
    ($($(#[$doc:meta])+ $set:ident, $get:ident: $value:ty;)+) => {
        impl UdpSocket {
            $(
                $(#[$doc])+
                ///
                /// # Errors
                ///
                /// When the kernel refuses.
                pub fn $set(&self, value: $value) -> io::Result<()> {
                    self.socket.with(|socket| socket.$set(value))
                }

                /// The option that the method before this one sets.
                ///
                /// # Errors
                ///
                /// When the option cannot be read.
                pub fn $get(&self) -> io::Result<$value> {
                    self.socket.with(net::UdpSocket::$get)
                }
            )+
        }
    };
}

options! {
    /// Allows sending to broadcast addresses (`SO_BROADCAST`).
    set_broadcast, broadcast: bool;
    /// Should multicasts come back to this host (`IP_MULTICAST_LOOP`)?
    set_multicast_loop_v4, multicast_loop_v4: bool;
    /// Sets how many hops multicasts may take (`IP_MULTICAST_TTL`).
    set_multicast_ttl_v4, multicast_ttl_v4: u32;
    /// Should multicasts come back to this host (`IPV6_MULTICAST_LOOP`)?
    set_multicast_loop_v6, multicast_loop_v6: bool;
    /// Sets how many hops packets may take (`IP_TTL`).
    set_ttl, ttl: u32;
}
