//! The loop: take frames, look where they go, put them into queues, send.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use super::arp::Message;
use super::counts::{Counts, Drop};
use super::packet::{self, ARP};
use super::port::{self, Port, PortSettings};
use super::routes::{Hop, Route};
use super::table::{Full, Table, Value};
use crate::xdp::memory::{Area, Stock};
use crate::xdp::socket::Packet;
use crate::xdp::{self, Mode, checksum};

/// Frames of a queue that are handled before those of the next: what is sent together is still in
/// the cache.
const BATCH: usize = 64;
/// Rounds without a frame, after which it is looked whether the interfaces are still there.
const LOOKS: u32 = 1 << 16;

/// Why a route cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RouteError {
    /// It is too much for the table.
    #[error(transparent)]
    Full(#[from] Full),
    /// The next hop has to be asked for.
    #[error("its port has no address from which {0} could be asked for: give it address=A/BITS")]
    NoAddress(&'static str),
    /// The next hop cannot be reached.
    #[error("its gateway {0} is not on the network of its port")]
    NotThere(Ipv4Addr),
}

/// Forwards between interfaces; alone in its thread.
#[derive(Debug)]
pub struct Forwarder {
    ports: Vec<Port>,
    area: Arc<Area>,
    stock: Stock,
    routing: Routing,
    counts: Counts,
    idle: u32,
}

/// Where packets go.
#[derive(Debug)]
struct Routing {
    table: Table,
    hops: Vec<NextHop>,
    /// The number of each in `hops`.
    numbers: HashMap<(usize, Hop), Value>,
}

#[derive(Clone, Copy, Debug)]
struct NextHop {
    port: usize,
    mac: Mac,
}

#[derive(Clone, Copy, Debug)]
enum Mac {
    Known([u8; 6]),
    /// Nobody has said so far.
    Of(Ipv4Addr),
    OfDestination,
}

impl Forwarder {
    /// Opens interfaces of this thread's network namespace, with routes for the networks that they
    /// are on. All that comes to them goes to the forwarder, nothing to the kernel. `mode`: the
    /// only one to try; `None`: the best.
    ///
    /// # Errors
    ///
    /// As [`xdp::open`].
    pub fn open(ports: &[PortSettings], mode: Option<Mode>) -> io::Result<Forwarder> {
        let (ports, area, stock) = port::open(ports, mode)?;
        let routing = Routing { table: Table::new(), hops: Vec::new(), numbers: HashMap::new() };
        let mut forwarder =
            Forwarder { ports, area, stock, routing, counts: Counts::default(), idle: 0 };
        for port in 0..forwarder.ports.len() {
            if let Some(prefix) = forwarder.ports[port].neighbours.network() {
                let route = Route { prefix, port, hop: Hop::Neighbour };
                forwarder.add(&route).map_err(io::Error::other)?;
            }
        }
        Ok(forwarder)
    }

    /// Adds a route, or changes the one to the same network. Asks for its gateway.
    ///
    /// # Errors
    ///
    /// It cannot be used.
    ///
    /// # Panics
    ///
    /// There is no such port.
    pub fn add(&mut self, route: &Route) -> Result<(), RouteError> {
        let port = &mut self.ports[route.port];
        let network = port.neighbours.network();
        let mac = match (route.hop, network) {
            (Hop::Hardware(mac), _) => Mac::Known(mac),
            (Hop::Gateway(_), None) => return Err(RouteError::NoAddress("a gateway")),
            (Hop::Neighbour, None) => return Err(RouteError::NoAddress("a neighbour")),
            (Hop::Neighbour, Some(_)) => Mac::OfDestination,
            (Hop::Gateway(address), Some(network)) if network.contains(address) => {
                port.neighbours.find(address).map_or(Mac::Of(address), Mac::Known)
            }
            (Hop::Gateway(address), Some(_)) => return Err(RouteError::NotThere(address)),
        };
        self.routing.add(route, mac)?;
        if let Mac::Of(address) = mac
            && let Some(question) = port.neighbours.ask(address)
        {
            port.send_message(&question, &self.area, &mut self.stock);
        }
        Ok(())
    }

    /// How many routes there are.
    pub fn routes(&self) -> usize {
        self.routing.table.len()
    }

    /// Names of the interfaces, and how frames come and go there.
    pub fn ports(&self) -> impl Iterator<Item = (&str, Mode)> {
        self.ports.iter().map(|port| (port.interface.name.as_str(), port.mode))
    }

    /// What has become of frames.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Frames that the kernel has dropped before the forwarder could see them, of each port.
    pub fn lost(&self) -> impl Iterator<Item = xdp::Counts> {
        self.ports.iter().map(Port::counts)
    }

    /// One round through all queues; how many frames there were. Does not wait.
    ///
    /// # Errors
    ///
    /// An interface has gone.
    pub fn poll(&mut self) -> io::Result<usize> {
        let mut taken = 0;
        for port in 0..self.ports.len() {
            for queue in 0..self.ports[port].sockets.len() {
                for _ in 0..BATCH {
                    let Some(packet) = self.ports[port].sockets[queue].receive() else { break };
                    self.handle(port, packet);
                    taken += 1;
                }
            }
        }
        self.counts.received += taken as u64;
        self.idle = if taken == 0 { self.idle + 1 } else { 0 };
        for port in &mut self.ports {
            if taken > 0 || port.unsent {
                port.finish(&mut self.stock)?;
            }
            if self.idle.is_multiple_of(LOOKS) && taken == 0 {
                port.look()?;
            }
        }
        Ok(taken)
    }

    /// Waits until there are frames, or so long.
    ///
    /// # Errors
    ///
    /// An interface has gone, or a signal came ([`io::ErrorKind::Interrupted`]).
    pub fn wait(&mut self, longest: Duration) -> io::Result<()> {
        let sockets = self.ports.iter().flat_map(|port| &port.sockets);
        let mut files: Vec<_> = sockets
            .map(|socket| libc::pollfd {
                fd: socket.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let ms = longest.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: there are as many as is said.
        match unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, ms) } {
            0 => self.ports.iter().try_for_each(Port::look),
            1.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn handle(&mut self, port: usize, mut packet: Packet) {
        let bytes = self.area.bytes(&mut packet.frame, packet.at, packet.len);
        if bytes.get(12..14) == Some(&ARP) {
            if let Some(message) = Message::parse(bytes) {
                self.hear(port, &message);
            }
            self.counts.arp += 1;
            return self.stock.put(packet.frame);
        }
        match self.routing.route(&mut self.ports, port, bytes) {
            Ok((out, len)) => {
                packet.len = len;
                match self.ports[out].send(packet, &mut self.stock) {
                    Ok(()) => self.counts.forwarded += 1,
                    Err(frame) => {
                        self.counts.drop(Drop::QueueFull);
                        self.stock.put(frame);
                    }
                }
            }
            Err(refusal) => {
                self.stock.put(packet.frame);
                self.counts.drop(refusal.why);
                if let Some((out, address)) = refusal.unknown
                    && let Some(question) = self.ports[out].neighbours.ask(address)
                {
                    self.ports[out].send_message(&question, &self.area, &mut self.stock);
                }
            }
        }
    }

    fn hear(&mut self, port: usize, message: &Message) {
        let (news, answer) = self.ports[port].neighbours.hear(message);
        if let Some(address) = news {
            self.routing.resolve(port, address, message.sender.0);
        }
        if let Some(answer) = answer {
            self.ports[port].send_message(&answer, &self.area, &mut self.stock);
        }
    }
}

/// A packet that is not sent.
struct Refusal {
    why: Drop,
    /// Whom to ask for, and behind which port.
    unknown: Option<(usize, Ipv4Addr)>,
}

impl From<Drop> for Refusal {
    fn from(why: Drop) -> Refusal {
        Refusal { why, unknown: None }
    }
}

impl Routing {
    fn add(&mut self, route: &Route, mac: Mac) -> Result<(), Full> {
        let key = (route.port, route.hop);
        let next = self.hops.len().try_into().unwrap_or(Value::MAX);
        let number = self.numbers.get(&key).copied().unwrap_or(next);
        self.table.add(route.prefix, number)?;
        if number == next {
            self.numbers.insert(key, number);
            self.hops.push(NextHop { port: route.port, mac });
        }
        Ok(())
    }

    /// Gateways of this address now have a hardware address.
    fn resolve(&mut self, port: usize, address: Ipv4Addr, mac: [u8; 6]) {
        if let Some(&number) = self.numbers.get(&(port, Hop::Gateway(address))) {
            self.hops[usize::from(number)].mac = Mac::Known(mac);
        }
    }

    /// Makes of a frame from `port` the one to send: by which port, and its length.
    #[inline]
    fn route(
        &self,
        ports: &mut [Port],
        port: usize,
        frame: &mut [u8],
    ) -> Result<(usize, usize), Refusal> {
        let from = &ports[port].interface;
        if frame.get(..6).is_some_and(|to| *to != from.address) {
            return Err(Drop::NotForPort.into());
        }
        let (destination, len) = packet::check(frame)?;
        let number = self.table.lookup(destination).ok_or(Drop::NoRoute)?;
        let hop = self.hops[usize::from(number)];
        let out = &ports[hop.port];
        let asked = match hop.mac {
            Mac::Known(mac) => Ok(mac),
            Mac::Of(address) => Err(address),
            Mac::OfDestination => out.neighbours.find(destination).ok_or(destination),
        };
        let to = asked.map_err(|address| Refusal {
            why: Drop::Unresolved,
            unknown: Some((hop.port, address)),
        })?;
        let len = packet::ETHERNET + len;
        if len > out.longest() {
            return Err(Drop::TooLong.into());
        }
        if from.is_virtual_pair() {
            checksum::complete(frame);
        }
        packet::rewrite(frame, to, out.interface.address);
        Ok((hop.port, len))
    }
}
