//! What programs ask of their sockets.

use super::{connected, datagrams, done, until};
use crate::on::On;
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

const SOCKET: i32 = libc::SOL_SOCKET;

fn ask(fd: RawFd, level: i32, name: i32) -> Result<i32, i32> {
    let (mut value, mut len) = (-1i32, 4);
    let to = (&raw mut value).cast();
    // SAFETY: both live across the call.
    done(unsafe { libc::getsockopt(fd, level, name, to, &mut len) }).map(|_| {
        assert_eq!(len, 4);
        value
    })
}

/// A socket that is nothing yet.
fn fresh(kind: socket2::Type) -> socket2::Socket {
    socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap()
}

pub fn kinds(_: On) {
    let (stream, _other) = connected();
    let (datagram, _sender) = datagrams();
    let listener = TcpListener::bind((crate::HOST, 0)).unwrap();
    for (fd, kind, protocol) in [
        (stream.as_raw_fd(), libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (listener.as_raw_fd(), libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (datagram.as_raw_fd(), libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    ] {
        assert_eq!(ask(fd, SOCKET, libc::SO_TYPE), Ok(kind));
        assert_eq!(ask(fd, SOCKET, libc::SO_PROTOCOL), Ok(protocol));
        assert_eq!(ask(fd, SOCKET, libc::SO_DOMAIN), Ok(libc::AF_INET));
        assert_eq!(ask(fd, SOCKET, libc::SO_ERROR), Ok(0));
        assert_eq!(ask(fd, SOCKET, 9999), Err(libc::ENOPROTOOPT));
        assert!(ask(fd, 9999, 1).is_err());
        // What is asked for cannot be set.
        let (value, len) = (0i32, 4);
        for name in [libc::SO_TYPE, libc::SO_ERROR, libc::SO_ACCEPTCONN, libc::SO_PROTOCOL] {
            // SAFETY: the value lives across the call.
            let set = unsafe { libc::setsockopt(fd, SOCKET, name, (&raw const value).cast(), len) };
            assert_eq!(done(set), Err(libc::ENOPROTOOPT), "{name}");
        }
    }
    assert!(ask(datagram.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO).is_err());
}

/// Of a connection that is refused, and of a datagram.
pub fn errors_are_taken_once(_: On) {
    let nobody = UdpSocket::bind((crate::HOST, 0)).unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let (one, other) = datagrams();
    one.connect(other.local_addr().unwrap()).unwrap();
    drop(other);
    one.send(b"x").unwrap();
    let fd = one.as_raw_fd();
    until(fd, 0);
    assert_eq!(ask(fd, SOCKET, libc::SO_ERROR), Ok(libc::ECONNREFUSED));
    assert_eq!(ask(fd, SOCKET, libc::SO_ERROR), Ok(0));

    let socket = fresh(socket2::Type::STREAM.nonblocking());
    let began = socket.connect(&address.into()).unwrap_err().raw_os_error();
    assert_eq!(began, Some(libc::EINPROGRESS));
    let fd = socket.as_raw_fd();
    let mut file = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry.
    assert_eq!(done(unsafe { libc::poll(&mut file, 1, -1) }), Ok(1));
    assert_eq!(file.revents, libc::POLLOUT | libc::POLLERR | libc::POLLHUP);
    assert_eq!(ask(fd, SOCKET, libc::SO_ERROR), Ok(libc::ECONNREFUSED));
    assert_eq!(ask(fd, SOCKET, libc::SO_ERROR), Ok(0));
}

pub fn who_listens(_: On) {
    let socket = fresh(socket2::Type::STREAM);
    let accepts = || ask(socket.as_raw_fd(), SOCKET, libc::SO_ACCEPTCONN);
    assert_eq!(accepts(), Ok(0));
    socket.bind(&std::net::SocketAddr::new(crate::HOST.parse().unwrap(), 0).into()).unwrap();
    assert_eq!(accepts(), Ok(0));
    socket.listen(3).unwrap();
    assert_eq!(accepts(), Ok(1));
    // Another backlog.
    socket.listen(0).unwrap();
    assert_eq!(accepts(), Ok(1));
    socket.shutdown(Shutdown::Read).unwrap();
    assert_eq!(accepts(), Ok(0));
    let (stream, _other) = connected();
    assert_eq!(ask(stream.as_raw_fd(), SOCKET, libc::SO_ACCEPTCONN), Ok(0));
    let (datagram, _sender) = datagrams();
    assert_eq!(ask(datagram.as_raw_fd(), SOCKET, libc::SO_ACCEPTCONN), Ok(0));
}

/// The state that `TCP_INFO` tells.
fn state(fd: RawFd) -> u8 {
    let (mut info, mut len) = ([0xffu8; 104], 104);
    let to = info.as_mut_ptr().cast();
    // SAFETY: so much room.
    let asked = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut len) };
    assert_eq!((done(asked), len), (Ok(0), 104));
    info[0]
}

/// As the kernel numbers them.
const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;

pub fn states(_: On) {
    let socket = fresh(socket2::Type::STREAM);
    assert_eq!(state(socket.as_raw_fd()), CLOSE);
    let listener = TcpListener::bind((crate::HOST, 0)).unwrap();
    assert_eq!(state(listener.as_raw_fd()), LISTEN);
    let (one, other) = connected();
    assert_eq!(state(one.as_raw_fd()), ESTABLISHED);
    assert_eq!(state(other.as_raw_fd()), ESTABLISHED);
    other.shutdown(Shutdown::Write).unwrap();
    until(one.as_raw_fd(), libc::POLLRDHUP);
    assert_eq!(state(one.as_raw_fd()), CLOSE_WAIT);
    drop(other);
    assert_eq!(state(one.as_raw_fd()), CLOSE_WAIT);
}

/// There is room for as much as is said.
pub fn values_are_cut(_: On) {
    let listener = TcpListener::bind((crate::HOST, 0)).unwrap();
    let fd = listener.as_raw_fd();
    let asked = |level, name, room: u32| {
        let (mut value, mut len) = ([7u8; 8], room);
        let to = value.as_mut_ptr().cast();
        // SAFETY: so much room, or none that is used.
        let done = done(unsafe { libc::getsockopt(fd, level, name, to, &mut len) });
        (done, value, len)
    };
    for name in [libc::SO_ACCEPTCONN, libc::SO_ERROR, libc::SO_TYPE] {
        let value = if name == libc::SO_ERROR { 0 } else { 1 };
        for (room, cut) in [(0, [7, 7, 7, 7]), (1, [value, 7, 7, 7]), (3, [value, 0, 0, 7])] {
            let (done, got, len) = asked(SOCKET, name, room);
            assert_eq!((done, &got[..4], len), (Ok(0), &cut[..], room));
        }
        let (done, got, len) = asked(SOCKET, name, 8);
        assert_eq!((done, &got[..5], len), (Ok(0), &[value, 0, 0, 0, 7][..], 4));
        assert_eq!(asked(SOCKET, name, u32::MAX).0, Err(libc::EINVAL));
    }
    let (done, got, len) = asked(libc::IPPROTO_TCP, libc::TCP_INFO, 1);
    assert_eq!((done, &got[..2], len), (Ok(0), &[LISTEN, 7][..], 1));
}
