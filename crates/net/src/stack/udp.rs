//! Datagrams: the queue of a UDP socket, and how one is sent.

use super::core::Core;
use super::egress::{Egress, Sink};
use super::neighbours::Wanting;
use super::packet::{ETHERTYPE_IPV4, IPV4, UDP};
use super::{errno, readiness};
use crate::lock::Lock;
use quaver::net::stack::{Announcer, Readiness, Received};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::storage::{PacketBuffer, PacketMetadata};
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Bytes of the queue for each datagram that it can hold.
const BYTES_EACH: usize = 256;

/// A UDP socket, as shards see it.
pub(crate) struct Datagrams {
    state: Lock<State>,
    /// The shard that has had a datagram for it last: answers go the same way.
    pub(crate) shard: AtomicUsize,
    /// There was no room for a datagram that it wanted to send.
    stalled: AtomicBool,
}

/// What has become of a datagram.
pub(crate) enum Delivery {
    Done,
    NoRoom,
    /// The socket is connected to somebody else.
    Unwanted,
}

struct State {
    queue: PacketBuffer<'static, SocketAddrV4>,
    /// Whom it is connected to.
    peer: Option<SocketAddrV4>,
    error: Option<i32>,
    announcer: Option<Announcer>,
    read_shut: bool,
    write_shut: bool,
    closed: bool,
}

impl Datagrams {
    pub(crate) fn new(bytes: usize, shard: usize) -> Datagrams {
        let places = vec![PacketMetadata::EMPTY; (bytes / BYTES_EACH).max(8)];
        let state = State {
            queue: PacketBuffer::new(places, vec![0; bytes]),
            peer: None,
            error: None,
            announcer: None,
            read_shut: false,
            write_shut: false,
            closed: false,
        };
        Datagrams {
            state: Lock::new(state),
            shard: AtomicUsize::new(shard),
            stalled: AtomicBool::new(false),
        }
    }

    /// One has come.
    pub(crate) fn deliver(&self, from: SocketAddrV4, payload: &[u8], shard: usize) -> Delivery {
        let mut state = self.state.lock();
        if state.peer.is_some_and(|peer| peer != from) {
            return Delivery::Unwanted;
        }
        self.shard.store(shard, Relaxed);
        let Ok(room) = state.queue.enqueue(payload.len(), from) else { return Delivery::NoRoom };
        room.copy_from_slice(payload);
        state.announce(Readiness::READABLE);
        Delivery::Done
    }

    /// A datagram to this address could not be delivered.
    pub(crate) fn refused(&self, remote: SocketAddrV4, error: i32) {
        let mut state = self.state.lock();
        if state.peer == Some(remote) {
            state.fail(error);
        }
    }

    pub(crate) fn fail(&self, error: i32) {
        self.state.lock().fail(error);
    }

    /// The device has room again.
    pub(crate) fn has_room(&self) {
        self.stalled.store(false, Relaxed);
        self.state.lock().announce(Readiness::WRITABLE);
    }

    pub(crate) fn connect(&self, peer: SocketAddrV4) {
        self.state.lock().peer = Some(peer);
    }

    pub(crate) fn peer(&self) -> Option<SocketAddrV4> {
        self.state.lock().peer
    }

