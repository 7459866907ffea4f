//! Two stacks, a wire between them, and a clock that jumps to whatever comes next.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod kernel;
pub mod live;

use quaver::net::stack::{Kind, Readiness, Socket, Stack};
use quaver_net::clock::Clock;
use quaver_net::device::Device;
use quaver_net::memory::{Faults, Handle, Wire};
use quaver_net::{Net, Shared};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

pub const A: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
pub const B: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

pub struct Pair {
    pub a: Arc<Net>,
    pub b: Arc<Net>,
    pub clock: Clock,
    pub ends: Vec<Handle>,
}

pub struct Settings {
    pub faults: Faults,
    pub seed: u64,
    pub queues: usize,
    pub buffers: usize,
    pub connections: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            faults: Faults::default(),
            seed: 1,
            queues: 1,
            buffers: 64 << 10,
            connections: 4096,
        }
    }
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Pair {
        let clock = Clock::simulated();
        let Settings { faults, seed, queues, .. } = settings;
        let wire = Wire { faults, seed, queues, ..Wire::new(clock.clone()) };
        let (a, b) = wire.connect().unwrap();
        let ends = a.iter().chain(&b).map(|device| device.handle()).collect();
        let net = |address, devices: Vec<_>| {
            Net::builder(address, 24)
                .devices(devices.into_iter().map(|device| Box::new(device) as Box<dyn Device>))
                .clock(clock.clone())
                .seed(seed)
                .buffers(settings.buffers, settings.buffers)
                .connections(settings.connections)
                .build()
                .unwrap()
        };
        Pair { a: net(A, a), b: net(B, b), clock: clock.clone(), ends }
    }

    /// Lets time pass until nothing happens any more, or `done`. `false`: nothing happens, or the
    /// time is over.
    pub fn until(&self, seconds: u64, done: impl FnMut() -> bool) -> bool {
        self.until_micros(self.clock.now() + seconds * 1_000_000, done)
    }

    fn until_micros(&self, end: u64, mut done: impl FnMut() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if self.a.turn() | self.b.turn() {
                continue;
            }
            if done() {
                return true;
            }
            let arrivals = self.ends.iter().map(Handle::next_arrival);
            let next = arrivals.chain([self.a.next(), self.b.next()]).flatten().min();
            match next {
                Some(at) if at <= end => self.clock.advance_to(at.max(self.clock.now() + 1)),
                _ => return false,
            }
        }
    }

    /// Lets everything that is on its way arrive.
    pub fn settle(&self) {
        while self.a.turn() | self.b.turn() {}
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: u64) {
        self.pass_millis(seconds * 1000);
    }

    pub fn pass_millis(&self, millis: u64) {
        let end = self.clock.now() + millis * 1000;
        self.until_micros(end, || false);
        self.clock.advance_to(end);
        self.settle();
    }

    /// A connection from A to B: the two sockets.
    pub fn connected(&self) -> (Arc<dyn Socket>, Arc<dyn Socket>) {
        let server = stream(&self.b);
        server.bind(at(B, 0)).unwrap();
        server.listen(8).unwrap();
        let client = stream(&self.a);
        let port = server.local_addr().port();
        assert_eq!(errno(client.connect(at(B, port))), libc::EINPROGRESS);
        assert!(self.until(5, || client.readiness().contains(Readiness::WRITABLE)));
        assert!(self.until(5, || server.readiness() == Readiness::READABLE));
        let (accepted, peer) = server.accept().unwrap();
        assert_eq!(peer, client.local_addr());
        client.connect(at(B, port)).unwrap();
        server.close();
        (client, accepted)
    }
}

pub fn at(ip: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

pub fn stream(net: &Arc<Net>) -> Arc<dyn Socket> {
    Shared::from(net.clone()).socket(Kind::Stream).unwrap()
}

pub fn datagrams(net: &Arc<Net>) -> Arc<dyn Socket> {
    Shared::from(net.clone()).socket(Kind::Datagram).unwrap()
}

/// The number of the error, or 0.
pub fn errno<T>(result: io::Result<T>) -> i32 {
    result.map_or_else(|e| e.raw_os_error().expect("a number of the system"), |_| 0)
}

pub fn send(socket: &dyn Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.send(&[IoSlice::new(bytes)], None)
}

pub fn receive(socket: &dyn Socket, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let received = socket.receive(&mut [IoSliceMut::new(&mut bytes)], false)?;
    bytes.truncate(received.len);
    Ok(bytes)
}

/// Counts what a socket announces.
#[derive(Clone, Default)]
pub struct Ear {
    bits: Arc<AtomicU32>,
    times: Arc<AtomicUsize>,
}

impl Ear {
    pub fn of(socket: &dyn Socket) -> Ear {
        let ear = Ear::default();
        let (bits, times) = (ear.bits.clone(), ear.times.clone());
        socket.announce_to(Arc::new(move |news: Readiness| {
            bits.fetch_or(news.bits(), SeqCst);
            times.fetch_add(1, SeqCst);
        }));
        ear
    }

    /// What has been announced since the last call.
    pub fn heard(&self) -> u32 {
        self.bits.swap(0, SeqCst)
    }

    pub fn times(&self) -> usize {
        self.times.load(SeqCst)
    }
}
