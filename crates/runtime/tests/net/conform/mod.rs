//! What sockets do, whoever made them.

pub mod connecting;
pub mod servers;
pub mod tcp;
pub mod udp;
pub mod unix;
pub mod unix_datagrams;
pub mod waiting;

use super::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A listener and its address.
fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two ends of a connection.
fn connected() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let one = TcpStream::connect(address).unwrap();
    let (other, peer) = listener.accept().unwrap();
    assert_eq!(peer, one.local_addr().unwrap());
    (one, other)
}

/// Repeats a call that a signal has interrupted: those of `std` that have a timeout can be.
fn uninterrupted<T>(mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match f() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The kernel counts timeouts in ticks, of which the first may be nearly over.
const TICK: Duration = Duration::from_millis(11);

/// The call fails because its time is up, and not before.
fn times_out<T: std::fmt::Debug>(time: Duration, mut f: impl FnMut() -> io::Result<T>) {
    loop {
        let begin = Instant::now();
        let e = f().unwrap_err();
        if e.kind() != ErrorKind::Interrupted {
            assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}");
            assert!(begin.elapsed() + TICK >= time, "{:?}", begin.elapsed());
            return;
        }
    }
}

/// How the call fails.
fn error<T: std::fmt::Debug>(result: io::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// So many bytes that differ from their neighbours, beginning with the one at `from`.
fn pattern(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|i| (i ^ i >> 8).wrapping_mul(167) as u8).collect()
}

/// A folder for sockets, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("quaver-{}-{}-{number}", module_path!().len(), std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
