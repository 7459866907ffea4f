//! What a router does to a packet.

use std::net::Ipv4Addr;

use super::counts::Drop;
use crate::xdp::checksum::{fold, sum};

/// Where the packet begins in a frame.
pub(super) const ETHERNET: usize = 14;
/// The shortest IPv4 header.
const HEADER: usize = 20;
/// Where its parts are.
const TTL: usize = 8;
const CHECKSUM: usize = 10;

/// `EtherType`s.
pub(super) const IPV4: [u8; 2] = [0x08, 0x00];
pub(super) const ARP: [u8; 2] = [0x08, 0x06];

/// Where a frame that can be forwarded wants to go, and the length of its packet.
///
/// # Errors
///
/// It is not to be forwarded.
#[inline]
pub(super) fn check(frame: &[u8]) -> Result<(Ipv4Addr, usize), Drop> {
    let Some(&[a, b]) = frame.get(12..14) else { return Err(Drop::TooShort) };
    if [a, b] != IPV4 {
        return Err(Drop::NotIpv4);
    }
    let Some(header) = frame[ETHERNET..].first_chunk::<HEADER>() else {
        return Err(Drop::TooShort);
    };
    if header[0] >> 4 != 4 {
        return Err(Drop::NotIpv4);
    }
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_len < HEADER || total < header_len || frame.len() - ETHERNET < total {
        return Err(Drop::TooShort);
    }
    if fold(sum(0, &frame[ETHERNET..ETHERNET + header_len])) != 0xffff {
        return Err(Drop::Checksum);
    }
    if header[TTL] <= 1 {
        return Err(Drop::Ttl);
    }
    let [.., a, b, c, d] = *header;
    Ok((Ipv4Addr::new(a, b, c, d), total))
}

/// Makes of a frame that [`check`] accepts the one to send: a hop less to live, and these hardware
/// addresses.
#[inline]
pub(super) fn rewrite(frame: &mut [u8], to: [u8; 6], from: [u8; 6]) {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    let header = frame[ETHERNET..].first_chunk_mut::<HEADER>().expect("it was checked");
    header[TTL] -= 1;
    // The time to live is the upper half of its word: the sum, which is inverted, is 0x100 less
    // (RFC 1624).
    let before = u16::from_be_bytes([header[CHECKSUM], header[CHECKSUM + 1]]);
    let after = !fold(u32::from(!before) + u32::from(!0x100u16));
    header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&after.to_be_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with a valid header of 20 bytes.
    pub(crate) fn frame(to: [u8; 4], ttl: u8, id: u16, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + HEADER + payload];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[12..14].copy_from_slice(&IPV4);
        let header = &mut frame[ETHERNET..ETHERNET + HEADER];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&((HEADER + payload) as u16).to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[TTL] = ttl;
        header[9] = 17;
        header[12..16].copy_from_slice(&[10, 0, 0, 1]);
        header[16..20].copy_from_slice(&to);
        let sum = !fold(sum(0, header));
        header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    proptest! {
        #[test]
        fn what_is_sent_is_valid_again_and_else_unchanged(
            to: [u8; 4], ttl in 2..=255u8, id: u16, payload in 0..100usize,
        ) {
            let before = frame(to, ttl, id, payload);
            prop_assert_eq!(check(&before), Ok((to.into(), HEADER + payload)));
            let mut after = before.clone();
            rewrite(&mut after, [7; 6], [8; 6]);
            let mut expected = frame(to, ttl - 1, id, payload);
            expected[..6].fill(7);
            expected[6..12].fill(8);
            // 0 and 0xffff are the same sum.
            let sum = |frame: &[u8]| fold(sum(0, &frame[ETHERNET..ETHERNET + HEADER]));
            prop_assert_eq!(sum(&after), 0xffff);
            for bytes in [&mut expected, &mut after] {
                bytes[ETHERNET + CHECKSUM..][..2].fill(0);
            }
            prop_assert_eq!(after, expected);
        }

        #[test]
        fn one_wrong_bit_of_the_header_is_noticed(bit in 0..160usize, ttl in 2..=255u8) {
            let mut frame = frame([10, 1, 2, 3], ttl, 99, 30);
            frame[ETHERNET + bit / 8] ^= 1 << (bit % 8);
            prop_assert!(check(&frame).is_err());
        }

        #[test]
        fn anything_may_come(frame in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = check(&frame);
        }
    }

    #[test]
    fn drops_have_their_reasons() {
        let good = frame([10, 1, 2, 3], 64, 1, 8);
        assert!(check(&good).is_ok());
        let with = |at: usize, value: u8| {
            let mut frame = good.clone();
            frame[at] = value;
            check(&frame).unwrap_err()
        };
        assert_eq!(check(&good[..13]), Err(Drop::TooShort));
        assert_eq!(check(&good[..33]), Err(Drop::TooShort));
        assert_eq!(check(&good[..41]), Err(Drop::TooShort));
        assert_eq!(with(ETHERNET, 0x44), Drop::TooShort);
        assert_eq!(with(ETHERNET, 0x65), Drop::NotIpv4);
        assert_eq!(with(12, 0x86), Drop::NotIpv4);
        assert_eq!(with(ETHERNET + 19, 4), Drop::Checksum);
        assert_eq!(check(&frame([10, 1, 2, 3], 1, 1, 8)), Err(Drop::Ttl));
        assert_eq!(check(&frame([10, 1, 2, 3], 0, 1, 8)), Err(Drop::Ttl));
    }
}
