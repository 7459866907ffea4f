//! Waiting for files.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use quaver::foreign::files::{FileWait, Wanted, wait};
use quaver::foreign::futex::Limits;
use quaver::net::unix::{SocketAddr, UnixListener, UnixStream};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::time::Duration;

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("file-read", read),
    Scenario::new("file-write", write),
    Scenario::new("file-timeout", timeout),
    Scenario::new("file-accept", accept),
    Scenario::new("files-of-others", others),
];

/// The ends of a stream; without any the scenario's result is wrong.
fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair of sockets")
}

/// Waits for each byte.
fn read() -> u64 {
    let (mut mine, mut other) = pair();
    let sender = quaver::spawn(move || {
        for byte in 1..4 {
            quaver::yield_now();
            other.write_all(&[byte]).unwrap_or_default();
        }
    });
    let sum = step(|| {
        let (mut sum, mut byte) = (0, [0]);
        while let Ok(1..) = mine.read(&mut byte) {
            sum = mix(sum, byte[0].into());
        }
        sum
    });
    sender.join().map_or(0, |()| sum)
}

/// More than there is room for.
fn write() -> u64 {
    let (mut mine, mut other) = pair();
    let reader = quaver::spawn(move || {
        let mut all = Vec::new();
        other.read_to_end(&mut all).map_or(0, |n| n as u64)
    });
    let bytes = vec![7; 1_000_000];
    let written = step(|| mine.write_all(&bytes).is_ok());
    drop(mine);
    u64::from(written) + reader.join().unwrap_or(0)
}

fn timeout() -> u64 {
    let (mut mine, mut other) = pair();
    mine.set_read_timeout(Some(Duration::from_micros(1))).unwrap_or_default();
    let timed_out =
        step(|| mine.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    other.write_all(&[5]).unwrap_or_default();
    let mut byte = [0];
    mine.read_exact(&mut byte).unwrap_or_default();
    u64::from(timed_out) + u64::from(byte[0])
}

/// Two wait for the same file, of whom one is too late.
fn accept() -> u64 {
    let name = format!("quaver-boundaries-{}", std::process::id());
    let Ok(name) = SocketAddr::from_abstract_name(name) else { return 0 };
    let Ok(listener) = UnixListener::bind_addr(&name) else { return 0 };
    quaver::scope(|s| {
        let clients = s.spawn(|| {
            (0..2)
                .filter(|_| {
                    quaver::yield_now();
                    UnixStream::connect_addr(&name).is_ok()
                })
                .count() as u64
        });
        let other = s.spawn(|| u64::from(listener.accept().is_ok()));
        let mine = step(|| u64::from(listener.accept().is_ok()));
        mine + other.join().unwrap_or(0) + clients.join().unwrap_or(0)
    })
}

/// Several, of which one becomes ready, as code does it that is not this crate's.
fn others() -> u64 {
    let (quiet, _quiet_end) = pair();
    let (mine, mut other) = pair();
    let sender = quaver::spawn(move || {
        quaver::yield_now();
        other.write_all(&[1]).unwrap_or_default();
        other
    });
    let files = [&quiet, &mine].map(|s| Wanted::new(s.as_raw_fd(), libc::POLLIN));
    let end = step(|| wait(&files, &Limits::NONE));
    u64::from(end == FileWait::Ready) + 2 * u64::from(sender.join().is_ok())
}
