//! Waiting for more files than one call parks for, sockets and pipes among them.

use super::{connected, datagrams, done, until};
use crate::on::{On, a_moment};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Things to wait for, by turns: connections, datagram sockets, pipes.
struct Zoo {
    streams: Vec<(TcpStream, TcpStream)>,
    datagrams: Vec<(UdpSocket, UdpSocket)>,
    pipes: Vec<(PipeReader, PipeWriter)>,
}

impl Zoo {
    fn new(of_each: usize) -> Zoo {
        Zoo {
            streams: (0..of_each).map(|_| connected()).collect(),
            datagrams: (0..of_each).map(|_| datagrams()).collect(),
            pipes: (0..of_each).map(|_| pipe().unwrap()).collect(),
        }
    }

    fn files(&self) -> Vec<RawFd> {
        let zipped = self.streams.iter().zip(&self.datagrams).zip(&self.pipes);
        zipped.flat_map(|((a, b), c)| [a.0.as_raw_fd(), b.0.as_raw_fd(), c.0.as_raw_fd()]).collect()
    }

    /// Makes one ready.
    fn feed(&mut self, which: usize) {
        let at = which / 3;
        match which % 3 {
            0 => self.streams[at].1.write_all(b"x").unwrap(),
            1 => assert_eq!(self.datagrams[at].1.send(b"x").unwrap(), 1),
            _ => self.pipes[at].1.write_all(b"x").unwrap(),
        }
    }

    fn eat(&mut self, which: usize) {
        let at = which / 3;
        match which % 3 {
            0 => self.streams[at].0.read_exact(&mut [0]).unwrap(),
            1 => assert_eq!(self.datagrams[at].0.recv(&mut [0]).unwrap(), 1),
            _ => self.pipes[at].0.read_exact(&mut [0]).unwrap(),
        }
    }
}

/// The result, and the numbers of those that are ready.
type Found = (Result<i64, i32>, Vec<usize>);

fn poll(files: &[RawFd], timeout: i32) -> Found {
    let one = |&fd: &RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 7 };
    let mut all: Vec<_> = files.iter().map(one).collect();
    // SAFETY: so many entries.
    let n = done(unsafe { libc::poll(all.as_mut_ptr(), all.len() as u64, timeout) });
    (n, (0..all.len()).filter(|&i| all[i].revents != 0).collect())
}

fn select(files: &[RawFd], timeout: i32) -> Found {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: i64::from(timeout) * 1000 };
    let time = if timeout < 0 { core::ptr::null_mut() } else { &raw mut time };
    // SAFETY: a set of descriptors that is all zeroes, and which exist.
    unsafe {
        let mut set: libc::fd_set = core::mem::zeroed();
        files.iter().for_each(|&fd| libc::FD_SET(fd, &mut set));
        let (last, none) = (files.iter().max().unwrap() + 1, core::ptr::null_mut());
        let n = done(libc::select(last, &mut set, none, none, time));
        (n, (0..files.len()).filter(|&i| libc::FD_ISSET(files[i], &set)).collect())
    }
}

fn finds_each(on: On, of_each: usize, wait: fn(&[RawFd], i32) -> Found) {
    let mut zoo = Zoo::new(of_each);
    let files = zoo.files();
    assert_eq!(wait(&files, 0), (Ok(0), vec![]));
    let begin = Instant::now();
    assert_eq!(wait(&files, 20), (Ok(0), vec![]));
    assert!(begin.elapsed() >= Duration::from_millis(20), "{:?}", begin.elapsed());
    for which in [0, 1, 2, files.len() - 3, files.len() - 2, files.len() - 1] {
        for timeout in [-1, 600_000] {
            let mine = files.clone();
            let waiter = on.spawn(move || wait(&mine, timeout));
            a_moment();
            zoo.feed(which);
            assert_eq!(waiter.join(), (Ok(1), vec![which]));
            assert_eq!(wait(&files, timeout), (Ok(1), vec![which]));
            zoo.eat(which);
        }
    }
    let both = [1, files.len() - 1];
    both.iter().for_each(|&which| zoo.feed(which));
    both.iter().for_each(|&which| until(files[which], libc::POLLIN));
    assert_eq!(wait(&files, -1), (Ok(2), both.to_vec()));
}

pub fn poll_of_a_hundred(on: On) {
    finds_each(on, 34, poll);
}

pub fn select_of_sixty(on: On) {
    finds_each(on, 20, select);
}
