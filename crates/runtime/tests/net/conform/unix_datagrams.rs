//! Datagrams of Unix sockets. None is lost: senders wait for receivers.

use super::{Folder, UnixDatagram, error, pattern, times_out, uninterrupted};
use crate::on::{On, a_moment};
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

/// More than a receiver's queue holds.
const MANY: usize = 700;

pub fn between_paths(on: On) {
    let folder = Folder::new();
    let (here, there) = (folder.join("here"), folder.join("there"));
    let one = UnixDatagram::bind(&here).unwrap();
    let other = UnixDatagram::bind(&there).unwrap();
    assert_eq!(one.local_addr().unwrap().as_pathname(), Some(here.as_path()));
    let answering = on.spawn(move || {
        let mut buffer = [0; 100];
        let (n, from) = other.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..n], from.as_pathname()), (&b"question"[..], Some(here.as_path())));
        other.send_to_addr(b"answer", &from).unwrap();
        assert_eq!(error(other.send(b"no peer")), ErrorKind::NotConnected);
        other.connect_addr(&from).unwrap();
        assert_eq!(other.peer_addr().unwrap().as_pathname(), from.as_pathname());
        other.send(b"more than fits").unwrap();
    });
    a_moment();
    assert_eq!(one.send_to(b"question", &there).unwrap(), 8);
    let mut buffer = [0; 6];
    assert_eq!(one.recv(&mut buffer).unwrap(), 6);
    assert_eq!(&buffer, b"answer");
    assert_eq!(one.recv(&mut buffer).unwrap(), 6, "the rest is cut off");
    answering.join();
    assert_eq!(error(one.send_to(b"x", &there)), ErrorKind::ConnectionRefused);
    assert_eq!(error(one.send_to(b"x", folder.join("no"))), ErrorKind::NotFound);
    assert_eq!(error(one.send_to(b"x", "null\0byte")), ErrorKind::InvalidInput);
    assert_eq!(error(one.connect(folder.join("no"))), ErrorKind::NotFound);
}

pub fn a_pair(on: On) {
    let (one, other) = UnixDatagram::pair().unwrap();
    let clone = other.try_clone().unwrap();
    let receiver = on.spawn(move || {
        let mut buffer = [0; 10];
        let (n, from) = other.recv_from(&mut buffer).unwrap();
        assert!(from.is_unnamed());
        assert_eq!(&buffer[..n], b"hello");
        assert_eq!(other.recv(&mut buffer).unwrap(), 0, "shut down");
    });
    a_moment();
    one.send(b"hello").unwrap();
    a_moment();
    clone.shutdown(Shutdown::Read).unwrap();
    receiver.join();
    assert_eq!(error(one.send(b"x")), ErrorKind::BrokenPipe);
    assert!(one.take_error().unwrap().is_none());
    assert!(format!("{one:?}").starts_with("UnixDatagram { fd: "), "{one:?}");
}

/// Receives `MANY` of each of `senders` senders, each in its order.
fn receive_all(one: &UnixDatagram, senders: u8) {
    let mut expected = vec![0; senders.into()];
    let mut buffer = [0; 100];
    for _ in 0..MANY * usize::from(senders) {
        let n = one.recv(&mut buffer).unwrap();
        let next = &mut expected[usize::from(buffer[0])];
        assert_eq!(buffer[1..n], pattern(*next, n - 1));
        *next += 1;
    }
}

/// The datagram number `i` of a sender.
fn datagram(sender: u8, i: usize) -> Vec<u8> {
    [&[sender][..], &pattern(i, 1 + i % 50)].concat()
}

/// Senders without a peer wait for whom they send to.
pub fn the_receiver_is_full(on: On) {
    let folder = Folder::new();
    let path = folder.join("socket");
    let name = format!("quaver-{}-{}", module_path!(), std::process::id());
    let names = [path.clone(), "".into()].map(|path| SocketAddr::from_pathname(path).unwrap());
    let name = SocketAddr::from_abstract_name(name).unwrap();
    for address in [&names[0], &name] {
        let one = UnixDatagram::bind_addr(address).unwrap();
        let senders: Vec<_> = (0..3)
            .map(|sender| {
                let address = address.clone();
                on.spawn(move || {
                    let other = UnixDatagram::unbound().unwrap();
                    for i in 0..MANY {
                        let data = datagram(sender, i);
                        assert_eq!(other.send_to_addr(&data, &address).unwrap(), data.len());
                    }
                })
            })
            .collect();
        a_moment();
        receive_all(&one, 3);
        senders.into_iter().for_each(|t| t.join());
    }
}

/// Senders with a peer.
pub fn the_peer_is_full(on: On) {
    let folder = Folder::new();
    let path = folder.join("socket");
    let one = UnixDatagram::bind(&path).unwrap();
    let senders: Vec<_> = (0..3)
        .map(|sender| {
            let path = path.clone();
            on.spawn(move || {
                let other = UnixDatagram::unbound().unwrap();
                other.connect(path).unwrap();
                (0..MANY).for_each(|i| _ = other.send(&datagram(sender, i)).unwrap());
            })
        })
        .collect();
    a_moment();
    receive_all(&one, 3);
    senders.into_iter().for_each(|t| t.join());

    // A pair: here the sender's own memory is what gets full.
    let (one, other) = UnixDatagram::pair().unwrap();
    let sender = on.spawn(move || (0..MANY).for_each(|i| _ = other.send(&datagram(0, i)).unwrap()));
    a_moment();
    receive_all(&one, 1);
    sender.join();
}

pub fn the_receiver_goes_away(on: On) {
    let folder = Folder::new();
    for connect in [false, true] {
        let path = folder.join(format!("socket{connect}"));
        let one = UnixDatagram::bind(&path).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        if connect {
            other.connect(&path).unwrap();
        }
        let sender = on.spawn(move || {
            let send = || if connect { other.send(b"x") } else { other.send_to(b"x", &path) };
            loop {
                if let Err(e) = send() {
                    return e.kind();
                }
            }
        });
        a_moment();
        drop(one);
        assert_eq!(sender.join(), ErrorKind::ConnectionRefused);
    }
}

pub fn full_and_no_time(_: On) {
    let folder = Folder::new();
    let path = folder.join("socket");
    let _one = UnixDatagram::bind(&path).unwrap();
    let other = UnixDatagram::unbound().unwrap();
    other.set_nonblocking(true).unwrap();
    let e = loop {
        if let Err(e) = other.send_to(b"x", &path) {
            break e;
        }
    };
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    other.set_nonblocking(false).unwrap();
    let short = Duration::from_millis(25);
    other.set_write_timeout(Some(short)).unwrap();
    times_out(short, || other.send_to(b"x", &path));
    other.connect(&path).unwrap();
    times_out(short, || other.send(b"x"));
    other.set_read_timeout(Some(short)).unwrap();
    times_out(short, || other.recv(&mut [0; 10]));
    times_out(short, || other.recv_from(&mut [0; 10]));
    assert_eq!(error(uninterrupted(|| other.recv(&mut []))), ErrorKind::WouldBlock);
}
