//! The stack and the kernel's, over a TAP interface in a network namespace. Needs root,
//! /dev/net/tun and `ip`; says so and does nothing otherwise.

mod common;

use common::live::Waiting;
use common::{at, errno};
use quaver::net::stack::{Kind, Stack};
use quaver::sched::random::splitmix64;
use quaver_net::device::Device;
use quaver_net::tap::Tap;
use quaver_net::{Net, Running};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// There is one runtime in a process at a time.
static ONE: Mutex<()> = Mutex::new(());
/// Interfaces have names of their own, so that nobody waits for one to disappear.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A TAP interface that loses frames in both directions.
struct Lossy {
    tap: Tap,
    loss: f64,
    state: u64,
}

impl Lossy {
    fn loses(state: &mut u64, loss: f64) -> bool {
        loss > 0.0 && (splitmix64(state) >> 11) as f64 / ((1u64 << 53) as f64) < loss
    }
}

impl Device for Lossy {
    fn address(&self) -> [u8; 6] {
        self.tap.address()
    }

    fn mtu(&self) -> usize {
        self.tap.mtu()
    }

    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Lossy { tap, loss, state } = self;
        tap.receive(most, &mut |frame| {
            if !Lossy::loses(state, *loss) {
                take(frame);
            }
        })
    }

    fn transmit(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        if Lossy::loses(&mut self.state, self.loss) {
            fill(&mut vec![0; len]);
            return true;
        }
        self.tap.transmit(len, fill)
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.tap.flush()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.tap.file()
    }
}

/// A stack on a TAP interface in a namespace of its own.
fn with_stack(queues: usize, loss: f64, body: impl FnOnce(&Running) + Send) {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    // SAFETY: takes no pointer. The namespace is this thread's, and of those that it makes.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return println!("skipped: no right to make a network namespace: run as root");
    }
    let name = format!("qt{}", NUMBER.fetch_add(1, SeqCst));
    let taps = match Tap::open(&name, queues) {
        Ok(taps) => taps,
        Err(e) => return println!("skipped: {e}"),
    };
    let address = format!("{KERNEL}/24");
    let ip = Command::new("ip").args(["addr", "add", &address, "dev", &name]).status();
    if !ip.is_ok_and(|status| status.success()) {
        return println!("skipped: needs the program ip");
    }
    let runtime = quaver::Builder::new().workers(2).build().unwrap();
    runtime.run(|| {
        let handle = quaver::Handle::current().unwrap();
        let taps = taps.into_iter().map(|tap| Lossy { tap, loss, state: 3 });
        let devices = taps.map(|tap| Box::new(tap) as Box<dyn Device>);
        let running = Net::builder(OURS, 24).devices(devices).start(&handle).unwrap();
        body(&running);
        running.stop();
    });
}

/// A thread of the kernel's stack, which may block.
fn natively<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    quaver::block_in_place(f)
}

fn pattern(len: usize) -> Vec<u8> {
    let mut state = 5;
    let words = (0..len.div_ceil(8)).flat_map(|_| splitmix64(&mut state).to_ne_bytes());
    words.take(len).collect()
}

