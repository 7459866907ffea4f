//! Making connections.

use super::{TcpListener, TcpStream, error, listen};
use crate::on::On;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// An address that is taken and where nobody listens.
fn closed() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

pub fn refused(_: On) {
    let (_socket, address) = closed();
    assert_eq!(error(TcpStream::connect(address)), ErrorKind::ConnectionRefused);
    let second = Duration::from_secs(1);
    let within = TcpStream::connect_timeout(&address, second);
    assert_eq!(error(within), ErrorKind::ConnectionRefused);
}

pub fn the_first_address_that_answers(on: On) {
    let (_socket, nobody) = closed();
    let (listener, address) = listen();
    let server = on.spawn(move || listener.accept().unwrap().1);
    let stream = TcpStream::connect(&[nobody, nobody, address][..]).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), address);
    assert_eq!(server.join(), stream.local_addr().unwrap());
    assert_eq!(error(TcpStream::connect(&[nobody, nobody][..])), ErrorKind::ConnectionRefused);
    assert_eq!(error(TcpStream::connect(&[][..])), ErrorKind::InvalidInput);
    let bound = TcpListener::bind(&[address, SocketAddr::from(([127, 0, 0, 1], 0))][..]);
    assert!(bound.unwrap().local_addr().unwrap().ip().is_loopback());
}

pub fn by_name(on: On) {
    let listener = TcpListener::bind(("localhost", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = on.spawn(move || listener.accept().unwrap().0.write_all(b"found").unwrap());
    let mut text = String::new();
    let mut stream = TcpStream::connect(format!("localhost:{port}")).unwrap();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "found");
    server.join();
    assert_eq!(error(TcpStream::connect("no port")), ErrorKind::InvalidInput);
}

pub fn within_a_time(on: On) {
    let (listener, address) = listen();
    let server = on.spawn(move || listener.accept().unwrap().1);
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(100)).unwrap();
    assert_eq!(server.join(), stream.local_addr().unwrap());
    let forever = Duration::MAX;
    let (_listener, address) = listen();
    assert!(TcpStream::connect_timeout(&address, forever).is_ok());
}

pub fn no_time_is_an_error(_: On) {
    let (_listener, address) = listen();
    let result = TcpStream::connect_timeout(&address, Duration::ZERO);
    assert_eq!(error(result), ErrorKind::InvalidInput);
}

/// A listener whose queue is full does not answer.
pub fn not_within_the_time(_: On) {
    let (listener, address) = listen();
    SockRef::from(&listener).listen(0).unwrap();
    let mut accepted = Vec::new();
    let e = loop {
        match TcpStream::connect_timeout(&address, Duration::from_millis(50)) {
            Ok(stream) => accepted.push(stream),
            Err(e) => break e,
        }
        assert!(accepted.len() < 100, "the queue is never full");
    };
    assert_eq!((e.kind(), e.to_string()), (ErrorKind::TimedOut, "connection timed out".into()));
}

pub fn version_6(on: On) {
    let listener = match TcpListener::bind("[::1]:0") {
        Ok(listener) => listener,
        Err(e) => return println!("IP version 6 is not to be had here: {e}"),
    };
    let address = listener.local_addr().unwrap();
    let server = on.spawn(move || listener.accept().unwrap().1);
    let stream = TcpStream::connect(address).unwrap();
    assert_eq!(server.join(), stream.local_addr().unwrap());
}
