//! `std::net`, `std::os::unix::net` and pipes on user threads: waiting parks them.

mod support;

use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::{Setup, stats};

const SOON: Duration = Duration::from_millis(20);

fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Two ends of a TCP connection.
fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// An epoll file, as executors use them, that waits until there is something to read.
fn epoll_of(file: &impl AsRawFd) -> OwnedFd {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
    // SAFETY: a new descriptor, and an event that lives across the call.
    unsafe {
        let epoll = OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
        let fd = file.as_raw_fd();
        assert_eq!(libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event), 0);
        epoll
    }
}

/// How many events there are, after `timeout` ms at most.
fn epoll_wait(epoll: &OwnedFd, timeout: i32) -> i32 {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
    // SAFETY: room for four events.
    let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 4, timeout) };
    assert!(events.iter().take(n.max(0) as usize).all(|e| { e.u64 } == 7));
    n
}

/// 200 threads wait in all ways that there are, and no kernel thread does it for them.
#[test]
fn waiting_takes_no_kernel_threads() {
    const MANY: usize = 200;
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let began = AtomicUsize::new(0);
            let (before, handovers) = (kernel_threads(), stats().handovers);
            quaver::scope(|s| {
                let mut others: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
                for i in 0..MANY {
                    let began = &began;
                    let begin = move || _ = began.fetch_add(1, SeqCst);
                    let mut byte = [0];
                    match i % 6 {
                        0 => {
                            let (mut a, mut b) = tcp();
                            others.push(Box::new(move || b.write_all(b"x").unwrap()));
                            s.spawn(move || {
                                begin();
                                a.read_exact(&mut byte).unwrap();
                            });
                        }
                        1 => {
                            let (mut a, mut b) = UnixStream::pair().unwrap();
                            others.push(Box::new(move || b.write_all(b"x").unwrap()));
                            s.spawn(move || {
                                begin();
                                a.read_exact(&mut byte).unwrap();
                            });
                        }
                        2 => {
                            let (mut a, mut b) = pipe().unwrap();
                            others.push(Box::new(move || b.write_all(b"x").unwrap()));
                            s.spawn(move || {
                                begin();
                                a.read_exact(&mut byte).unwrap();
                            });
                        }
                        3 => {
                            let a = UdpSocket::bind("127.0.0.1:0").unwrap();
                            let to = a.local_addr().unwrap();
                            others.push(Box::new(move || {
                                let b = UdpSocket::bind("127.0.0.1:0").unwrap();
                                b.send_to(b"x", to).unwrap();
                            }));
                            s.spawn(move || {
                                begin();
                                assert_eq!(a.recv_from(&mut byte).unwrap().0, 1);
                            });
                        }
                        4 => {
                            let (a, mut b) = pipe().unwrap();
                            others.push(Box::new(move || b.write_all(b"x").unwrap()));
                            s.spawn(move || {
                                let epoll = epoll_of(&a);
                                begin();
                                assert_eq!(epoll_wait(&epoll, -1), 1);
                            });
                        }
                        _ => {
                            let a = TcpListener::bind("127.0.0.1:0").unwrap();
                            let to = a.local_addr().unwrap();
                            others.push(Box::new(move || _ = TcpStream::connect(to).unwrap()));
                            s.spawn(move || {
                                begin();
                                a.accept().unwrap();
                            });
                        }
                    }
                }
                while began.load(SeqCst) < MANY {
                    quaver::yield_now();
                }
                quaver::sleep(SOON);
                let (more, moved) = (kernel_threads() - before, stats().handovers - handovers);
                assert!(more < 20 && moved < 20, "{more} more kernel threads, {moved} hand-overs");
                others.into_iter().for_each(|f| f());
            });
        });
    }
}