/// Sends everything to a server that sends it back, and compares.
fn mirror(mut stream: TcpStream, data: &[u8]) {
    let mut writer = stream.try_clone().unwrap();
    std::thread::scope(|s| {
        s.spawn(move || {
            writer.write_all(data).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert!(back == data, "{} of {} bytes, or others", back.len(), data.len());
    });
}

/// Sends back what comes, until the end.
fn echo(connection: &Waiting) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(n @ 1..) = connection.read(&mut buffer) {
        connection.write_all(&buffer[..n]).unwrap();
    }
}

fn serve_echo(stack: &dyn Stack, backlog: usize) {
    let listener = Waiting::listen(stack, at(OURS, 80), backlog);
    quaver::spawn_detached(move || {
        while let Ok(connection) = listener.accept() {
            quaver::spawn_detached(move || echo(&connection));
        }
    });
}

fn kernel_to_ours(queues: usize, loss: f64, bytes: usize) {
    with_stack(queues, loss, |running| {
        serve_echo(&*running.stack(), 16);
        let data = pattern(bytes);
        natively(|| mirror(TcpStream::connect((OURS, 80)).unwrap(), &data));
    });
}

fn ours_to_kernel(loss: f64, bytes: usize) {
    with_stack(1, loss, |running| {
        let listener = natively(|| TcpListener::bind((KERNEL, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            connection.read_to_end(&mut all).unwrap();
            connection.write_all(&all).unwrap();
        });
        let client = Waiting::stream(&*running.stack());
        client.connect(at(KERNEL, port)).unwrap();
        let data = pattern(bytes);
        client.write_all(&data).unwrap();
        client.shutdown();
        assert!(client.read_to_end().unwrap() == data);
        natively(|| server.join().unwrap());
    });
}

#[test]
fn bulk_from_the_kernel() {
    kernel_to_ours(1, 0.0, 16 << 20);
}

#[test]
fn bulk_from_the_kernel_over_several_queues() {
    kernel_to_ours(2, 0.0, 4 << 20);
}

#[test]
fn bulk_from_the_kernel_with_loss() {
    kernel_to_ours(1, 0.01, 1 << 20);
}

#[test]
fn bulk_to_the_kernel() {
    ours_to_kernel(0.0, 16 << 20);
}

#[test]
fn bulk_to_the_kernel_with_loss() {
    ours_to_kernel(0.01, 1 << 20);
}

/// So many descriptors as the test needs.
fn raise_limit() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: written, then read, during the calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    limit.rlim_max >= 4096
}

#[test]
fn a_thousand_connections_from_the_kernel() {
    if !raise_limit() {
        return println!("skipped: too few descriptors: ulimit -n 4096");
    }
    with_stack(1, 0.0, |running| {
        serve_echo(&*running.stack(), 1024);
        natively(|| {
            let mut clients: Vec<_> =
                (0..1000).map(|_| TcpStream::connect((OURS, 80)).unwrap()).collect();
            for round in 0..3u32 {
                for (i, client) in clients.iter_mut().enumerate() {
                    client.write_all(&(round * 1000 + i as u32).to_be_bytes()).unwrap();
                }
                for (i, client) in clients.iter_mut().enumerate() {
                    let mut answer = [0; 4];
                    client.read_exact(&mut answer).unwrap();
                    assert_eq!(u32::from_be_bytes(answer), round * 1000 + i as u32);
                }
            }
        });
        assert_eq!(running.net().stats().accepted, 1000);
    });
}

#[test]
fn a_thousand_connections_to_the_kernel() {
    if !raise_limit() {
        return println!("skipped: too few descriptors: ulimit -n 4096");
    }
    with_stack(1, 0.0, |running| {
        let listener = natively(|| TcpListener::bind((KERNEL, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let mut connections: Vec<_> = (0..1000).map(|_| listener.accept().unwrap().0).collect();
            for connection in &mut connections {
                let mut message = [0; 4];
                connection.read_exact(&mut message).unwrap();
                connection.write_all(&message).unwrap();
            }
        });
        let clients: Vec<_> = (0..1000u32)
            .map(|_| {
                let client = Waiting::stream(&*running.stack());
                client.connect(at(KERNEL, port)).unwrap();
                client
            })
            .collect();
        for (i, client) in clients.iter().enumerate() {
            client.write_all(&(i as u32).to_be_bytes()).unwrap();
        }
        for (i, client) in clients.iter().enumerate() {
            let mut answer = [0; 4];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(u32::from_be_bytes(answer), i as u32);
        }
        natively(|| server.join().unwrap());
    });
}

#[test]
fn who_does_not_listen_refuses() {
    with_stack(1, 0.0, |running| {
        let refused = natively(|| TcpStream::connect((OURS, 9)).unwrap_err());
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let client = Waiting::stream(&*running.stack());
        assert_eq!(errno(client.connect(at(KERNEL, 9))), libc::ECONNREFUSED);
        // Datagrams: by messages of ICMP.
        natively(|| {
            let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.connect((OURS, 9)).unwrap();
            socket.send(b"anybody?").unwrap();
            let refused = socket.recv(&mut [0; 9]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        });
        let ours = Waiting::new(running.stack().socket(Kind::Datagram).unwrap());
        ours.socket.connect(at(KERNEL, 9)).unwrap();
        ours.socket.send(&[IoSlice::new(b"anybody?")], None).unwrap();
        assert_eq!(errno(ours.read(&mut [0; 9])), libc::ECONNREFUSED);
    });
}

#[test]
fn datagrams_both_ways() {
    with_stack(1, 0.0, |running| {
        let ours = running.stack().socket(Kind::Datagram).unwrap();
        ours.bind(at(OURS, 53)).unwrap();
        let ours = Waiting::new(ours);
        let kernel = natively(|| UdpSocket::bind((KERNEL, 0)).unwrap());
        kernel.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        for len in [0, 1, 100, 1472] {
            let data = pattern(len);
            natively(|| kernel.send_to(&data, (OURS, 53)).unwrap());
            let mut buffer = [0; 2000];
            let from = ours
                .wait_for(|socket| {
                    let got = socket.receive(&mut [IoSliceMut::new(&mut buffer)], false)?;
                    assert_eq!((got.len, got.whole), (len, len));
                    Ok(got.from)
                })
                .unwrap();
            assert_eq!(from, Some(kernel.local_addr().unwrap()));
            ours.socket.send(&[IoSlice::new(&buffer[..len])], from).unwrap();
            let mut back = [0; 2000];
            let (n, from) = natively(|| kernel.recv_from(&mut back).unwrap());
            assert_eq!((&back[..n], from), (&data[..], at(OURS, 53)));
        }
        let long = pattern(1473);
        let failed = ours.socket.send(&[IoSlice::new(&long)], Some(at(KERNEL, 9)));
        assert_eq!(errno(failed), libc::EMSGSIZE);
    });
}
