//! A stack: its shards, and the sockets that programs get.

use crate::clock::Clock;
use crate::config::{Config, Subnet};
use crate::device::Device;
use crate::driver;
use crate::lock::Lock;
use crate::ports::Ports;
use crate::sockets::{Tcp, Udp};
use crate::stack::table::Seed;
use crate::stack::{NEVER, Shard, Stray, errno};
use crate::stats::Stats;
use crate::steering::Steering;
use quaver::net::stack::{Kind, Socket, Stack};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Turns without an end are a bug: a stack does not send to itself for ever.
const MOST_TURNS: usize = 1_000_000;

/// How a stack is to be.
pub struct Builder {
    devices: Vec<Box<dyn Device>>,
    config: Config,
    clock: Option<Clock>,
}

/// A TCP/IP stack in user space: IPv4, with one address.
///
/// Its sockets never wait; see [`quaver::net::stack`].
pub struct Net {
    pub(crate) shards: Vec<Shard>,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    pub(crate) tcp_ports: Lock<Ports>,
    pub(crate) udp_ports: Lock<Ports>,
    pub(crate) steering: Arc<Steering>,
    next_shard: AtomicUsize,
    stopped: AtomicBool,
}

/// A stack that is driven by user threads. Dropping it ends the stack.
pub struct Running {
    net: Arc<Net>,
    threads: Vec<quaver::JoinHandle<()>>,
}

impl Net {
    /// A stack with this address, in a network of so many bits.
    pub fn builder(address: Ipv4Addr, prefix: u8) -> Builder {
        let seed = RandomState::new().hash_one(0);
        let config = Config {
            subnet: Subnet { address, prefix: prefix.min(32), gateway: None },
            any: true,
            receive_buffer: 64 << 10,
            send_buffer: 64 << 10,
            datagram_buffer: 256 << 10,
            connections: 1 << 16,
            seed,
        };
        Builder { devices: Vec::new(), config, clock: None }
    }

    /// Handles all frames that have come and everything that is due, for a stack without drivers.
    /// Says whether there was anything.
    pub fn turn(&self) -> bool {
        let before = self.stats();
        for _ in 0..MOST_TURNS {
            let mut more = false;
            for (index, shard) in self.shards.iter().enumerate() {
                if let Ok(turn) = shard.turn() {
                    more |= turn.more | !turn.strays.is_empty();
                    self.steer(index, turn.strays);
                }
            }
            if !more {
                return self.stats() != before;
            }
        }
        panic!("a stack must come to rest");
    }

    /// When something is due that no frame will ask for, in microseconds of its clock.
    pub fn next(&self) -> Option<u64> {
        let next = self.shards.iter().map(|shard| shard.sleep_until_next()).min();
        next.filter(|&next| next != NEVER)
    }

    /// What it has done.
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        for shard in &self.shards {
            all += shard.stats();
        }
        all
    }

    /// Its address and network.
    pub fn subnet(&self) -> Subnet {
        self.config.subnet
    }

    /// Ends the stack: its sockets fail with `ENETDOWN`. What was sent and is not yet acknowledged
    /// is lost.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        for shard in &self.shards {
            shard.stop();
            if let Some(keeper) = shard.keeper() {
                keeper.unpark();
            }
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Gives frames that have come to the shard `from` to those who can use them; back to it, to be
    /// refused, if nobody can.
    pub(crate) fn steer(&self, from: usize, strays: Vec<Stray>) {
        for Stray { key, frame } in strays {
            if let Some(key) = key {
                self.shards[self.steering.owner(key).unwrap_or(from)].hand_over(frame);
                continue;
            }
            for (_, shard) in self.shards.iter().enumerate().filter(|&(other, _)| other != from) {
                shard.hand_over(frame.clone());
            }
        }
    }

    /// A shard for a new socket.
    pub(crate) fn any_shard(&self) -> usize {
        self.next_shard.fetch_add(1, Relaxed) % self.shards.len()
    }

    /// An address to bind to.
    pub(crate) fn local(&self, address: SocketAddr) -> io::Result<SocketAddrV4> {
        let SocketAddr::V4(address) = address else { return Err(errno(libc::EAFNOSUPPORT)) };
        let ip = *address.ip();
        if ip.is_unspecified() || ip == self.config.subnet.address {
            Ok(address)
        } else {
            Err(errno(libc::EADDRNOTAVAIL))
        }
    }

    /// An address to send to.
    pub(crate) fn remote(&self, address: SocketAddr) -> io::Result<SocketAddrV4> {
        let SocketAddr::V4(address) = address else { return Err(errno(libc::EAFNOSUPPORT)) };
        let subnet = self.config.subnet;
        let ip = *address.ip();
        if subnet.is_broadcast(ip) {
            return Err(errno(libc::EACCES));
        }
        if !subnet.is_host(ip) || subnet.hop(ip).is_none() {
            return Err(errno(libc::ENETUNREACH));
        }
        Ok(address)
    }

    pub(crate) fn fails(&self) -> io::Result<()> {
        let down = self.is_stopped() || self.shards.iter().any(Shard::has_failed);
        if down { Err(errno(libc::ENETDOWN)) } else { Ok(()) }
    }
}

/// `Stack` hands out sockets that know their stack.
#[derive(Clone)]
pub struct Shared(pub(crate) Arc<Net>);