/// A server with a thread for each connection, and its clients.
#[test]
fn echo() {
    for setup in Setup::all() {
        setup.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let to = listener.local_addr().unwrap();
            quaver::scope(|s| {
                s.spawn(|| {
                    for _ in 0..8 {
                        let (mut stream, _) = listener.accept().unwrap();
                        s.spawn(move || {
                            let mut data = [0; 64];
                            while let Ok(n @ 1..) = stream.read(&mut data) {
                                stream.write_all(&data[..n]).unwrap();
                            }
                        });
                    }
                });
                for client in 0..8u8 {
                    s.spawn(move || {
                        let mut stream = TcpStream::connect(to).unwrap();
                        for i in 0..50 {
                            let (ask, mut answer) = ([client, i, 1, 2], [0; 4]);
                            stream.write_all(&ask).unwrap();
                            stream.read_exact(&mut answer).unwrap();
                            assert_eq!(ask, answer);
                        }
                    });
                }
            });
        });
    }
}

/// More than fits: those who write wait, too, and all arrives.
#[test]
fn floods() {
    const BYTES: usize = 3_000_000;
    fn flood(mut from: impl Write + Send, mut to: impl Read + Send) {
        quaver::scope(|s| {
            s.spawn(move || {
                let data: Vec<u8> = (0..BYTES).map(|i| ((i * 7) >> 3) as u8).collect();
                // In one call.
                assert_eq!(from.write(&data).unwrap(), BYTES);
            });
            let mut data = Vec::new();
            to.read_to_end(&mut data).unwrap();
            assert_eq!(data.len(), BYTES);
            assert!(data.iter().enumerate().all(|(i, &x)| x == ((i * 7) >> 3) as u8));
        });
    }
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let (to, from) = pipe().unwrap();
            flood(from, to);
            let (to, from) = tcp();
            flood(from, to);
            let (to, from) = UnixStream::pair().unwrap();
            flood(from, to);
        });
    }
}

#[test]
fn timeouts() {
    /// It ends with this error, after its time.
    fn ends<T: std::fmt::Debug>(wanted: ErrorKind, f: impl FnOnce() -> std::io::Result<T>) {
        let start = Instant::now();
        assert_eq!(f().unwrap_err().kind(), wanted);
        assert!(start.elapsed() + Duration::from_millis(1) >= SOON, "{:?}", start.elapsed());
    }
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let would_block = ErrorKind::WouldBlock;
            let (mut a, _b) = tcp();
            a.set_read_timeout(Some(SOON)).unwrap();
            ends(would_block, || a.read(&mut [0]));
            ends(would_block, || a.peek(&mut [0]));
            // There is no more room for what was sent before: buffers of TCP may grow.
            let (mut a, _b) = UnixStream::pair().unwrap();
            a.set_write_timeout(Some(SOON)).unwrap();
            let data = vec![0; 1 << 22];
            assert!(a.write(&data).unwrap() < data.len());
            ends(would_block, || a.write(&data));
            let a = UnixDatagram::unbound().unwrap();
            a.set_read_timeout(Some(SOON)).unwrap();
            ends(would_block, || a.recv(&mut [0]));
            let (a, _b) = UnixStream::pair().unwrap();
            a.set_nonblocking(true).unwrap();
            assert_eq!((&a).read(&mut [0]).unwrap_err().kind(), would_block);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let to = listener.local_addr().unwrap();
            TcpStream::connect_timeout(&to, Duration::from_secs(60)).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener.accept().unwrap();
            assert_eq!(listener.accept().unwrap_err().kind(), would_block);
            drop(listener);
            assert_eq!(TcpStream::connect(to).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        });
    }
}

/// The end of a stream, and of a listener, ends those that wait for them.
#[test]
fn shutdown_ends_waits() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            let (mut a, b) = tcp();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            quaver::scope(|s| {
                let reader = s.spawn(|| a.read(&mut [0]));
                let acceptor = s.spawn(|| listener.accept().map(|_| ()));
                quaver::sleep(Duration::from_millis(2));
                b.shutdown(Shutdown::Write).unwrap();
                assert_eq!(reader.join().unwrap().unwrap(), 0);
                // SAFETY: no memory.
                assert_eq!(unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RD) }, 0);
                assert_eq!(acceptor.join().unwrap().unwrap_err().kind(), ErrorKind::InvalidInput);
            });
        });
    }
}

