//! Acknowledgements in segments that repeat what has been received.
//!
//! smoltcp drops such a segment with everything in it (RFC 9293, 3.10.7.4), and when it begins to
//! repeat, it numbers its acknowledgements from there: so they look repeated, too. If two such ends
//! repeat at the same time, each drops the other's acknowledgements, for ever. So the news in such
//! a segment is told apart, as if it had come in a segment of its own.

use super::connection::{Connection, Phase};
use super::core::Core;
use super::packet::{IPV4, Packet, Segment};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

/// Bytes of the packet: two headers without options.
const LEN: usize = IPV4 + 20;

impl Connection {
    /// The sequence number that is expected next, if all of the segment comes before it.
    fn repeats(&self, segment: Segment) -> Option<u32> {
        let next = self.next_expected();
        let before = |seq: u32| seq.wrapping_sub(next) as i32;
        let repeated = before(segment.seq) < 0 && before(segment.end) <= 0;
        (self.phase == Phase::Live && segment.acknowledges() && repeated).then_some(next)
    }
}

impl Core {
    /// What a repeated segment acknowledges, in a packet without data that smoltcp accepts.
    pub(crate) fn news_of_repeated(
        &self,
        slot: u32,
        packet: &Packet<'_>,
        segment: Segment,
    ) -> Option<[u8; LEN]> {
        let connection = self.connections[slot as usize].as_deref()?;
        let next = connection.repeats(segment)?;
        if !self.is_intact_tcp(packet) {
            return None;
        }
        let (src_port, dst_port) = packet.ports()?;
        let header = Ipv4Repr {
            src_addr: packet.from,
            dst_addr: packet.to,
            next_header: IpProtocol::Tcp,
            payload_len: LEN - IPV4,
            hop_limit: 64,
        };
        let news = TcpRepr {
            src_port,
            dst_port,
            control: TcpControl::None,
            seq_number: TcpSeqNumber(next as i32),
            ack_number: Some(TcpSeqNumber(segment.ack as i32)),
            window_len: segment.window,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let checksums = ChecksumCapabilities::default();
        let mut bytes = [0; LEN];
        header.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &checksums);
        let (from, to) = (header.src_addr.into(), header.dst_addr.into());
        news.emit(&mut TcpPacket::new_unchecked(&mut bytes[IPV4..]), &from, &to, &checksums);
        Some(bytes)
    }
}
