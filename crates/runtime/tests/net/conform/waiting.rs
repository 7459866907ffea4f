//! Waiting for a time, or not at all.

use super::{Folder, TcpStream, UdpSocket, UnixDatagram, UnixListener};
use super::{TICK, connected, error, listen, times_out, uninterrupted};
use crate::on::{On, a_moment};
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(25);
const LONG: Duration = Duration::from_secs(600);

pub fn reads_time_out(on: On) {
    let (mut one, mut other) = connected();
    one.set_read_timeout(Some(SHORT)).unwrap();
    times_out(SHORT, || one.read(&mut [0; 10]));
    times_out(SHORT, || one.peek(&mut [0; 10]));
    one.set_read_timeout(Some(LONG)).unwrap();
    let writer = on.spawn(move || {
        a_moment();
        other.write_all(b"x").unwrap();
        other
    });
    assert_eq!(uninterrupted(|| one.read(&mut [0; 10])).unwrap(), 1);
    one.set_read_timeout(None).unwrap();
    let mut other = writer.join();
    let writer = on.spawn(move || {
        a_moment();
        other.write_all(b"xy").unwrap();
        other
    });
    assert_eq!(one.read(&mut [0; 10]).unwrap(), 2);
    drop(writer.join());
}

pub fn writes_time_out(_: On) {
    let (mut one, other) = connected();
    one.set_write_timeout(Some(SHORT)).unwrap();
    let data = vec![0; 1 << 20];
    // The kernel finds room for more now and then.
    loop {
        let begin = Instant::now();
        match one.write(&data) {
            Ok(n) => assert!(n > 0),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                assert!(begin.elapsed() + TICK >= SHORT);
                break;
            }
            Err(e) => assert_eq!(e.kind(), ErrorKind::Interrupted),
        }
    }
    drop(other);
}

/// Not since it was set, and not for all calls together.
pub fn a_timeout_is_for_each_call(on: On) {
    let (mut one, mut other) = connected();
    let time = Duration::from_millis(60);
    one.set_read_timeout(Some(time)).unwrap();
    let writer = on.spawn(move || {
        for _ in 0..8 {
            quaver::sleep(time / 6);
            other.write_all(b"x").unwrap();
        }
        other
    });
    let mut got = 0;
    while got < 8 {
        // On a machine that stands still for so long a read may time out, and is repeated.
        match one.read(&mut [0]) {
            Ok(n) => got += n,
            Err(e) => assert!(matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)),
        }
    }
    let _other = writer.join();
    times_out(time, || one.read(&mut [0]));
}

pub fn timeouts_as_options(_: On) {
    let (one, _other) = connected();
    assert_eq!((one.read_timeout().unwrap(), one.write_timeout().unwrap()), (None, None));
    one.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    one.set_write_timeout(Some(Duration::from_secs(4))).unwrap();
    assert_eq!(one.read_timeout().unwrap(), Some(Duration::from_secs(3)));
    assert_eq!(one.write_timeout().unwrap(), Some(Duration::from_secs(4)));
    for result in
        [one.set_read_timeout(Some(Duration::ZERO)), one.set_write_timeout(Some(Duration::ZERO))]
    {
        let e = result.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput);
        assert_eq!(e.to_string(), "cannot set a 0 duration timeout");
    }
    assert_eq!(one.read_timeout().unwrap(), Some(Duration::from_secs(3)));
    one.set_read_timeout(None).unwrap();
    assert_eq!(one.read_timeout().unwrap(), None);
    // Too long for the kernel, and for the clock.
    one.set_read_timeout(Some(Duration::MAX)).unwrap();
    one.set_nonblocking(true).unwrap();
    assert_eq!(error((&one).read(&mut [0])), ErrorKind::WouldBlock);
}

