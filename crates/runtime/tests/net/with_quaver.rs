//! The types to be tested.

#[path = "conform/mod.rs"]
pub mod conform;

pub use quaver::net::unix::{UnixDatagram, UnixListener, UnixStream};
pub use quaver::net::{TcpListener, TcpStream, UdpSocket};
