//! The sockets of a shard. Everything but its device, which is busy while it lends frames.

use super::NEVER;
use super::connection::{Connection, Id};
use super::egress::{Egress, Replies, Route, Sink};
use super::icmp::Limiter;
use super::ingress::Stray;
use super::listener::Listener;
use super::neighbours::{Neighbours, News, Wanting};
use super::table::{Key, Seed, Table};
use super::time_wait::TimeWaits;
use super::udp::Datagrams;
use crate::config::Config;
use crate::stats::Counters;
use crate::steering::Steering;
use quaver::sched::{Task, TimerHeap, TimerTable};
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::device::Checksums;

/// How long to wait for a device that is full, in microseconds.
pub(crate) const RETRY: u64 = 1_000;

/// A port on which somebody listens.
pub(crate) struct Listening {
    pub(crate) listener: Arc<Listener>,
    /// Connections whose handshake is not complete, the oldest first; some may have ended.
    pub(crate) half_open: VecDeque<(Id, u64)>,
    /// How many have not.
    pub(crate) half_open_now: usize,
}

pub(crate) struct Core {
    pub(crate) shard: usize,
    pub(crate) config: Arc<Config>,
    pub(crate) interface: Interface,
    pub(crate) capabilities: DeviceCapabilities,
    /// For packets that concern no socket.
    pub(crate) nobody: SocketSet<'static>,
    pub(crate) connections: Vec<Option<Box<Connection>>>,
    pub(crate) generations: Vec<u32>,
    pub(crate) free: Vec<u32>,
    pub(crate) table: Table<Key, u32>,
    pub(crate) timers: TimerHeap,
    /// Connections to be looked after.
    pub(crate) touched: Vec<u32>,
    /// Those that the device had no room for, since when.
    pub(crate) stalled: Vec<Id>,
    pub(crate) neighbours: Neighbours,
    pub(crate) news: News,
    pub(crate) listeners: Table<u16, Listening>,
    pub(crate) datagrams: Table<u16, Arc<Datagrams>>,
    /// Sockets whose datagram the device had no room for.
    pub(crate) datagrams_stalled: Vec<Arc<Datagrams>>,
    pub(crate) time_waits: TimeWaits,
    pub(crate) limiter: Limiter,
    pub(crate) replies: Replies,
    pub(crate) counters: Counters,
    /// Microseconds.
    pub(crate) now: u64,
    /// The device has failed.
    pub(crate) failed: bool,
    /// Frames that another shard may be able to use.
    pub(crate) strays: Vec<Stray>,
    pub(crate) steering: Arc<Steering>,
}

impl Core {
    pub(crate) fn new(
        shard: usize,
        steering: Arc<Steering>,
        config: Arc<Config>,
        egress: &mut Egress,
    ) -> Core {
        let device = &mut egress.device;
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = device.mtu();
        if device.checksums() == Checksums::Device {
            capabilities.checksum = ChecksumCapabilities::ignored();
        }
        let seed = Seed(config.seed);
        let mac = device.address();
        let mut replies = Replies::new();
        let mut probe = super::egress::Port {
            packet: None,
            sink: &mut replies,
            to: Route::Own,
            capabilities: &capabilities,
        };
        let mut settings = InterfaceConfig::new(HardwareAddress::Ip);
        settings.random_seed = config.seed.wrapping_add(shard as u64);
        let mut interface = Interface::new(settings, &mut probe, Instant::ZERO);
        let subnet = config.subnet;
        interface.update_ip_addrs(|addresses| {
            // There is room for two.
            let _ = addresses.push(IpCidr::new(subnet.address.into(), subnet.prefix));
        });
        let timers = TimerHeap::new(0, Arc::new(TimerTable::new(config.connections)));
        Core {
            shard,
            interface,
            capabilities,
            nobody: SocketSet::new(Vec::new()),
            connections: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            table: Table::with_hasher(seed),
            timers,
            touched: Vec::new(),
            stalled: Vec::new(),
            neighbours: Neighbours::new(subnet.address, mac, seed),
            news: News::default(),
            listeners: Table::with_hasher(seed),
            datagrams: Table::with_hasher(seed),
            datagrams_stalled: Vec::new(),
            time_waits: TimeWaits::new(seed),
            limiter: Limiter::default(),
            replies,
            counters: Counters::default(),
            now: 0,
            failed: false,
            strays: Vec::new(),
            steering,
            config,
        }
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.config.subnet.address
    }

    pub(crate) fn time(&self) -> Instant {
        Instant::from_micros(self.now as i64)
    }

    /// The connection, unless its place has been given to another.
    pub(crate) fn get(&mut self, id: Id) -> Option<&mut Connection> {
        let slot = id.slot as usize;
        if *self.generations.get(slot)? != id.generation {
            return None;
        }
        self.connections[slot].as_deref_mut()
    }

    /// Remembers that a connection is to be looked after.
    pub(crate) fn touch(&mut self, slot: u32) {
        if let Some(connection) = self.connections[slot as usize].as_deref_mut()
            && !std::mem::replace(&mut connection.touched, true)
        {
            self.touched.push(slot);
        }
    }

    /// When something is to be done that no frame will ask for.
    pub(crate) fn next(&self) -> u64 {
        let stalled = !self.stalled.is_empty() || !self.datagrams_stalled.is_empty();
        let retry = if stalled { self.now + RETRY } else { NEVER };
        let timer = self.timers.peek().unwrap_or(NEVER);
        timer.min(self.neighbours.next()).min(self.time_waits.next()).min(retry)
    }

    /// Does what is due.
    pub(crate) fn expire(&mut self) {
        let now = self.now;
        while let Some(Task(slot)) = self.timers.pop_expired(now) {
            if let Some(connection) = self.connections[slot as usize].as_deref_mut() {
                connection.armed = NEVER;
            }
            self.touch(slot);
        }
        while let Some(key) = self.time_waits.expire(now) {
            self.steering.forget(key, self.shard);
        }
        if self.neighbours.next() <= now {
            self.neighbours.tick(now, &mut self.replies, &mut self.news);
        }
        for id in std::mem::take(&mut self.stalled) {
            if self.get(id).is_some() {
                self.touch(id.slot);
            }
        }
        for socket in std::mem::take(&mut self.datagrams_stalled) {
            socket.has_room();
        }
    }

    /// Where packets to this address go. `None`: nowhere yet; `who` will be told.
    pub(crate) fn route(&mut self, to: Ipv4Addr, who: Wanting<'_>) -> Option<Route> {
        let subnet = self.config.subnet;
        if to == subnet.address {
            return Some(Route::Own);
        }
        if subnet.is_broadcast(to) {
            return Some(Route::Mac([255; 6]));
        }
        let hop = subnet.hop(to)?;
        self.neighbours.find(hop, who, self.now, &mut self.replies).map(Route::Mac)
    }

    /// Passes on what the neighbours have said.
    pub(crate) fn settle_news(&mut self, egress: &mut Egress) {
        let mut news = std::mem::take(&mut self.news);
        for (mac, packet) in news.datagrams.drain(..) {
            let to = Route::Mac(mac);
            egress.put(to, super::packet::ETHERTYPE_IPV4, packet.len(), |out| {
                out.copy_from_slice(&packet);
            });
        }
        for id in news.found.drain(..) {
            if self.get(id).is_some() {
                self.touch(id.slot);
            }
        }
        for id in news.lost.drain(..) {
            self.unreachable(id, libc::EHOSTUNREACH);
        }
        self.news = news;
    }
}
