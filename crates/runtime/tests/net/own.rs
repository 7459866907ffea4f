//! What `quaver::net` has beside `std`'s interface.

use crate::on::a_moment;
use crate::support::setup::{alone, with_leftover};
use crate::support::{on_runtime, spin, stats};
use quaver::Builder;
use quaver::net::unix::{UnixDatagram, UnixListener, UnixStream};
use quaver::net::{Ipv4Addr, Pollable, TcpListener, TcpStream, UdpSocket};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Two ends of a connection.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn is_nonblocking(fd: &impl AsRawFd) -> bool {
    // SAFETY: takes no pointer.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

#[test]
fn they_can_be_shared_and_sent_and_caught() {
    fn check<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static>() {}
    check::<(TcpListener, TcpStream, UdpSocket)>();
    check::<(UnixListener, UnixStream, UnixDatagram)>();
    check::<Pollable<OwnedFd>>();
}

/// The file is non-blocking while it is ours, and gets its mode and timeouts back.
#[test]
fn to_std_and_back() {
    let second = Some(Duration::from_secs(1));
    let (one, _other) = connected();
    assert!(is_nonblocking(&one));
    one.set_read_timeout(second).unwrap();
    let one = net::TcpStream::from(one);
    assert!(!is_nonblocking(&one));
    assert_eq!(one.read_timeout().unwrap(), second);

    let short = Duration::from_millis(5);
    one.set_read_timeout(Some(short)).unwrap();
    one.set_write_timeout(second).unwrap();
    let mut one = TcpStream::from(one);
    assert!(is_nonblocking(&one));
    assert_eq!(one.read_timeout().unwrap().map(|t| t >= short), Some(true));
    assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);

    one.set_nonblocking(true).unwrap();
    let one = OwnedFd::from(one);
    assert!(is_nonblocking(&one), "as the user wishes");
    let mut one = TcpStream::from(one);
    one.set_read_timeout(None).unwrap();
    assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);

    one.set_nonblocking(false).unwrap();
    let clone = one.try_clone().unwrap();
    let fd = one.as_raw_fd();
    let one = one.into_raw_fd();
    assert!(fd == one && is_nonblocking(&one), "a clone needs it");
    // SAFETY: what `into_raw_fd` has returned.
    drop(unsafe { OwnedFd::from_raw_fd(one) });
    let clone = net::TcpStream::from(clone);
    assert!(!is_nonblocking(&clone));
    // SAFETY: what `into_raw_fd` has returned.
    let one = unsafe { TcpStream::from_raw_fd(clone.into_raw_fd()) };
    assert!(is_nonblocking(&one));
}

/// Not even by a tick of the kernel, in which `std` counts.
#[test]
fn a_timeout_is_never_early() {
    let body = || {
        let (mut one, _other) = connected();
        let time = Duration::from_micros(3_300);
        one.set_read_timeout(Some(time)).unwrap();
        for _ in 0..10 {
            let begin = Instant::now();
            assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(begin.elapsed() >= time, "{:?}", begin.elapsed());
        }
    };
    body();
    on_runtime(Builder::new().workers(1), body);
}

/// `std`'s timeout of a listener is one of its connections, too.
#[test]
fn what_is_accepted_inherits_the_timeout() {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let time = Some(Duration::from_millis(12));
    socket2::SockRef::from(&listener).set_read_timeout(time).unwrap();
    let listener = TcpListener::from(listener);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let _one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let of_listener = socket2::SockRef::from(&listener).read_timeout().unwrap();
    assert_eq!(stream.read_timeout().unwrap(), of_listener);
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Beyond the 128 of `std`, where the system allows it.
#[test]
fn many_clients_queue() {
    // While no other test has many files.
    alone(|| {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let most = most.trim().parse::<usize>().unwrap().min(300);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(600)).unwrap();
        let clients: Vec<_> = (0..most).map(connect).collect();
        for client in &clients {
            assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
        }
    });
}

