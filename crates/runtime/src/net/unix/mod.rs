//! Unix sockets, with the interfaces of [`std::os::unix::net`].
//!
//! Addresses are paths, or abstract names ([`SocketAddrExt::from_abstract_name`]). See
//! [`net`](crate::net) for how calls wait.

mod datagram;
mod listener;
mod stream;

pub use datagram::UnixDatagram;
pub use listener::{Incoming, UnixListener};
pub use stream::UnixStream;

pub use std::os::linux::net::SocketAddrExt;
pub use std::os::unix::net::SocketAddr;
