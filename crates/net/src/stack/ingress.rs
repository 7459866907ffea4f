//! The way in: a frame finds its socket.

use super::connection::{Id, Phase};
use super::connections::reply_route;
use super::core::{Core, Listening};
use super::egress::{Port, Route};
use super::icmp;
use super::packet::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, Frame, ICMP, Packet, Segment, TCP, UDP_PROTOCOL,
};
use super::table::Key;
use super::udp::Delivery;
use smoltcp::socket::tcp::State;
use smoltcp::wire::{Ipv4Packet, TcpPacket, UdpPacket};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// Frames for other shards that wait at most.
const MOST_STRAYS: usize = 256;
/// How old a half-open connection must be to give way to a new one, in microseconds.
const GIVES_WAY: u64 = 500_000;

/// Where a frame comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Device,
    /// The stack itself.
    Own,
    /// The device of another shard.
    Shard,
}

/// A frame that another shard may be able to use.
pub(crate) struct Stray {
    /// The connection that it is for; `None`: all shards should see it.
    pub(crate) key: Option<Key>,
    pub(crate) frame: Vec<u8>,
}

impl Core {
    /// A frame has come.
    pub(crate) fn ingress(&mut self, bytes: &[u8], own: [u8; 6], source: Source) {
        self.counters.frames_in += 1;
        self.counters.bytes_in += bytes.len() as u64;
        let Some(frame) = Frame::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let broadcast = frame.to == [255; 6];
        if !broadcast && frame.to != own {
            self.counters.not_for_us += 1;
            return;
        }
        match frame.kind {
            ETHERTYPE_IPV4 => self.ipv4(&frame, bytes, broadcast, source),
            ETHERTYPE_ARP => self.arp(&frame, bytes, source),
            _ => self.counters.not_for_us += 1,
        }
    }

    fn arp(&mut self, frame: &Frame<'_>, bytes: &[u8], source: Source) {
        let subnet = self.config.subnet;
        let is_neighbour = |ip| subnet.contains(ip) && subnet.is_host(ip);
        let Core { neighbours, replies, news, now, .. } = self;
        let answers = source == Source::Device;
        let replies = answers.then_some(replies);
        if !neighbours.heard(frame.payload, is_neighbour, *now, replies, news) {
            self.counters.malformed += 1;
        } else if answers && self.steering.is_needed() {
            self.pass_on(None, bytes);
        }
    }

    fn ipv4(&mut self, frame: &Frame<'_>, bytes: &[u8], broadcast: bool, source: Source) {
        let Some(packet) = Packet::parse(frame.payload) else {
            self.counters.malformed += 1;
            return;
        };
        let subnet = self.config.subnet;
        let looped = source == Source::Own;
        let to_all = subnet.is_broadcast(packet.to);
        // Broadcasts are for datagrams; what claims to come from here has come from elsewhere.
        if packet.to != subnet.address && !(to_all && packet.protocol == UDP_PROTOCOL)
            || broadcast && !to_all
            || !subnet.is_host(packet.from)
            || (packet.from == subnet.address) != looped
        {
            self.counters.not_for_us += 1;
            return;
        }
        if packet.fragment {
            self.counters.fragments += 1;
            return;
        }
        let reply = reply_route(frame.from, looped);
        match packet.protocol {
            TCP => self.tcp(&packet, reply, bytes, source),
            UDP_PROTOCOL => self.udp(&packet, reply, to_all),
            ICMP => self.icmp(&packet, reply, bytes, source),
            _ => self.refuse(&packet, reply),
        }
    }

    fn tcp(&mut self, packet: &Packet<'_>, reply: Route, bytes: &[u8], source: Source) {
        let (Some((from, to)), Some(segment)) = (packet.ports(), Segment::parse(packet.payload))
        else {
            self.counters.malformed += 1;
            return;
        };
        if from == 0 || to == 0 {
            self.counters.malformed += 1;
            return;
        }
        let remote = packet.sender(from);
        let key = Key::new(remote, to);
        if let Some(&slot) = self.table.get(&key) {
            return self.segment(slot, packet, segment, reply);
        }
        if let Some(ended) = self.time_waits.get(key) {
            let is_newer = segment.seq.wrapping_sub(ended.ack) as i32 > 0;
            if !(segment.opens() && is_newer && self.listeners.contains_key(&to)) {
                if self.is_intact_tcp(packet) && !segment.rst() && self.allows() {
                    self.acknowledge(packet, reply, (from, to), ended.seq, ended.ack);
                }
                return;
            }
        }
        if segment.opens()
            && self.listeners.contains_key(&to)
            && self.steering.owner(key).is_none_or(|owner| owner == self.shard)
        {
            return self.opens(packet, remote, to, segment, reply);
        }
        if self.steering.is_needed() && source != Source::Shard {
            return self.pass_on(Some(key), bytes);
        }
        self.refuse(packet, reply);
    }

