//! Sockets of `std` on user threads.

use super::*;
use crate::Builder;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn on(workers: usize, f: impl FnOnce() + Send) {
    crate::__private::test(Builder::new().workers(workers), f);
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Sends a message and waits for it at the other end, where nobody has sent anything before.
fn pass(from: &mut (impl Write + Send), to: &mut (impl Read + Send)) {
    std::thread::scope(|scope| {
        // A kernel thread: the reader is asleep by then, as a rule.
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1));
            from.write_all(b"hello").unwrap();
        });
        let mut buffer = [0; 64];
        assert_eq!(to.read(&mut buffer).unwrap(), 5);
    });
}

fn is_source(fd: i32) -> bool {
    matches!(look(fd, Direction::Read), Seen::Events(_))
}

#[test]
fn a_socket_becomes_a_source_until_it_is_closed() {
    on(1, || {
        let (mut client, mut server) = connection();
        let fd = server.as_raw_fd();
        assert_eq!(look(fd, Direction::Read), Seen::New);
        for _ in 0..10 {
            pass(&mut client, &mut server);
            assert!(is_source(fd));
        }
        // A duplicate has a number of its own.
        let other = server.try_clone().unwrap();
        assert!(!is_source(other.as_raw_fd()));
        drop(server);
        assert_eq!(look(fd, Direction::Read), Seen::Nothing);
        // It is heard of by that.
        let mut other = other;
        pass(&mut client, &mut other);
    });
}

#[test]
fn numbers_are_used_again() {
    on(2, || {
        for unseen in [false, true] {
            let (mut client, mut server) = connection();
            pass(&mut client, &mut server);
            let fd = server.into_raw_fd();
            assert!(is_source(fd));
            // SAFETY: nobody else has it.
            unsafe {
                match unseen {
                    true => assert_eq!(sys::syscall3(libc::SYS_close, fd as u64, 0, 0), 0),
                    false => drop(OwnedFd::from_raw_fd(fd)),
                }
            }
            let (mut left, mut right) = UnixStream::pair().unwrap();
            assert!(!is_source(left.as_raw_fd()) && !is_source(right.as_raw_fd()));
            for _ in 0..3 {
                pass(&mut left, &mut right);
                pass(&mut right, &mut left);
            }
        }
    });
}

#[test]
fn what_comes_before_the_end_is_not_missed() {
    on(2, || {
        for round in 0..300 {
            let (mut client, mut server) = connection();
            let sender = crate::spawn(move || {
                for _ in 0..3 {
                    client.write_all(b"hello").unwrap();
                    if round % 3 == 0 {
                        crate::yield_now();
                    }
                }
                if round % 2 == 0 {
                    crate::yield_now();
                }
            });
            let mut text: Vec<u8> = Vec::new();
            let mut buffer = [0; 64];
            while let n @ 1.. = server.read(&mut buffer).unwrap() {
                text.extend(&buffer[..n]);
            }
            assert_eq!(text, b"hello".repeat(3));
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_look_takes_nothing() {
    on(1, || {
        let (mut client, mut server) = connection();
        pass(&mut client, &mut server);
        client.write_all(b"hello").unwrap();
        let mut buffer = [0; 64];
        while server.peek(&mut buffer).unwrap() < 5 {}
        assert_eq!(server.peek(&mut buffer).unwrap(), 5);
        assert_eq!(server.read(&mut buffer).unwrap(), 5);
        pass(&mut client, &mut server);
    });
}

#[test]
fn other_files_are_armed() {
    on(1, || {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        for _ in 0..3 {
            pass(&mut writer, &mut reader);
            assert_eq!(look(reader.as_raw_fd(), Direction::Read), Seen::Nothing);
        }
    });
}
