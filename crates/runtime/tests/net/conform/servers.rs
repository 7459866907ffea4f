//! Many connections and many threads.

use super::{TcpStream, connected, error, listen, pattern};
use crate::on::{On, a_moment};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

pub fn two_hundred_connections(on: On) {
    const CONNECTIONS: usize = 200;
    let (listener, address) = listen();
    let server = on.spawn(move || {
        let serve = |mut stream: TcpStream| {
            move || {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut data = vec![0; usize::from(u16::from_le_bytes(length))];
                    stream.read_exact(&mut data).unwrap();
                    data.reverse();
                    stream.write_all(&data).unwrap();
                }
            }
        };
        let streams = listener.incoming().take(CONNECTIONS);
        let threads: Vec<_> = streams.map(|stream| on.spawn(serve(stream.unwrap()))).collect();
        threads.into_iter().for_each(|t| t.join());
    });
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|i| {
            on.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for round in 0..10 {
                    let mut data = pattern(i, 1 + (i * 37 + round * 91) % 1000);
                    let length = (data.len() as u16).to_le_bytes();
                    stream.write_all(&[&length, &data[..]].concat()).unwrap();
                    let mut answer = vec![0; data.len()];
                    stream.read_exact(&mut answer).unwrap();
                    data.reverse();
                    assert_eq!(answer, data);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|t| t.join());
    server.join();
}

/// Each connection is accepted by one of them, and none is forgotten.
pub fn many_acceptors(on: On) {
    const ACCEPTORS: usize = 8;
    const CONNECTIONS: usize = 100;
    let (listener, address) = listen();
    let listener = Arc::new(listener);
    let acceptors: Vec<_> = (0..ACCEPTORS)
        .map(|i| {
            let shared = listener.clone();
            let own = (i % 2 == 0).then(|| listener.try_clone().unwrap());
            on.spawn(move || {
                let listener = own.as_ref().unwrap_or(&shared);
                let mut served = 0;
                loop {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut kind = [0];
                    stream.read_exact(&mut kind).unwrap();
                    if kind == *b"s" {
                        return served;
                    }
                    served += 1;
                    stream.write_all(b"!").unwrap();
                }
            })
        })
        .collect();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            on.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"c").unwrap();
                stream.read_exact(&mut [0]).unwrap();
            })
        })
        .collect();
    clients.into_iter().for_each(|t| t.join());
    for _ in 0..ACCEPTORS {
        TcpStream::connect(address).unwrap().write_all(b"s").unwrap();
    }
    assert_eq!(acceptors.into_iter().map(|t| t.join()).sum::<usize>(), CONNECTIONS);
}

pub fn a_listener_that_does_not_wait(on: On) {
    let (listener, address) = listen();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(error(listener.accept()), ErrorKind::WouldBlock);
    let client = on.spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        a_moment();
        stream.write_all(b"late").unwrap();
    });
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        a_moment();
    };
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "late", "what was accepted waits");
    client.join();
    listener.set_nonblocking(false).unwrap();
    let client = on.spawn(move || TcpStream::connect(address).unwrap());
    listener.accept().unwrap();
    client.join();
}

pub fn a_clone_is_dropped_while_the_other_waits(on: On) {
    let (one, mut other) = connected();
    let mut reading = one.try_clone().unwrap();
    let reader = on.spawn(move || {
        let mut text = String::new();
        reading.read_to_string(&mut text).unwrap();
        text
    });
    a_moment();
    drop(one);
    // Its number goes to somebody else.
    let (third, fourth) = connected();
    a_moment();
    other.write_all(b"still here").unwrap();
    drop(other);
    assert_eq!(reader.join(), "still here");
    drop((third, fourth));

    let (listener, address) = listen();
    let accepting = listener.try_clone().unwrap();
    let acceptor = on.spawn(move || accepting.accept().unwrap().1);
    a_moment();
    drop(listener);
    let stream = TcpStream::connect(address).unwrap();
    assert_eq!(acceptor.join(), stream.local_addr().unwrap());
}

/// Several read from one stream, several write to it. Nobody waits for what is there.
pub fn several_threads_use_one_stream(on: On) {
    const THREADS: usize = 4;
    const EACH: usize = 5000;
    let (one, other) = connected();
    let (one, other) = (Arc::new(one), Arc::new(other));
    let writers: Vec<_> = (0..THREADS)
        .map(|_| {
            let one = one.clone();
            on.spawn(move || (0..EACH).for_each(|i| (&*one).write_all(&[i as u8]).unwrap()))
        })
        .collect();
    let readers: Vec<_> = (0..THREADS)
        .map(|i| {
            let other = other.clone();
            on.spawn(move || {
                let mut buffer = vec![0; 1 << (2 * i)];
                let mut got = 0;
                loop {
                    match (&*other).read(&mut buffer).unwrap() {
                        0 => return got,
                        n => got += n,
                    }
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|t| t.join());
    drop(one);
    assert_eq!(readers.into_iter().map(|t| t.join()).sum::<usize>(), THREADS * EACH);
}
