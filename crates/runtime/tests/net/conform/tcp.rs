//! Connections.

use super::{TcpListener, TcpStream, connected, error, listen, pattern};
use crate::on::{On, a_moment};
use socket2::SockRef;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

pub fn echo(on: On) {
    let (listener, address) = listen();
    let server = on.spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), peer);
        assert_eq!(stream.local_addr().unwrap(), listener.local_addr().unwrap());
        stream.set_nodelay(true).unwrap();
        let mut buffer = [0; 100];
        loop {
            let n = stream.read(&mut buffer).unwrap();
            if n == 0 {
                return;
            }
            stream.write_all(&buffer[..n]).unwrap();
        }
    });
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), address);
    for round in 0..300 {
        let message = pattern(round, 1 + round % 250);
        stream.write_all(&message).unwrap();
        let mut answer = vec![0; message.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, message);
    }
    drop(stream);
    server.join();
}

/// More than the kernel keeps: writers get rid of a part and wait.
pub fn much_data_in_both_directions(on: On) {
    const BYTES: usize = 3 << 20;
    let (one, other) = connected();
    let ends = [Arc::new(one), Arc::new(other)];
    let threads: Vec<_> = ends
        .iter()
        .flat_map(|end| {
            let (reader, writer) = (end.clone(), end.clone());
            let writing = on.spawn(move || {
                let data = pattern(0, BYTES);
                let mut sent = 0;
                for piece in (1..).map(|i| i * 7919 % 100_000 + 1) {
                    let rest = &data[sent..data.len().min(sent + piece)];
                    sent += (&*writer).write(rest).unwrap();
                    if sent == BYTES {
                        return writer.shutdown(Shutdown::Write).unwrap();
                    }
                }
            });
            let reading = on.spawn(move || {
                a_moment();
                let mut buffer = vec![0; 70_000];
                let mut got = 0;
                for room in (1..).map(|i| i * 6007 % 70_000 + 1) {
                    let n = (&*reader).read(&mut buffer[..room]).unwrap();
                    if n == 0 {
                        return assert_eq!(got, BYTES);
                    }
                    assert!(buffer[..n] == pattern(got, n));
                    got += n;
                }
            });
            [writing, reading]
        })
        .collect();
    threads.into_iter().for_each(|t| t.join());
}

pub fn vectors(on: On) {
    let (mut one, mut other) = connected();
    let reader = on.spawn(move || {
        let (mut a, mut b, mut c) = ([0; 3], [0; 0], [0; 4]);
        let mut got = 0;
        while got < 5 {
            // Only the first read can be short of the middle, so look at what came together.
            let bufs = &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
            let n = other.read_vectored(bufs).unwrap();
            assert!(n > 0);
            got += n;
            assert_eq!(a[..n], pattern(got - n, n));
        }
        while got < 9 {
            let bufs = &mut [IoSliceMut::new(&mut b), IoSliceMut::new(&mut c)];
            let n = other.read_vectored(bufs).unwrap();
            assert!(n > 0);
            got += n;
            assert_eq!(c[..n], pattern(got - n, n));
        }
        assert_eq!(other.read_vectored(&mut [IoSliceMut::new(&mut c)]).unwrap(), 0);
    });
    let data = pattern(0, 9);
    let (left, right) = data.split_at(4);
    a_moment();
    let n = one.write_vectored(&[IoSlice::new(left), IoSlice::new(right)]).unwrap();
    one.write_all(&data[n..]).unwrap();
    one.flush().unwrap();
    drop(one);
    reader.join();
}

