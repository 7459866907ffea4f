//! Segments that only acknowledge, made here and not by smoltcp.

use super::core::Core;
use super::egress::{Route, Sink};
use super::packet::{ETHERTYPE_IPV4, IPV4, Packet};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};
use std::net::SocketAddrV4;

/// A segment without data.
pub(crate) struct Acknowledgement {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
}

impl Acknowledgement {
    /// Bytes of the packet: two headers without options.
    pub(crate) const LEN: usize = IPV4 + 20;

    pub(crate) fn emit(&self, bytes: &mut [u8], checksums: &ChecksumCapabilities) {
        let header = Ipv4Repr {
            src_addr: *self.from.ip(),
            dst_addr: *self.to.ip(),
            next_header: IpProtocol::Tcp,
            payload_len: Self::LEN - IPV4,
            hop_limit: 64,
        };
        let segment = TcpRepr {
            src_port: self.from.port(),
            dst_port: self.to.port(),
            control: TcpControl::None,
            seq_number: TcpSeqNumber(self.seq as i32),
            ack_number: Some(TcpSeqNumber(self.ack as i32)),
            window_len: self.window,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        header.emit(&mut Ipv4Packet::new_unchecked(&mut *bytes), checksums);
        let (from, to) = (header.src_addr.into(), header.dst_addr.into());
        segment.emit(&mut TcpPacket::new_unchecked(&mut bytes[IPV4..]), &from, &to, checksums);
    }
}

impl Core {
    /// Repeats the last acknowledgement of a connection that has ended. `ports` are the sender's
    /// and ours.
    pub(crate) fn acknowledge(
        &mut self,
        packet: &Packet<'_>,
        reply: Route,
        ports: (u16, u16),
        seq: u32,
        ack: u32,
    ) {
        let from = SocketAddrV4::new(packet.to, ports.1);
        let answer = Acknowledgement { from, to: packet.sender(ports.0), seq, ack, window: 0 };
        let Core { capabilities, replies, .. } = self;
        replies.put(reply, ETHERTYPE_IPV4, Acknowledgement::LEN, |bytes| {
            answer.emit(bytes, &capabilities.checksum);
        });
    }
}