    /// Lets others see a frame.
    fn pass_on(&mut self, key: Option<Key>, frame: &[u8]) {
        if self.strays.len() < MOST_STRAYS {
            self.strays.push(Stray { key, frame: frame.to_vec() });
        } else {
            self.counters.limited += 1;
        }
    }

    /// A segment of a connection.
    fn segment(&mut self, slot: u32, packet: &Packet<'_>, segment: Segment, reply: Route) {
        let (time, now, shard) = (self.time(), self.now, self.shard);
        let id = Id { slot, generation: self.generations[slot as usize] };
        let news = self.news_of_repeated(slot, packet, segment);
        let Core { interface, connections, capabilities, replies, .. } = self;
        let Some(connection) = connections[slot as usize].as_deref_mut() else { return };
        let received = connection.peek_socket().recv_queue();
        if let Some(news) = &news {
            let packet = Some(&news[..]);
            let mut receiver = Port { packet, sink: &mut *replies, to: reply, capabilities };
            interface.poll_ingress_single(time, &mut receiver, &mut connection.set);
        }
        let packet = Some(packet.bytes);
        let mut receiver = Port { packet, sink: &mut *replies, to: reply, capabilities };
        interface.poll_ingress_single(time, &mut receiver, &mut connection.set);
        let before = connection.state();
        let complete = connection.heard(received, now);
        if segment.syn() && connection.state() != before {
            connection.begins(segment.seq);
        }
        if connection.state() != before || segment.fin() {
            connection.last = (segment.end, segment.ack);
        }
        if complete && let Some(listener) = connection.listener.clone() {
            connection.told = true;
            self.counters.accepted += 1;
            let port = listener.local.port();
            if let Some(port) = self.listeners.get_mut(&port)
                && Arc::ptr_eq(&port.listener, &listener)
            {
                port.half_open_now = port.half_open_now.saturating_sub(1);
            }
            if !listener.arrived(shard, id) {
                let connection = self.get(id).expect("it is there");
                connection.listener = None;
                connection.abort(None);
            }
        }
        self.touch(slot);
    }

    /// Somebody asks for a connection.
    fn opens(
        &mut self,
        packet: &Packet<'_>,
        remote: SocketAddrV4,
        port: u16,
        segment: Segment,
        reply: Route,
    ) {
        if !self.is_intact_tcp(packet) {
            self.counters.malformed += 1;
            return;
        }
        if !self.has_room(port) {
            self.counters.backlog_full += 1;
            return;
        }
        let listener = self.listeners[&port].listener.clone();
        let local = SocketAddrV4::new(packet.to, port);
        let Ok(id) = self.insert(local, remote, listener.options()) else {
            self.counters.backlog_full += 1;
            return;
        };
        let key = Key::new(remote, port);
        self.steering.claim(key, self.shard);
        // Its place is taken, if there was one that has ended.
        self.time_waits.remove(key);
        let (epoch, now) = (self.neighbours.epoch, self.now);
        let listening = self.listeners.get_mut(&port).expect("it was there");
        listening.half_open.push_back((id, now));
        listening.half_open_now += 1;
        let connection = self.get(id).expect("it is new");
        // Who asks can be answered without being looked for.
        connection.route = Some((reply, epoch));
        connection.listener = Some(listener);
        let listens = connection.socket().listen((packet.to, port)).is_ok();
        connection.sync_state();
        if listens {
            self.segment(id.slot, packet, segment, reply);
        }
        if self.get(id).is_some_and(|connection| connection.state() != State::SynReceived) {
            // smoltcp did not like it.
            self.remove(id);
        }
    }

    /// May another connection of this port be half open? The oldest gives way if it is old enough.
    fn has_room(&mut self, port: u16) -> bool {
        let listening = self.listeners.get_mut(&port).expect("somebody listens");
        if listening.listener.is_full() {
            return false;
        }
        let most = listening.listener.most_half_open();
        if listening.half_open.len() > 2 * most.max(listening.half_open_now) + 16 {
            self.forget_complete(port);
        }
        let listening = &self.listeners[&port];
        if listening.half_open_now < most {
            return true;
        }
        self.forget_complete(port);
        let now = self.now;
        let Listening { half_open, .. } = self.listeners.get_mut(&port).expect("as before");
        match half_open.front() {
            Some(&(oldest, since)) if now >= since + GIVES_WAY => {
                half_open.pop_front();
                self.remove(oldest);
                self.counters.half_open_dropped += 1;
                true
            }
            _ => false,
        }
    }

