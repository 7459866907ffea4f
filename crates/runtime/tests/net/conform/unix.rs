//! Streams of Unix sockets.

use super::{Folder, UnixListener, UnixStream, error, pattern, times_out};
use crate::on::{On, a_moment};
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

pub fn a_pair(on: On) {
    const BYTES: usize = 3 << 20;
    let (mut one, mut other) = UnixStream::pair().unwrap();
    assert!(one.local_addr().unwrap().is_unnamed());
    let writer = on.spawn(move || {
        one.write_all(&pattern(0, BYTES)).unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        one.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "got it");
    });
    a_moment();
    let mut data = Vec::new();
    other.read_to_end(&mut data).unwrap();
    assert!(data == pattern(0, BYTES));
    other.write_all(b"got it").unwrap();
    drop(other);
    writer.join();
}

/// Echoes what comes in each of so many connections.
fn echo(listener: &UnixListener, connections: usize) {
    for stream in listener.incoming().take(connections) {
        let mut stream = stream.unwrap();
        let mut text = String::new();
        (&stream).read_to_string(&mut text).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
    }
}

fn ask(mut stream: UnixStream) {
    stream.write_all(b"question").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "question");
}

pub fn paths(on: On) {
    let folder = Folder::new();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(address.as_pathname(), Some(path.as_path()));
    assert_eq!(error(UnixListener::bind(&path)), ErrorKind::AddrInUse);
    let server = on.spawn(move || echo(&listener, 2));
    let stream = UnixStream::connect(&path).unwrap();
    assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
    ask(stream);
    ask(UnixStream::connect_addr(&address).unwrap());
    server.join();
    assert_eq!(error(UnixStream::connect(&path)), ErrorKind::ConnectionRefused);
}

pub fn abstract_names(on: On) {
    let name = format!("quaver-{}-{}", module_path!(), std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let theirs = listener.local_addr().unwrap();
    assert_eq!(theirs.as_abstract_name(), Some(name.as_bytes()));
    let server = on.spawn(move || echo(&listener, 1));
    let stream = UnixStream::connect_addr(&address).unwrap();
    assert_eq!(stream.peer_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
    ask(stream);
    server.join();
}

pub fn wrong_addresses(_: On) {
    let folder = Folder::new();
    let nothing = folder.join("nothing");
    assert_eq!(error(UnixStream::connect(&nothing)), ErrorKind::NotFound);
    assert_eq!(error(UnixStream::connect("null\0byte")), ErrorKind::InvalidInput);
    let long = folder.join("x".repeat(200));
    assert_eq!(error(UnixStream::connect(&long)), ErrorKind::InvalidInput);
    assert_eq!(error(UnixListener::bind(&long)), ErrorKind::InvalidInput);
    let unnamed = SocketAddr::from_pathname("").unwrap();
    assert_eq!(error(UnixStream::connect_addr(&unnamed)), ErrorKind::InvalidInput);
}

/// Those who come when the listener's queue is full wait until it accepts.
pub fn a_full_queue(on: On) {
    const CLIENTS: usize = 8;
    let folder = Folder::new();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    SockRef::from(&listener).listen(1).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let path = path.clone();
            on.spawn(move || ask(UnixStream::connect(path).unwrap()))
        })
        .collect();
    a_moment();
    echo(&listener, CLIENTS);
    clients.into_iter().for_each(|t| t.join());
}

pub fn times(on: On) {
    let (mut one, mut other) = UnixStream::pair().unwrap();
    let short = Duration::from_millis(25);
    one.set_read_timeout(Some(short)).unwrap();
    one.set_write_timeout(Some(short)).unwrap();
    assert_eq!(one.read_timeout().unwrap(), one.write_timeout().unwrap());
    times_out(short, || one.read(&mut [0; 10]));
    let data = vec![0; 1 << 20];
    while one.write(&data).is_ok() {}
    times_out(short, || one.write(&data));
    other.set_nonblocking(true).unwrap();
    while other.read(&mut [0; 4096]).is_ok() {}
    assert_eq!(error(other.read(&mut [0; 10])), ErrorKind::WouldBlock);
    other.set_nonblocking(false).unwrap();
    let reader = on.spawn(move || other.read(&mut [0; 10]).unwrap());
    a_moment();
    let clone = one.try_clone().unwrap();
    assert_eq!((&clone).write(b"at last").unwrap(), 7);
    assert_eq!(reader.join(), 7);
    assert!(one.take_error().unwrap().is_none());
    assert!(format!("{one:?}").starts_with("UnixStream { fd: "), "{one:?}");
}
