//! Acknowledgements in segments that repeat what has been received.
//!
//! smoltcp drops such a segment with everything in it (RFC 9293, 3.10.7.4), and when it begins to
//! repeat, it numbers its acknowledgements from there: so they look repeated, too. If two such ends
//! repeat at the same time, each drops the other's acknowledgements, for ever. So the news in such
//! a segment is told apart, as if it had come in a segment of its own.

use super::acknowledge::Acknowledgement;
use super::connection::{Connection, Phase};
use super::core::Core;
use super::packet::{Packet, Segment};
use smoltcp::phy::ChecksumCapabilities;
use std::net::SocketAddrV4;

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
    ) -> Option<[u8; Acknowledgement::LEN]> {
        let connection = self.connections[slot as usize].as_deref()?;
        let next = connection.repeats(segment)?;
        if !self.is_intact_tcp(packet) {
            return None;
        }
        let (from, to) = packet.ports()?;
        let news = Acknowledgement {
            from: packet.sender(from),
            to: SocketAddrV4::new(packet.to, to),
            seq: next,
            ack: segment.ack,
            window: segment.window,
        };
        let mut bytes = [0; Acknowledgement::LEN];
        news.emit(&mut bytes, &ChecksumCapabilities::default());
        Some(bytes)
    }
}