    /// Removes from a port's list those that are not half open any more.
    fn forget_complete(&mut self, port: u16) {
        let Some(listening) = self.listeners.get_mut(&port) else { return };
        let mut half_open = std::mem::take(&mut listening.half_open);
        half_open.retain(|&(id, _)| {
            self.get(id).is_some_and(|connection| {
                connection.phase == Phase::Opening && connection.listener.is_some()
            })
        });
        if let Some(listening) = self.listeners.get_mut(&port) {
            listening.half_open_now = half_open.len();
            listening.half_open = half_open;
        }
    }

    fn udp(&mut self, packet: &Packet<'_>, reply: Route, to_all: bool) {
        let datagram = UdpPacket::new_checked(packet.payload);
        let checks = self.capabilities.checksum.udp.rx();
        let (Ok(datagram), true) = (datagram, self.is_intact_header(packet)) else {
            self.counters.malformed += 1;
            return;
        };
        let (from, to) = (packet.from.into(), packet.to.into());
        if checks && !datagram.verify_checksum(&from, &to) || datagram.dst_port() == 0 {
            self.counters.malformed += 1;
            return;
        }
        let sender = packet.sender(datagram.src_port());
        let socket = self.datagrams.get(&datagram.dst_port());
        let delivery = socket.map_or(Delivery::Unwanted, |socket| {
            socket.deliver(sender, datagram.payload(), self.shard)
        });
        match delivery {
            Delivery::Done => {}
            Delivery::NoRoom => self.counters.queue_full += 1,
            Delivery::Unwanted if to_all => self.counters.unwanted += 1,
            Delivery::Unwanted => self.refuse(packet, reply),
        }
    }

    fn icmp(&mut self, packet: &Packet<'_>, reply: Route, bytes: &[u8], source: Source) {
        if !self.is_intact_header(packet) || !icmp::is_intact(packet) {
            self.counters.malformed += 1;
            return;
        }
        if packet.payload[0] == 8 {
            // An echo, which smoltcp answers.
            return self.answer(packet, reply);
        }
        let Some(refusal) = icmp::refusal(packet.payload) else { return };
        if !refusal.tcp {
            if let Some(socket) = self.datagrams.get(&refusal.local_port) {
                socket.refused(refusal.remote, refusal.error);
            }
            return;
        }
        let key = Key::new(refusal.remote, refusal.local_port);
        let Some(&slot) = self.table.get(&key) else {
            if self.steering.is_needed() && source != Source::Shard {
                self.pass_on(Some(key), bytes);
            }
            return;
        };
        let id = Id { slot, generation: self.generations[slot as usize] };
        self.unreachable(id, refusal.error);
    }

    /// Nobody wants this packet. Says so.
    fn refuse(&mut self, packet: &Packet<'_>, reply: Route) {
        self.counters.unwanted += 1;
        self.answer(packet, reply);
    }

    /// Lets smoltcp answer a packet that is for no socket.
    fn answer(&mut self, packet: &Packet<'_>, reply: Route) {
        if !self.allows() {
            return;
        }
        let time = self.time();
        let Core { interface, nobody, capabilities, replies, .. } = self;
        let mut receiver =
            Port { packet: Some(packet.bytes), sink: replies, to: reply, capabilities };
        interface.poll_ingress_single(time, &mut receiver, nobody);
    }

    fn allows(&mut self) -> bool {
        let allows = self.limiter.allows(self.now);
        self.counters.limited += u64::from(!allows);
        allows
    }

    fn is_intact_header(&self, packet: &Packet<'_>) -> bool {
        !self.capabilities.checksum.ipv4.rx()
            || Ipv4Packet::new_unchecked(packet.bytes).verify_checksum()
    }

    pub(crate) fn is_intact_tcp(&self, packet: &Packet<'_>) -> bool {
        let (from, to) = (packet.from.into(), packet.to.into());
        self.is_intact_header(packet)
            && (!self.capabilities.checksum.tcp.rx()
                || TcpPacket::new_unchecked(packet.payload).verify_checksum(&from, &to))
    }
}
