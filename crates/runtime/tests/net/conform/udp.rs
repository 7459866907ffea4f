//! UDP.

use super::{UdpSocket, error, pattern, times_out};
use crate::on::{On, a_moment};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

pub fn datagrams(on: On) {
    let (server, to) = bound();
    let server = on.spawn(move || {
        let mut buffer = [0; 2000];
        loop {
            let (n, from) = server.recv_from(&mut buffer).unwrap();
            if n == 0 {
                return;
            }
            buffer[..n].reverse();
            assert_eq!(server.send_to(&buffer[..n], from).unwrap(), n);
        }
    });
    let (client, _) = bound();
    for round in 1..200 {
        let mut data = pattern(round, round * 7);
        assert_eq!(client.send_to(&data, to).unwrap(), data.len());
        let mut buffer = [0; 2000];
        assert_eq!(client.recv_from(&mut buffer).unwrap(), (data.len(), to));
        data.reverse();
        assert_eq!(&buffer[..data.len()], data);
    }
    // An address as text, and an empty datagram.
    client.send_to(&[], to.to_string()).unwrap();
    server.join();
    assert_eq!(error(client.send_to(b"x", &[][..])), ErrorKind::InvalidInput);
}

pub fn connected(on: On) {
    let (one, to_one) = bound();
    let (other, to_other) = bound();
    let (stranger, _) = bound();
    assert_eq!(error(one.peer_addr()), ErrorKind::NotConnected);
    one.connect(&[to_other][..]).unwrap();
    assert_eq!(one.peer_addr().unwrap(), to_other);
    stranger.send_to(b"not for you", to_one).unwrap();
    let receiver = on.spawn(move || {
        let mut buffer = [0; 100];
        let n = one.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"for you");
        assert_eq!(one.send(b"thanks").unwrap(), 6);
    });
    a_moment();
    other.send_to(b"for you", to_one).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(other.recv_from(&mut buffer).unwrap(), (6, to_one));
    receiver.join();
    assert_eq!(error(other.connect(&[][..])), ErrorKind::InvalidInput);
}

pub fn cut_off_and_peeked(on: On) {
    let (one, to_one) = bound();
    let (other, to_other) = bound();
    let sender = on.spawn(move || {
        a_moment();
        other.send_to(b"first", to_one).unwrap();
        other.send_to(b"second", to_one).unwrap();
        other
    });
    let mut buffer = [0; 100];
    assert_eq!(one.peek_from(&mut buffer).unwrap(), (5, to_other));
    assert_eq!(one.peek(&mut buffer[..2]).unwrap(), 2);
    assert_eq!(one.recv_from(&mut buffer[..3]).unwrap(), (3, to_other));
    assert_eq!(&buffer[..3], b"fir");
    assert_eq!(one.recv(&mut buffer).unwrap(), 6);
    assert_eq!(&buffer[..6], b"second");
    sender.join();
    let too_long = vec![0; 70_000];
    let e = one.send_to(&too_long, to_other).unwrap_err();
    assert_eq!(e.raw_os_error(), Some(libc::EMSGSIZE));
}

/// The answer of the kernel comes to the connected sender.
pub fn nobody_listens(on: On) {
    let (one, _) = bound();
    // It keeps the port, and listens to somebody else only.
    let (deaf, to_deaf) = bound();
    deaf.connect(deaf.local_addr().unwrap()).unwrap();
    one.connect(to_deaf).unwrap();
    let sender = one.try_clone().unwrap();
    let receiver = on.spawn(move || error(one.recv(&mut [0; 10])));
    a_moment();
    sender.send(b"anybody?").unwrap();
    assert_eq!(receiver.join(), ErrorKind::ConnectionRefused);
}

pub fn times(on: On) {
    let (one, to_one) = bound();
    let short = Duration::from_millis(25);
    one.set_read_timeout(Some(short)).unwrap();
    one.set_write_timeout(Some(short)).unwrap();
    assert_eq!(one.read_timeout().unwrap(), one.write_timeout().unwrap());
    times_out(short, || one.recv(&mut [0; 10]));
    times_out(short, || one.peek_from(&mut [0; 10]));
    assert_eq!(error(one.set_read_timeout(Some(Duration::ZERO))), ErrorKind::InvalidInput);
    one.set_read_timeout(None).unwrap();
    one.set_nonblocking(true).unwrap();
    assert_eq!(error(one.recv_from(&mut [0; 10])), ErrorKind::WouldBlock);
    one.set_nonblocking(false).unwrap();
    let sender = on.spawn(move || {
        a_moment();
        bound().0.send_to(b"now", to_one).unwrap();
    });
    assert_eq!(one.recv(&mut [0; 10]).unwrap(), 3);
    sender.join();
}

/// Several threads wait for one socket, some of them with a clone.
pub fn each_is_received_once(on: On) {
    const THREADS: usize = 4;
    const DATAGRAMS: u8 = 64;
    let (one, to_one) = bound();
    let receivers: Vec<_> = (0..THREADS)
        .map(|_| {
            let one = one.try_clone().unwrap();
            on.spawn(move || {
                let mut seen = Vec::new();
                let mut buffer = [0];
                while one.recv(&mut buffer).unwrap() == 1 {
                    seen.push(buffer[0]);
                    quaver::yield_now();
                }
                seen
            })
        })
        .collect();
    let (other, _) = bound();
    for i in 0..DATAGRAMS {
        other.send_to(&[i], to_one).unwrap();
    }
    for _ in 0..THREADS {
        other.send_to(&[], to_one).unwrap();
    }
    let mut seen: Vec<_> = receivers.into_iter().flat_map(|t| t.join()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..DATAGRAMS).collect::<Vec<_>>());
}

pub fn options(_: On) {
    let (one, address) = bound();
    for value in [true, false] {
        one.set_broadcast(value).unwrap();
        assert_eq!(one.broadcast().unwrap(), value);
        one.set_multicast_loop_v4(value).unwrap();
        assert_eq!(one.multicast_loop_v4().unwrap(), value);
    }
    one.set_multicast_ttl_v4(7).unwrap();
    assert_eq!(one.multicast_ttl_v4().unwrap(), 7);
    one.set_ttl(8).unwrap();
    assert_eq!(one.ttl().unwrap(), 8);
    assert!(one.take_error().unwrap().is_none());
    assert!(format!("{one:?}").starts_with("UdpSocket { addr: "));
    assert_eq!(error(UdpSocket::bind(address)), ErrorKind::AddrInUse);
}