    pub(crate) fn receive(&self, into: &mut [IoSliceMut<'_>], peek: bool) -> io::Result<Received> {
        let mut state = self.state.lock();
        if let Some(error) = state.error.take() {
            return Err(errno(error));
        }
        let State { queue, .. } = &mut *state;
        let found = if peek {
            queue.peek().map(|(&from, bytes)| (from, copy(bytes, into), bytes.len()))
        } else {
            queue.dequeue().map(|(from, bytes)| (from, copy(bytes, into), bytes.len()))
        };
        match found {
            Ok((from, len, whole)) => Ok(Received { len, whole, from: Some(from.into()) }),
            Err(_) => Err(errno(libc::EAGAIN)),
        }
    }

    /// Bytes of the next.
    pub(crate) fn pending(&self) -> usize {
        self.state.lock().queue.peek().map_or(0, |(_, bytes)| bytes.len())
    }

    pub(crate) fn readiness(&self) -> Readiness {
        self.state.lock().readiness(self.stalled.load(Relaxed))
    }

    pub(crate) fn announce_to(&self, announcer: Option<Announcer>) {
        self.state.lock().announcer = announcer;
    }

    pub(crate) fn take_error(&self) -> Option<i32> {
        self.state.lock().error.take()
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        let mut state = self.state.lock();
        state.read_shut |= how != Shutdown::Write;
        state.write_shut |= how != Shutdown::Read;
        let ready = state.readiness(self.stalled.load(Relaxed));
        state.announce(ready);
    }

    /// The error that keeps it from sending, if any.
    pub(crate) fn may_send(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.error.take() {
            Some(error) => Err(errno(error)),
            None if state.write_shut => Err(errno(libc::EPIPE)),
            None => Ok(()),
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.announcer = None;
        // Its memory goes at once; the socket may be known for longer.
        state.queue = PacketBuffer::new(Vec::new(), Vec::new());
    }
}

impl State {
    fn announce(&self, news: Readiness) {
        if let Some(announcer) = &self.announcer {
            announcer(news);
        }
    }

    fn fail(&mut self, error: i32) {
        self.error = Some(error);
        self.announce(Readiness::ERROR | Readiness::READABLE | Readiness::WRITABLE);
    }

    fn readiness(&mut self, stalled: bool) -> Readiness {
        // A queue that has had no room may hold nothing but a gap, which is no datagram.
        let has_datagram = self.queue.peek().is_ok();
        let mut bits = 0;
        let mut add = |condition: bool, event: Readiness| {
            if condition {
                bits |= event.bits();
            }
        };
        add(has_datagram || self.read_shut, Readiness::READABLE);
        add(self.read_shut, Readiness::END);
        add(self.read_shut && self.write_shut, Readiness::HANG_UP);
        add(!stalled, Readiness::WRITABLE);
        add(self.error.is_some(), Readiness::ERROR);
        readiness(bits)
    }
}

fn copy(mut bytes: &[u8], into: &mut [IoSliceMut<'_>]) -> usize {
    let all = bytes.len();
    for slice in into {
        let n = slice.len().min(bytes.len());
        slice[..n].copy_from_slice(&bytes[..n]);
        bytes = &bytes[n..];
    }
    all - bytes.len()
}

impl Core {
    /// Sends a datagram.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if it does not fit into a frame, `EAGAIN` if there is no room.
    pub(crate) fn send_datagram(
        &mut self,
        egress: &mut Egress,
        socket: &Arc<Datagrams>,
        from_port: u16,
        to: SocketAddrV4,
        payload: &[IoSlice<'_>],
        ttl: Option<u8>,
    ) -> io::Result<usize> {
        let payload_len = payload.iter().map(|slice| slice.len()).sum::<usize>();
        let len = IPV4 + UDP + payload_len;
        if len > self.capabilities.max_transmission_unit {
            return Err(errno(libc::EMSGSIZE));
        }
        if !egress.has_room() && (egress.flush().is_err() || !egress.has_room()) {
            if !socket.stalled.swap(true, Relaxed) {
                self.datagrams_stalled.push(socket.clone());
            }
            return Err(errno(libc::EAGAIN));
        }
        let checksums = self.capabilities.checksum.clone();
        let header = Ipv4Repr {
            src_addr: self.address(),
            dst_addr: *to.ip(),
            next_header: IpProtocol::Udp,
            payload_len: UDP + payload_len,
            hop_limit: ttl.unwrap_or(64),
        };
        let datagram = UdpRepr { src_port: from_port, dst_port: to.port() };
        let write = |bytes: &mut [u8]| emit(bytes, &header, &datagram, payload, &checksums);
        let mut make = || {
            let mut bytes = vec![0; len];
            write(&mut bytes);
            bytes
        };
        if let Some(route) = self.route(*to.ip(), Wanting::Datagram(&mut make)) {
            egress.put(route, ETHERTYPE_IPV4, len, write);
        }
        Ok(payload_len)
    }
}

fn emit(
    bytes: &mut [u8],
    header: &Ipv4Repr,
    datagram: &UdpRepr,
    payload: &[IoSlice<'_>],
    checksums: &ChecksumCapabilities,
) {
    header.emit(&mut Ipv4Packet::new_unchecked(&mut *bytes), checksums);
    let len = header.payload_len - UDP;
    datagram.emit(
        &mut UdpPacket::new_unchecked(&mut bytes[IPV4..]),
        &header.src_addr.into(),
        &header.dst_addr.into(),
        len,
        |mut out| {
            for slice in payload {
                let (to, rest) = out.split_at_mut(slice.len());
                to.copy_from_slice(slice);
                out = rest;
            }
        },
        checksums,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queue is a ring: before a datagram that does not fit between its place and the end comes
    /// a gap. Where there is a place for one of the two only, the gap stays.
    #[test]
    fn a_gap_is_no_datagram() {
        let socket = Datagrams::new(8 * BYTES_EACH, 0);
        let from = SocketAddrV4::new([10, 0, 0, 1].into(), 9);
        let put = |len| matches!(socket.deliver(from, &vec![1; len], 0), Delivery::Done);
        let take = || socket.receive(&mut [IoSliceMut::new(&mut [0; 2048])], false);
        assert!((0..7).all(|_| put(285)));
        assert_eq!(take().unwrap().len, 285);
        assert!(put(40) && !put(100), "seven places are taken, and one is for the gap");
        for len in [285; 6].into_iter().chain([40]) {
            assert!(socket.readiness().contains(Readiness::READABLE));
            assert_eq!((socket.pending(), take().unwrap().len), (len, len));
        }
        assert!(!socket.readiness().contains(Readiness::READABLE));
        assert_eq!(take().unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        assert!(put(2048) && socket.readiness().contains(Readiness::READABLE));
    }
}