pub fn peeking(on: On) {
    let (mut one, mut other) = connected();
    let reader = on.spawn(move || {
        let mut buffer = [0; 10];
        assert_eq!(other.peek(&mut buffer[..2]).unwrap(), 2);
        assert_eq!(other.peek(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");
        buffer.fill(0);
        assert_eq!(other.read(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");
        assert_eq!(other.peek(&mut buffer).unwrap(), 0, "the end");
        assert_eq!(other.read(&mut buffer).unwrap(), 0);
    });
    a_moment();
    one.write_all(b"hello").unwrap();
    a_moment();
    drop(one);
    reader.join();
}

/// A read that gets less than there was room for is not the last one.
pub fn the_end_right_behind_the_data(on: On) {
    let (listener, address) = listen();
    const ROUNDS: usize = 200;
    let server = on.spawn(move || {
        for round in 0..ROUNDS {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&pattern(round, 5)).unwrap();
            if round % 3 == 0 {
                quaver::yield_now();
                stream.write_all(b"more").unwrap();
            }
        }
    });
    for round in 0..ROUNDS {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut data = Vec::new();
        let mut buffer = [0; 1000];
        loop {
            let n = stream.read(&mut buffer).unwrap();
            if n == 0 {
                break;
            }
            data.extend_from_slice(&buffer[..n]);
        }
        let end: &[u8] = if round % 3 == 0 { b"more" } else { b"" };
        assert_eq!(data, [&pattern(round, 5), end].concat());
        assert_eq!(stream.read(&mut buffer).unwrap(), 0, "the end stays the end");
    }
    server.join();
}

pub fn halves_are_shut_down(on: On) {
    let (mut one, mut other) = connected();
    let answering = on.spawn(move || {
        let mut question = String::new();
        other.read_to_string(&mut question).unwrap();
        assert_eq!(question, "question");
        other.write_all(b"answer").unwrap();
    });
    one.write_all(b"question").unwrap();
    one.shutdown(Shutdown::Write).unwrap();
    assert_eq!(error(one.write(b"more")), ErrorKind::BrokenPipe);
    let mut answer = String::new();
    one.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
    answering.join();
}

pub fn shutting_down_ends_waits(on: On) {
    for how in [Shutdown::Read, Shutdown::Both] {
        let (one, other) = connected();
        let one = Arc::new(one);
        let reader = on.spawn({
            let one = one.clone();
            move || assert_eq!((&*one).read(&mut [0; 10]).unwrap(), 0)
        });
        a_moment();
        one.shutdown(how).unwrap();
        reader.join();
        drop(other);
    }
    let (one, other) = connected();
    let one = Arc::new(one);
    let writer = on.spawn({
        let one = one.clone();
        move || {
            let data = vec![0; 100_000];
            loop {
                if let Err(e) = (&*one).write(&data) {
                    return assert_eq!(e.kind(), ErrorKind::BrokenPipe);
                }
            }
        }
    });
    a_moment();
    one.shutdown(Shutdown::Write).unwrap();
    writer.join();
    drop(other);
}

pub fn a_reset(on: On) {
    let (mut one, other) = connected();
    let reader = on.spawn(move || {
        assert_eq!(error(one.read(&mut [0; 10])), ErrorKind::ConnectionReset);
        assert_eq!(one.read(&mut [0; 10]).unwrap(), 0);
        assert_eq!(error(one.write(&[0; 10])), ErrorKind::BrokenPipe);
    });
    a_moment();
    SockRef::from(&other).set_linger(Some(Duration::ZERO)).unwrap();
    drop(other);
    reader.join();
}

pub fn options(_: On) {
    let (one, _other) = connected();
    for value in [true, false] {
        one.set_nodelay(value).unwrap();
        assert_eq!(one.nodelay().unwrap(), value);
    }
    one.set_ttl(42).unwrap();
    assert_eq!(one.ttl().unwrap(), 42);
    assert!(one.take_error().unwrap().is_none());
    let text = format!("{one:?}");
    let port = one.local_addr().unwrap().port().to_string();
    assert!(text.starts_with("TcpStream { addr: ") && text.contains(&port), "{text}");

    let (listener, address) = listen();
    listener.set_ttl(41).unwrap();
    assert_eq!(listener.ttl().unwrap(), 41);
    assert!(listener.take_error().unwrap().is_none());
    assert!(format!("{listener:?}").starts_with("TcpListener { addr: "));
    assert_eq!(error(TcpListener::bind(address)), ErrorKind::AddrInUse);
}
