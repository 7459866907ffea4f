//! What a frame says before anybody believes it.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
pub(crate) const IPV4: usize = 20;
/// Bytes of a UDP header.
pub(crate) const UDP: usize = 8;

/// The kinds of frames that the stack knows.
pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_ARP: u16 = 0x0806;

/// Protocols above IP.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP_PROTOCOL: u8 = 17;

/// An Ethernet frame.
pub(crate) struct Frame<'a> {
    pub(crate) to: [u8; 6],
    pub(crate) from: [u8; 6],
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Frame<'a>> {
        let (header, payload) = bytes.split_first_chunk::<ETHERNET>()?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = *header;
        Some(Frame {
            to: [a, b, c, d, e, f],
            from: [g, h, i, j, k, l],
            kind: u16::from_be_bytes([m, n]),
            payload,
        })
    }
}

/// Writes an Ethernet header.
pub(crate) fn write_header(frame: &mut [u8], to: [u8; 6], from: [u8; 6], kind: u16) {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..ETHERNET].copy_from_slice(&kind.to_be_bytes());
}

/// An IPv4 packet whose lengths are consistent; its checksums have not been looked at.
#[derive(Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub(crate) from: Ipv4Addr,
    pub(crate) to: Ipv4Addr,
    pub(crate) protocol: u8,
    /// Part of a greater one.
    pub(crate) fragment: bool,
    /// All of it, without what follows in the frame.
    pub(crate) bytes: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Packet<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let header = bytes.first_chunk::<IPV4>()?;
        let header_len = usize::from(header[0] & 15) * 4;
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_len < IPV4 || len < header_len || len > bytes.len() {
            return None;
        }
        let address =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        Some(Packet {
            from: address(12),
            to: address(16),
            protocol: header[9],
            // More to come, or not the first. "Don't fragment" says nothing.
            fragment: u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0,
            bytes: &bytes[..len],
            payload: &bytes[header_len..len],
        })
    }

    /// The ports of TCP and UDP.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        let [a, b, c, d] = *self.payload.first_chunk::<4>()?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// Who sent it.
    pub(crate) fn sender(&self, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.from, port)
    }
}

/// The flags of a TCP segment.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    flags: u8,
    /// Its first sequence number.
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    /// The sequence number after it.
    pub(crate) end: u32,
}

impl Segment {
    pub(crate) fn parse(payload: &[u8]) -> Option<Segment> {
        let header = payload.first_chunk::<20>()?;
        let header_len = usize::from(header[12] >> 4) * 4;
        if header_len < 20 || header_len > payload.len() {
            return None;
        }
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let flags = header[13];
        let (seq, ack) = (word(4), word(8));
        let len =
            (payload.len() - header_len) as u32 + u32::from(flags & 1) + u32::from(flags >> 1 & 1);
        let window = u16::from_be_bytes([header[14], header[15]]);
        Some(Segment { flags, seq, ack, window, end: seq.wrapping_add(len) })
    }

    pub(crate) fn fin(self) -> bool {
        self.flags & 1 != 0
    }

    pub(crate) fn rst(self) -> bool {
        self.flags & 4 != 0
    }

    pub(crate) fn syn(self) -> bool {
        self.flags & 2 != 0
    }

    /// Is it one of an established connection?
    pub(crate) fn acknowledges(self) -> bool {
        // ACK without SYN and RST.
        self.flags & 0b1_0110 == 0b1_0000
    }

    /// Does it ask for a connection?
    pub(crate) fn opens(self) -> bool {
        // SYN without FIN, RST and ACK.
        self.flags & 0b1_0111 == 2
    }
}
