//! Messages about packets that nobody wanted, and how many of them are sent.

use super::packet::{IPV4, Packet, TCP, UDP_PROTOCOL};
use std::net::SocketAddrV4;

/// Answers a second to packets that nobody wanted: refusals, resets, echoes.
const RATE: u64 = 10_000;
/// How many at once.
const BURST: u64 = 1_000;

/// Counts answers, so that nobody makes the stack work for nothing.
pub(crate) struct Limiter {
    tokens: u64,
    since: u64,
}

impl Default for Limiter {
    fn default() -> Limiter {
        Limiter { tokens: BURST, since: 0 }
    }
}

impl Limiter {
    /// May another answer be sent?
    pub(crate) fn allows(&mut self, now: u64) -> bool {
        let new = (now.saturating_sub(self.since)) * RATE / 1_000_000;
        if new > 0 {
            self.tokens = (self.tokens + new).min(BURST);
            self.since = now;
        }
        let allowed = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        allowed
    }
}

/// Somebody says that a packet of ours could not be delivered.
pub(crate) struct Refusal {
    /// It was TCP, or UDP otherwise.
    pub(crate) tcp: bool,
    pub(crate) local_port: u16,
    pub(crate) remote: SocketAddrV4,
    /// The error of the system calls.
    pub(crate) error: i32,
}

/// Reads an ICMP message, whose checksum is right.
pub(crate) fn refusal(message: &[u8]) -> Option<Refusal> {
    let error = match *message.first_chunk::<2>()? {
        [3, 3] => libc::ECONNREFUSED,
        [3, 2] => libc::ENOPROTOOPT,
        [3, 0 | 5 | 6] => libc::ENETUNREACH,
        [3, 1 | 7] => libc::EHOSTUNREACH,
        _ => return None,
    };
    let inner = message.get(8..)?;
    // Only the beginning of the packet comes back; its length says how long it was.
    let header_len = usize::from(inner.first()? & 15) * 4;
    let header = inner.first_chunk::<IPV4>()?;
    let tcp = match header[9] {
        TCP => true,
        UDP_PROTOCOL => false,
        _ => return None,
    };
    let [a, b, c, d, ..] = *inner.get(header_len..)?.first_chunk::<8>()?;
    let to = [header[16], header[17], header[18], header[19]];
    Some(Refusal {
        tcp,
        local_port: u16::from_be_bytes([a, b]),
        remote: SocketAddrV4::new(to.into(), u16::from_be_bytes([c, d])),
        error,
    })
}

/// The checksum of ICMP: the sum of everything, in ones' complement, is zero.
pub(crate) fn is_intact(packet: &Packet<'_>) -> bool {
    smoltcp::wire::Icmpv4Packet::new_checked(packet.payload)
        .is_ok_and(|message| message.verify_checksum())
}
