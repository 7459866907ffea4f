//! Sockets whose waiting parks the user thread.
//!
//! The names and semantics are those of [`std::net`] and [`std::os::unix::net`]. On an ordinary
//! kernel thread these types work as well: it waits in the kernel.

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
    ToSocketAddrs,
};
