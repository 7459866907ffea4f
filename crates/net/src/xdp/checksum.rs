//! Checksums that were left to hardware that there is not.
//!
//! One end of a veth pair hands the other what it would give to a card: by default the checksum of
//! TCP and UDP is that of the pseudo-header only, for the card to complete. The kernel knows this
//! of a packet; what AF_XDP delivers are bytes. So it is recognised by its value here, and
//! completed.

const ETHERNET: usize = 14;

/// Completes the checksum of TCP or UDP in an IPv4 frame, where only that of the pseudo-header is
/// there. Leaves all else as it is.
pub(crate) fn complete(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(ETHERNET..) else { return };
    if frame_type(packet) != Some(4) {
        return;
    }
    let header = usize::from(packet[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    let at = match packet[9] {
        6 => 16,
        17 => 6,
        _ => return,
    };
    if fragment || header < 20 || total > packet.len() || total < header + at + 2 {
        return;
    }
    let length = (total - header) as u16;
    let pseudo = sum(0, &packet[12..20]) + u32::from(packet[9]) + u32::from(length);
    let segment = &mut packet[header..total];
    let there = u16::from_be_bytes([segment[at], segment[at + 1]]);
    // UDP without a checksum has 0, which no sum of a header with addresses is.
    if there != fold(pseudo) {
        return;
    }
    // The field itself holds the sum of the pseudo-header.
    let full = match !fold(sum(0, segment)) {
        0 if packet[9] == 17 => 0xffff,
        full => full,
    };
    packet[header + at..header + at + 2].copy_from_slice(&full.to_be_bytes());
}

/// The version of a packet that is as long as the shortest IPv4 header.
fn frame_type(packet: &[u8]) -> Option<u8> {
    (packet.len() >= 20).then(|| packet[0] >> 4)
}

/// The sum of 16-bit words, to be folded. For less than 64 KiB.
pub(crate) fn sum(start: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(start, |sum, &word| sum + u32::from(u16::from_be_bytes(word)));
    rest.first().map_or(sum, |&byte| sum + (u32::from(byte) << 8))
}

/// One's complement: carries are added.
pub(crate) fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IPv4 packet in a frame, with only the pseudo-header's sum.
    fn partial(protocol: u8, ports: [u8; 4], payload: &[u8]) -> (Vec<u8>, usize) {
        let (head, at) = if protocol == 6 { (20, 16) } else { (8, 6) };
        let length = (head + payload.len()) as u16;
        let mut frame = vec![0; ETHERNET + 20];
        frame[12..14].copy_from_slice(&[8, 0]);
        let ip = &mut frame[ETHERNET..];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&(20 + length).to_be_bytes());
        ip[9] = protocol;
        ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let pseudo = fold(sum(u32::from(protocol) + u32::from(length), &ip[12..20]));
        let mut segment = vec![0; head];
        segment[..4].copy_from_slice(&ports);
        segment[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        frame.extend(segment);
        frame.extend(payload);
        (frame, ETHERNET + 20 + at)
    }

    /// Does the receiver accept the checksum?
    fn verifies(frame: &[u8]) -> bool {
        let ip = &frame[ETHERNET..];
        let length = (ip.len() - 20) as u32;
        fold(sum(sum(u32::from(ip[9]) + length, &ip[12..20]), &ip[20..])) == 0xffff
    }

    proptest! {
        #[test]
        fn partial_ones_become_valid_and_valid_ones_stay(
            tcp: bool,
            ports: [u8; 4],
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let (mut frame, at) = partial(if tcp { 6 } else { 17 }, ports, &payload);
            complete(&mut frame);
            prop_assert!(verifies(&frame));
            prop_assert!(tcp || frame[at..at + 2] != [0, 0]);
            let before = frame.clone();
            // A valid one may by chance look like a partial one: then it stays valid.
            complete(&mut frame);
            prop_assert!(frame == before || verifies(&frame));
        }

        #[test]
        fn anything_may_come(mut frame in prop::collection::vec(any::<u8>(), 0..100)) {
            complete(&mut frame);
        }
    }

    #[test]
    fn corrupt_ones_stay_corrupt_and_fragments_are_left_alone() {
        let (frame, at) = partial(17, [1, 2, 3, 4], b"hello");
        let mut corrupt = frame.clone();
        corrupt[at] ^= 1;
        let before = corrupt.clone();
        complete(&mut corrupt);
        assert_eq!(corrupt, before);
        let mut fragment = frame;
        fragment[ETHERNET + 6] = 0x20;
        let before = fragment.clone();
        complete(&mut fragment);
        assert_eq!(fragment, before);
    }
}