impl Stack for Shared {
    fn owns(&self, local: IpAddr) -> bool {
        match local {
            IpAddr::V4(ip) if ip.is_unspecified() => self.0.config.any,
            IpAddr::V4(ip) => ip == self.0.config.subnet.address,
            IpAddr::V6(_) => false,
        }
    }

    fn reaches(&self, remote: IpAddr) -> bool {
        let IpAddr::V4(ip) = remote else { return false };
        let subnet = self.0.config.subnet;
        subnet.is_host(ip) && subnet.hop(ip).is_some()
    }

    fn socket(&self, kind: Kind) -> io::Result<Arc<dyn Socket>> {
        self.0.fails()?;
        Ok(match kind {
            Kind::Stream => Arc::new(Tcp::new(self.0.clone())),
            Kind::Datagram => Arc::new(Udp::new(self.0.clone())),
        })
    }
}

impl Builder {
    /// Adds a queue of the interface. All queues have the same address.
    #[must_use]
    pub fn device(mut self, device: impl Device + 'static) -> Builder {
        self.devices.push(Box::new(device));
        self
    }

    /// Adds queues of the interface.
    #[must_use]
    pub fn devices(mut self, devices: impl IntoIterator<Item = Box<dyn Device>>) -> Builder {
        self.devices.extend(devices);
        self
    }

    /// Who forwards packets to other networks. Without one, only neighbours are reached.
    #[must_use]
    pub fn gateway(mut self, gateway: Option<Ipv4Addr>) -> Builder {
        self.config.subnet.gateway = gateway;
        self
    }

    /// Does the stack get sockets that are bound to any address? It does if nothing is said.
    #[must_use]
    pub fn any(mut self, any: bool) -> Builder {
        self.config.any = any;
        self
    }

    /// Bytes that a connection can have received and not read, and sent without being
    /// acknowledged: 64 KiB each if nothing is said.
    #[must_use]
    pub fn buffers(mut self, receive: usize, send: usize) -> Builder {
        let bounds = |bytes: usize| bytes.clamp(2048, 1 << 30);
        (self.config.receive_buffer, self.config.send_buffer) = (bounds(receive), bounds(send));
        self
    }

    /// Bytes of datagrams that a socket can have received and not read: 256 KiB if nothing is
    /// said.
    #[must_use]
    pub fn datagram_buffer(mut self, bytes: usize) -> Builder {
        self.config.datagram_buffer = bytes.max(2048);
        self
    }

    /// Connections of a queue at most: 65,536 if nothing is said.
    #[must_use]
    pub fn connections(mut self, most: u32) -> Builder {
        self.config.connections = most.max(1);
        self
    }

    /// The clock; the system's if nothing is said.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = Some(clock);
        self
    }

    /// Where the random numbers begin, for tests that run the same way each time.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Builder {
        self.config.seed = seed;
        self
    }

    /// A stack that nobody drives: call [`Net::turn`].
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the address is none that a host can have, there is no device, or a device's
    /// frames are too short for IP.
    pub fn build(self) -> io::Result<Arc<Net>> {
        let invalid = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let subnet = self.config.subnet;
        if !subnet.is_host(subnet.address) {
            return invalid(format!("{} cannot be the address of a host", subnet.address));
        }
        if self.devices.is_empty() {
            return invalid("a stack needs a device".into());
        }
        if let Some(short) = self.devices.iter().find(|device| device.mtu() < 576) {
            return invalid(format!(
                "the interface takes packets of {} bytes; IP needs 576",
                short.mtu()
            ));
        }
        let clock = self.clock.unwrap_or_else(Clock::real);
        let config = Arc::new(self.config);
        let count = self.devices.len();
        let steering = Arc::new(Steering::new(count, Seed(config.seed)));
        let shards = self.devices.into_iter().enumerate();
        let shards = shards
            .map(|(i, device)| {
                Shard::new(i, steering.clone(), device, config.clone(), clock.clone())
            })
            .collect();
        Ok(Arc::new(Net {
            shards,
            clock,
            tcp_ports: Lock::new(Ports::new(config.seed)),
            udp_ports: Lock::new(Ports::new(!config.seed)),
            steering,
            next_shard: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            config,
        }))
    }

    /// Starts the stack: two user threads for each queue drive it.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Builder::build); there is no memory for a thread; a device's file cannot
    /// be waited for.
    pub fn start(self, runtime: &quaver::Handle) -> io::Result<Running> {
        let net = self.build()?;
        let threads = driver::start(&net, runtime)?;
        Ok(Running { net, threads })
    }
}

impl Running {
    /// For [`quaver::net::stack`].
    pub fn stack(&self) -> Arc<dyn Stack> {
        Arc::new(Shared(self.net.clone()))
    }

    /// The stack.
    pub fn net(&self) -> &Arc<Net> {
        &self.net
    }

    /// Ends the stack, as [`Net::stop`], and waits for its threads: a quarter of a second at most,
    /// if their workers have time.
    pub fn stop(mut self) {
        self.net.stop();
        for thread in self.threads.drain(..) {
            // One that has panicked has been reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.net.stop();
    }
}

impl From<Arc<Net>> for Shared {
    fn from(net: Arc<Net>) -> Shared {
        Shared(net)
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("subnet", &self.config.subnet).finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.net.fmt(f)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}