pub fn clones_share_how_they_wait(_: On) {
    let (one, _other) = connected();
    let clone = one.try_clone().unwrap();
    one.set_nonblocking(true).unwrap();
    assert_eq!(error((&clone).read(&mut [0])), ErrorKind::WouldBlock);
    clone.set_nonblocking(false).unwrap();
    clone.set_read_timeout(Some(SHORT)).unwrap();
    times_out(SHORT, || (&one).read(&mut [0]));
}

pub fn streams_that_do_not_wait(on: On) {
    let (mut one, mut other) = connected();
    one.set_nonblocking(true).unwrap();
    assert_eq!(error(one.read(&mut [0; 10])), ErrorKind::WouldBlock);
    assert_eq!(error(one.peek(&mut [0; 10])), ErrorKind::WouldBlock);
    let data = vec![7; 1 << 16];
    let mut sent = 0;
    let sent = loop {
        match one.write(&data) {
            Ok(n) => sent += n,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                break sent;
            }
        }
    };
    let reader = on.spawn(move || {
        let mut got = vec![0; sent];
        other.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == 7));
        other
    });
    let mut other = reader.join();
    while let Err(e) = one.write(b"again") {
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
    }
    other.read_exact(&mut [0; 5]).unwrap();
    one.set_nonblocking(false).unwrap();
    let writer = on.spawn(move || {
        a_moment();
        other.write_all(b"x").unwrap();
        other
    });
    assert_eq!(one.read(&mut [0; 10]).unwrap(), 1);
    let closed: TcpStream = writer.join();
    drop(closed);
    assert_eq!(one.read(&mut [0; 10]).unwrap(), 0);
}

/// `wait` waits on a socket that is shut down then, and once more after that.
fn shut_down<S: AsFd + Send + Sync + 'static, T: std::fmt::Debug + PartialEq + Send + 'static>(
    on: On,
    socket: S,
    how: Shutdown,
    wait: fn(&S) -> T,
    result: T,
) {
    let socket = Arc::new(socket);
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let socket = socket.clone();
            on.spawn(move || wait(&socket))
        })
        .collect();
    a_moment();
    // It may say that the socket is not connected, and has done it all the same.
    let _ = SockRef::from(&*socket).shutdown(how);
    for waiter in waiters {
        assert_eq!(waiter.join(), result);
    }
    assert_eq!(wait(&socket), result);
}

/// As servers do it to make their threads stop, with sockets that need not be connected.
pub fn a_shutdown_ends_waits(on: On) {
    for how in [Shutdown::Read, Shutdown::Both] {
        let accept = |listener: &super::TcpListener| error(listener.accept());
        shut_down(on, listen().0, how, accept, ErrorKind::InvalidInput);

        let folder = Folder::new();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let accept = |listener: &UnixListener| error(listener.accept());
        shut_down(on, listener, how, accept, ErrorKind::InvalidInput);

        let socket = || UnixDatagram::bind(Folder::new().join("socket")).unwrap();
        let recv = |socket: &UnixDatagram| socket.recv(&mut [0; 10]).unwrap();
        shut_down(on, socket(), how, recv, 0);
        let recv_from = |socket: &UnixDatagram| {
            let (n, from) = socket.recv_from(&mut [0; 10]).unwrap();
            (n, from.is_unnamed())
        };
        shut_down(on, socket(), how, recv_from, (0, true));

        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let recv = |socket: &UdpSocket| socket.recv(&mut [0; 10]).unwrap();
        shut_down(on, socket(), how, recv, 0);
        let peek = |socket: &UdpSocket| socket.peek(&mut [0; 10]).unwrap();
        shut_down(on, socket(), how, peek, 0);
        let recv_from = |socket: &UdpSocket| {
            let e = socket.recv_from(&mut [0; 10]).unwrap_err();
            (e.kind(), e.to_string())
        };
        let nobody = (ErrorKind::InvalidInput, "invalid argument".to_owned());
        shut_down(on, socket(), how, recv_from, nobody);
    }
}