/// A call that waits keeps its file, and not the number, which may be another file's by now.
#[test]
fn a_descriptor_that_is_replaced() {
    for setup in Setup::all_clocks() {
        setup.run(|| {
            for replace in [false, true] {
                let (old, mut peer) = UnixStream::pair().unwrap();
                let (other, mut others) = UnixStream::pair().unwrap();
                let (waiting, number) = (AtomicBool::new(false), old.into_raw_fd());
                quaver::scope(|s| {
                    let reader = s.spawn(|| {
                        let mut data = [0u8; 8];
                        // All of it: it is in the call when a part has been taken.
                        // SAFETY: writes there.
                        let n = unsafe {
                            waiting.store(true, SeqCst);
                            libc::recv(number, data.as_mut_ptr().cast(), 8, libc::MSG_WAITALL)
                        };
                        assert_eq!((n, &data), (8, b"abcdefgh"));
                    });
                    peer.write_all(b"abcd").unwrap();
                    let mut left: libc::c_int = 4;
                    while left > 0 || !waiting.load(SeqCst) {
                        quaver::sleep(Duration::from_micros(100));
                        // SAFETY: writes one number.
                        let r = unsafe { libc::ioctl(number, libc::FIONREAD, &raw mut left) };
                        assert_eq!(r, 0);
                    }
                    // SAFETY: nobody else uses these descriptors any more.
                    unsafe {
                        if replace {
                            assert_eq!(libc::dup2(other.as_raw_fd(), number), number);
                        } else {
                            drop(OwnedFd::from_raw_fd(number));
                        }
                    }
                    others.write_all(b"12345678").unwrap();
                    peer.write_all(b"efgh").unwrap();
                    reader.join().unwrap();
                });
                if replace {
                    // SAFETY: the duplicate.
                    drop(unsafe { OwnedFd::from_raw_fd(number) });
                }
                let gone = peer.write_all(b"x").unwrap_err();
                assert_eq!(gone.kind(), ErrorKind::BrokenPipe);
                let mut data = [0; 8];
                (&other).read_exact(&mut data).unwrap();
                assert_eq!(&data, b"12345678");
            }
        });
    }
}

/// Kernel threads do as ever, beside user threads and without any.
#[test]
fn kernel_threads_wait_in_the_kernel() {
    let exercise = || {
        let path = std::env::temp_dir().join(format!("quaver-std-files-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                let mut data = Vec::new();
                stream.read_to_end(&mut data).unwrap();
                assert_eq!(data, b"hello");
            });
            let mut stream = UnixStream::connect(&path).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            stream.write_all(b"hello").unwrap();
        });
        std::fs::remove_file(&path).unwrap();
        let (a, b) = UnixStream::pair().unwrap();
        a.set_read_timeout(Some(SOON)).unwrap();
        assert_eq!((&a).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(b);
    };
    support::setup::alone(exercise);
    Setup { workers: 1, ..Setup::all()[0] }.run(|| quaver::block_in_place(exercise));
    // Its own words to a user thread.
    Setup::all()[0].run(|| {
        let (mut rx, mut tx): (PipeReader, _) = pipe().unwrap();
        let writer = std::thread::spawn(move || tx.write_all(b"abc").unwrap());
        let mut data = Vec::new();
        rx.read_to_end(&mut data).unwrap();
        assert_eq!(data, b"abc");
        writer.join().unwrap();
    });
}

/// An executor's file: events, none in time, and several threads that wait for the same.
#[test]
fn epoll_files() {
    for setup in Setup::all() {
        setup.run(|| {
            let (mut a, mut b) = pipe().unwrap();
            let epoll = epoll_of(&a);
            assert_eq!(epoll_wait(&epoll, 0), 0);
            let began = Instant::now();
            assert_eq!(epoll_wait(&epoll, 20), 0);
            assert!(began.elapsed() >= Duration::from_millis(20));
            quaver::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| assert_eq!(epoll_wait(&epoll, -1), 1));
                }
                quaver::sleep(SOON);
                b.write_all(b"x").unwrap();
            });
            a.read_exact(&mut [0]).unwrap();
        });
    }
}
