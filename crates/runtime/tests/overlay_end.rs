//! Stacks in user space begin and end.

#[allow(dead_code, reason = "a part is used")]
#[path = "overlay/in_memory/mod.rs"]
mod in_memory;
mod support;

use in_memory::InMemory;
use quaver::Builder;
use quaver::net::stack::{self, Installed};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use support::{on_runtime, setup::alone};

fn install() -> Installed {
    stack::install(Arc::new(InMemory::new())).unwrap()
}

fn is_down<T: std::fmt::Debug>(result: io::Result<T>) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENETDOWN));
}

/// Two ends of a connection, and the listener that made it.
fn connected() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    (listener, one, other)
}

/// In place of the stack there is the kernel's.
fn kernel_serves() {
    let (_listener, mut one, mut other) = connected();
    one.write_all(b"x").unwrap();
    other.read_exact(&mut [0]).unwrap();
    // A stack's own have no such address.
    assert!(one.take_error().unwrap().is_none() && one.local_addr().unwrap().port() != 0);
}

#[test]
fn one_at_a_time() {
    alone(|| {
        kernel_serves();
        for _ in 0..3 {
            let installed = install();
            let e = stack::install(Arc::new(InMemory::new())).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::AlreadyExists);
            let (_listener, mut one, mut other) = connected();
            one.write_all(b"x").unwrap();
            other.read_exact(&mut [0]).unwrap();
            drop(installed);
            is_down(other.read(&mut [0]));
        }
        kernel_serves();
    });
}

/// Whoever waits when the stack ends is told.
#[test]
fn waits_end() {
    let body = || {
        let installed = install();
        let (listener, one, other) = connected();
        let ours = quaver::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (fd, events) = (other.as_raw_fd(), libc::POLLIN);
        let all: [Box<dyn FnOnce() + Send>; 4] = [
            Box::new(move || is_down((&one).read(&mut [0]))),
            Box::new(move || is_down(listener.accept())),
            Box::new(move || is_down(ours.accept())),
            Box::new(move || {
                let mut file = libc::pollfd { fd, events, revents: 0 };
                // SAFETY: one entry.
                let n = unsafe { libc::poll(&mut file, 1, -1) };
                assert_eq!((n, file.revents & libc::POLLERR), (1, libc::POLLERR));
            }),
        ];
        let waiters = all.map(quaver::spawn);
        quaver::sleep(Duration::from_millis(5));
        drop(installed);
        for waiter in waiters {
            waiter.join().unwrap();
        }
        is_down((&other).write(b"x"));
        is_down(other.peer_addr());
        drop(other);
        kernel_serves();
    };
    for workers in [1, 2] {
        on_runtime(Builder::new().workers(workers), body);
    }
}

/// Kernel threads, too, without a runtime.
#[test]
fn waits_of_kernel_threads_end() {
    alone(|| {
        let installed = install();
        let (listener, one, other) = connected();
        let reader = std::thread::spawn(move || is_down((&one).read(&mut [0])));
        let acceptor = std::thread::spawn(move || is_down(listener.accept()));
        std::thread::sleep(Duration::from_millis(5));
        drop(installed);
        reader.join().unwrap();
        acceptor.join().unwrap();
        drop(other);
    });
}
