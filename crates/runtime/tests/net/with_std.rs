//! The standard library's types, which say what is right.

#[path = "conform/mod.rs"]
pub mod conform;

pub use std::net::{TcpListener, TcpStream, UdpSocket};
pub use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
