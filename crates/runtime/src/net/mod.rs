//! Sockets whose waiting parks the user thread.
//!
//! | here | as |
//! |---|---|
//! | [`TcpListener`], [`TcpStream`], [`UdpSocket`] | [`std::net`] |
//! | [`unix::UnixListener`], [`unix::UnixStream`], [`unix::UnixDatagram`] | [`std::os::unix::net`] |
//! | [`Pollable`] | any other file that can be waited for: pipes, timers, events, terminals |
//!
//! Names, signatures, results and errors are those of `std`, with the exceptions below. All types
//! can be used on user threads and on kernel threads, also one socket on both.
//!
//! # Waiting
//!
//! A call that would block parks the user thread: its worker runs others, and no kernel thread is
//! taken. A kernel thread waits in the kernel. A thread that computes is preempted for one whose
//! data has arrived, as for any other work that waits.
//!
//! Three things wait in the kernel after all, and give the worker away as
//! [`block_in_place`](crate::block_in_place) does: looking up the name of a host, an address given
//! as text (it might be such a name), and
//! [`UnixStream::connect`](unix::UnixStream::connect) to a listener whose queue is full.
//!
//! Files on disks cannot be waited for: read and write them in
//! [`block_in_place`](crate::block_in_place).
//!
//! # The file beneath
//!
//! It is in non-blocking mode as long as a socket of this module has it. `set_nonblocking` changes
//! what calls *here* do, not the file. So code that gets the descriptor by [`AsFd`] must expect
//! `EAGAIN`. A socket that is made from a descriptor, or from a socket of `std`, takes over the
//! file's mode and timeouts, and gives them back when it is converted again. If a clone
//! (`try_clone`) still exists then, the file remains non-blocking.
//!
//! # Differences from `std`
//!
//! * Calls that a signal interrupts are repeated. They never fail with
//!   [`Interrupted`](std::io::ErrorKind::Interrupted).
//! * [`TcpListener::bind`] lets more clients queue.
//! * What `std` has marked as unstable or deprecated is missing.
//!
//! [`AsFd`]: std::os::fd::AsFd

mod addrs;
mod connect;
mod forward;
mod pollable;
mod socket;
pub mod stack;
mod tcp;
mod udp;
pub mod unix;

pub use pollable::Pollable;
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
    ToSocketAddrs,
};
