//! Hardware addresses of neighbours: ARP.
//!
//! An address that is known is believed for a minute. Then it is stale: still used, but who uses it
//! asks the neighbour itself. Three questions without an answer, one a second, and it is forgotten.
//!
//! Connections keep the address that they have been given, with the *epoch*: it changes whenever
//! somebody should ask again.

use super::connection::Id;
use super::egress::{Replies, Route, Sink};
use super::packet::ETHERTYPE_ARP;
use super::table::{Seed, Table};
use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress};
use std::net::Ipv4Addr;

const SECOND: u64 = 1_000_000;
/// Neighbours that are known or asked for at most.
const MOST: usize = 1024;
/// Datagrams that wait for one at most.
const MOST_WAITING: usize = 16;
const QUESTIONS: u32 = 3;
const FRESH: u64 = 60 * SECOND;
const BROADCAST: [u8; 6] = [255; 6];

struct Entry {
    mac: Option<[u8; 6]>,
    /// When it was last heard from.
    since: u64,
    stale: bool,
    /// Questions since.
    asked: u32,
    /// When to ask again.
    next: u64,
    connections: Vec<Id>,
    datagrams: Vec<Vec<u8>>,
}

impl Entry {
    fn new(now: u64) -> Entry {
        Entry {
            mac: None,
            since: now,
            stale: false,
            asked: 0,
            next: 0,
            connections: Vec::new(),
            datagrams: Vec::new(),
        }
    }
}

/// What is known of the neighbours.
pub(crate) struct Neighbours {
    own: Ipv4Addr,
    own_mac: [u8; 6],
    table: Table<u32, Entry>,
    /// Changes when an answer that was given earlier may not be true any more.
    pub(crate) epoch: u32,
    /// When to look at the table.
    next: u64,
}

/// What has become of those who waited.
#[derive(Default)]
pub(crate) struct News {
    /// These can send.
    pub(crate) found: Vec<Id>,
    /// Datagrams to send, and where.
    pub(crate) datagrams: Vec<([u8; 6], Vec<u8>)>,
    /// These cannot: nobody has answered.
    pub(crate) lost: Vec<Id>,
}

/// Who waits for an address.
pub(crate) enum Wanting<'a> {
    Connection(Id),
    Datagram(&'a mut dyn FnMut() -> Vec<u8>),
}

impl Neighbours {
    pub(crate) fn new(own: Ipv4Addr, own_mac: [u8; 6], seed: Seed) -> Neighbours {
        Neighbours { own, own_mac, table: Table::with_hasher(seed), epoch: 0, next: u64::MAX }
    }

    /// When [`tick`](Self::tick) wants to be called.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The address of a neighbour. `None`: it has been asked for, and `who` will be news.
    pub(crate) fn find(
        &mut self,
        ip: Ipv4Addr,
        who: Wanting<'_>,
        now: u64,
        out: &mut Replies,
    ) -> Option<[u8; 6]> {
        let full = self.table.len() >= MOST;
        let is_new = !self.table.contains_key(&ip.to_bits());
        if is_new && full {
            return None;
        }
        let entry = self.table.entry(ip.to_bits()).or_insert_with(|| Entry::new(now));
        let must_ask = entry.asked == 0 && (entry.mac.is_none() || entry.stale);
        if entry.mac.is_none() {
            match who {
                Wanting::Connection(id) => entry.connections.push(id),
                Wanting::Datagram(make) if entry.datagrams.len() < MOST_WAITING => {
                    entry.datagrams.push(make());
                }
                Wanting::Datagram(_) => {}
            }
        }
        let mac = entry.mac;
        if must_ask {
            entry.asked = 1;
            entry.next = now + SECOND;
            self.next = self.next.min(entry.next);
            self.ask(ip, mac, out);
        }
        mac
    }

    fn ask(&self, ip: Ipv4Addr, mac: Option<[u8; 6]>, out: &mut Replies) {
        self.say(ArpOperation::Request, ip, mac.unwrap_or(BROADCAST), out);
    }

    fn say(&self, operation: ArpOperation, ip: Ipv4Addr, mac: [u8; 6], out: &mut Replies) {
        let repr = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(self.own_mac),
            source_protocol_addr: self.own,
            target_hardware_addr: EthernetAddress(mac),
            target_protocol_addr: ip,
        };
        out.put(Route::Mac(mac), ETHERTYPE_ARP, repr.buffer_len(), |bytes| {
            repr.emit(&mut ArpPacket::new_unchecked(bytes));
        });
    }

    /// An ARP packet has come; it is answered if there is `out`. `is_neighbour`: can this be an
    /// address of one?
    pub(crate) fn heard(
        &mut self,
        packet: &[u8],
        is_neighbour: impl Fn(Ipv4Addr) -> bool,
        now: u64,
        out: Option<&mut Replies>,
        news: &mut News,
    ) -> bool {
        let parsed = ArpPacket::new_checked(packet).and_then(|packet| ArpRepr::parse(&packet));
        let Ok(ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(mac),
            source_protocol_addr: ip,
            target_protocol_addr: wanted,
            ..
        }) = parsed
        else {
            return false;
        };
        if mac[0] & 1 != 0 || mac == [0; 6] || ip == self.own || !is_neighbour(ip) {
            return false;
        }
        let for_us = wanted == self.own && operation == ArpOperation::Request;
        if for_us && self.table.len() < MOST && !self.table.contains_key(&ip.to_bits()) {
            self.table.insert(ip.to_bits(), Entry::new(now));
        }
        if let Some(entry) = self.table.get_mut(&ip.to_bits()) {
            if entry.mac.is_some_and(|known| known != mac) {
                self.epoch += 1;
            }
            entry.mac = Some(mac);
            (entry.since, entry.stale, entry.asked) = (now, false, 0);
            news.found.append(&mut entry.connections);
            news.datagrams.extend(entry.datagrams.drain(..).map(|packet| (mac, packet)));
            self.next = self.next.min(now + FRESH);
        }
        if for_us && let Some(out) = out {
            self.say(ArpOperation::Reply, ip, mac, out);
        }
        true
    }

    /// Asks again, and forgets.
    pub(crate) fn tick(&mut self, now: u64, out: &mut Replies, news: &mut News) {
        let (mut next, mut epoch, mut again) = (u64::MAX, self.epoch, Vec::new());
        self.table.retain(|&ip, entry| {
            if entry.asked > 0 {
                if now >= entry.next {
                    if entry.asked == QUESTIONS {
                        epoch += 1;
                        news.lost.append(&mut entry.connections);
                        return false;
                    }
                    entry.asked += 1;
                    entry.next = now + SECOND;
                    again.push((Ipv4Addr::from_bits(ip), entry.mac));
                }
                next = next.min(entry.next);
            } else if entry.stale {
                if now >= entry.since + 2 * FRESH {
                    return false;
                }
                next = next.min(entry.since + 2 * FRESH);
            } else if now >= entry.since + FRESH {
                entry.stale = true;
                epoch += 1;
                next = next.min(entry.since + 2 * FRESH);
            } else {
                next = next.min(entry.since + FRESH);
            }
            true
        });
        (self.next, self.epoch) = (next, epoch);
        for (ip, mac) in again {
            self.ask(ip, mac, out);
        }
    }
}
