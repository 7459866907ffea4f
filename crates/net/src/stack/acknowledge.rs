//! Segments for connections that have ended.

use super::core::Core;
use super::egress::Route;
use super::packet::{ETHERTYPE_IPV4, Packet};
use smoltcp::wire::{
    IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

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
        let segment = TcpRepr {
            src_port: ports.1,
            dst_port: ports.0,
            control: TcpControl::None,
            seq_number: TcpSeqNumber(seq as i32),
            ack_number: Some(TcpSeqNumber(ack as i32)),
            window_len: 0,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let header = Ipv4Repr {
            src_addr: packet.to,
            dst_addr: packet.from,
            next_header: IpProtocol::Tcp,
            payload_len: segment.buffer_len(),
            hop_limit: 64,
        };
        let len = header.buffer_len() + segment.buffer_len();
        let checksums = &self.capabilities.checksum;
        self.replies.put(reply, ETHERTYPE_IPV4, len, |bytes| {
            header.emit(&mut Ipv4Packet::new_unchecked(&mut *bytes), checksums);
            let mut segment_out = TcpPacket::new_unchecked(&mut bytes[header.buffer_len()..]);
            segment.emit(
                &mut segment_out,
                &header.src_addr.into(),
                &header.dst_addr.into(),
                checksums,
            );
        });
    }
}