#[test]
fn everything_converts() {
    fn there_and_back<S, T: From<S>>(socket: S)
    where
        S: From<T>,
    {
        drop(S::from(T::from(socket)));
    }
    let folder = std::env::temp_dir().join(format!("quaver-own-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.join("socket"));
    std::fs::remove_dir_all(&folder).unwrap();
    there_and_back::<_, UnixListener>(listener.unwrap());
    there_and_back::<_, UnixStream>(std::os::unix::net::UnixStream::pair().unwrap().0);
    there_and_back::<_, UnixDatagram>(std::os::unix::net::UnixDatagram::unbound().unwrap());
    there_and_back::<_, TcpListener>(net::TcpListener::bind("127.0.0.1:0").unwrap());
    there_and_back::<_, UdpSocket>(net::UdpSocket::bind("127.0.0.1:0").unwrap());
}

/// What the kernel says about multicast differs between machines, and not between these two.
#[test]
fn multicast_as_in_std() {
    let (ours, theirs) = ("127.0.0.1:0", "127.0.0.1:0");
    let ours = UdpSocket::bind(ours).unwrap();
    let theirs = net::UdpSocket::bind(theirs).unwrap();
    let (group, any) = (Ipv4Addr::new(224, 0, 0, 123), Ipv4Addr::LOCALHOST);
    let text = |result: std::io::Result<()>| result.map_err(|e| e.to_string());
    assert_eq!(
        text(ours.join_multicast_v4(&group, &any)),
        text(theirs.join_multicast_v4(&group, &any))
    );
    assert_eq!(
        text(ours.leave_multicast_v4(&group, &any)),
        text(theirs.leave_multicast_v4(&group, &any))
    );
    assert_eq!(
        text(ours.join_multicast_v4(&Ipv4Addr::LOCALHOST, &any)),
        text(theirs.join_multicast_v4(&Ipv4Addr::LOCALHOST, &any))
    );
    let group = "ff02::123".parse().unwrap();
    assert_eq!(text(ours.join_multicast_v6(&group, 0)), text(theirs.join_multicast_v6(&group, 0)));
    assert_eq!(
        text(ours.leave_multicast_v6(&group, 0)),
        text(theirs.leave_multicast_v6(&group, 0))
    );
    assert_eq!(text(ours.set_multicast_loop_v6(true)), text(theirs.set_multicast_loop_v6(true)));
    assert_eq!(
        ours.multicast_loop_v6().map_err(|e| e.to_string()),
        theirs.multicast_loop_v6().map_err(|e| e.to_string())
    );
}

/// One stream, read on a kernel thread and written on a user thread, and the other way round.
#[test]
fn kernel_threads_and_user_threads() {
    on_runtime(Builder::new().workers(1), || {
        let (one, other) = connected();
        let kernel = std::thread::spawn(move || {
            let mut data = [0; 3];
            for _ in 0..500 {
                (&other).read_exact(&mut data).unwrap();
                (&other).write_all(&data).unwrap();
            }
        });
        let mut data = [0; 3];
        for i in 0..500u16 {
            let sent = [1, i as u8, (i >> 8) as u8];
            (&one).write_all(&sent).unwrap();
            (&one).read_exact(&mut data).unwrap();
            assert_eq!(data, sent);
        }
        kernel.join().unwrap();
    });
}

/// As the kernel does it for a socket that blocks; with a timeout it is less in the end.
#[test]
fn a_write_takes_everything() {
    const BYTES: usize = 5_000_000;
    let body = || {
        let (one, mut other) = connected();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            other.read_to_end(&mut got).unwrap();
            got
        });
        let data: Vec<u8> = (0..BYTES).map(|i| (i / 3) as u8).collect();
        assert_eq!((&one).write(&data).unwrap(), BYTES);
        let (a, b) = data.split_at(1_234_567);
        let vectors = [IoSlice::new(a), IoSlice::new(&[]), IoSlice::new(b)];
        assert_eq!((&one).write_vectored(&vectors).unwrap(), BYTES);
        drop(one);
        assert!(reader.join().unwrap() == [&data[..], &data].concat());

        let (one, _other) = connected();
        one.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
        let n = (&one).write(&vec![0; 100_000_000]).unwrap();
        assert!(0 < n && n < 100_000_000);
    };
    body();
    on_runtime(Builder::new().workers(1), body);
}

/// Threads that wait do so in the reactor, and take no kernel threads.
#[test]
fn waiting_threads_are_parked() {
    const ROUNDS: u64 = 500;
    on_runtime(Builder::new().workers(1), || {
        let (one, other) = connected();
        let before = stats();
        let echo = quaver::spawn(move || {
            while (&other).read_exact(&mut [0]).is_ok() {
                (&other).write_all(b"!").unwrap();
            }
        });
        for _ in 0..ROUNDS {
            (&one).write_all(b"?").unwrap();
            (&one).read_exact(&mut [0]).unwrap();
        }
        let after = stats();
        drop(one);
        echo.join().unwrap();
        // Each round has two waits. Some end before they begin.
        assert!(after.file_wakes - before.file_wakes >= ROUNDS, "{before:?} {after:?}");
        assert!(after.handovers - before.handovers < ROUNDS / 10, "{before:?} {after:?}");
    });
}

/// A runtime ends while a thread waits for a socket. Threads of the next one use it.
#[test]
fn a_thread_that_is_left_behind_is_in_nobodys_way() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let accept = |listener: &Arc<TcpListener>| {
        let listener = listener.clone();
        quaver::spawn(move || listener.accept().unwrap().1)
    };
    let connect = |listener: &TcpListener| {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.local_addr().unwrap()
    };
    for _ in 0..3 {
        let (_, left) = with_leftover(Builder::new().workers(1), |rt| {
            rt.run(|| {
                drop(accept(&listener));
                a_moment();
            });
        });
        assert_eq!((left.threads, left.kernel_threads), (1, 0));
        on_runtime(Builder::new().workers(2), || {
            let acceptors = [accept(&listener), accept(&listener)];
            a_moment();
            let mut clients = [connect(&listener), connect(&listener)];
            let mut accepted = acceptors.map(|acceptor| acceptor.join().unwrap());
            clients.sort_unstable();
            accepted.sort_unstable();
            assert_eq!(accepted, clients);
        });
    }
}

/// A thread that computes until another one, which waits for data, has got it: on one worker, so
/// arrivals count as work.
#[test]
fn an_arrival_interrupts_a_computation() {
    on_runtime(Builder::new().workers(1).quantum(Some(Duration::from_micros(100))), || {
        let (one, other) = connected();
        let arrived = Arc::new(AtomicBool::new(false));
        let reader = quaver::spawn({
            let arrived = arrived.clone();
            move || {
                for _ in 0..20 {
                    (&other).read_exact(&mut [0]).unwrap();
                    (&other).write_all(b"!").unwrap();
                }
                arrived.store(true, SeqCst);
            }
        });
        let outside = std::thread::spawn(move || {
            for _ in 0..20 {
                (&one).write_all(b"?").unwrap();
                (&one).read_exact(&mut [0]).unwrap();
            }
        });
        while !arrived.load(SeqCst) {
            spin(1000);
        }
        reader.join().unwrap();
        outside.join().unwrap();
    });
}
