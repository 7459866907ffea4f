//! ARP for IPv4 over Ethernet (RFC 826): who has which address.

use std::net::Ipv4Addr;

use super::packet::{ARP, ETHERNET};

/// A whole frame, in bytes.
pub(super) const LEN: usize = ETHERNET + 28;

/// Ethernet, IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const BROADCAST: [u8; 6] = [0xff; 6];

/// A question or an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    /// `false`: an answer.
    pub asks: bool,
    pub sender: ([u8; 6], Ipv4Addr),
    pub target: ([u8; 6], Ipv4Addr),
}

impl Message {
    /// Reads a frame; `None`: it is something else.
    pub(super) fn parse(frame: &[u8]) -> Option<Message> {
        let frame = frame.first_chunk::<LEN>()?;
        let (ethernet, arp) = frame.split_at(ETHERNET);
        if ethernet[12..] != ARP || arp[..6] != KIND {
            return None;
        }
        let asks = match arp[6..8] {
            [0, 1] => true,
            [0, 2] => false,
            _ => return None,
        };
        let owner = |at: usize| {
            let mac = *arp[at..].first_chunk::<6>().expect("it is within the frame");
            let ip = *arp[at + 6..].first_chunk::<4>().expect("it is within the frame");
            (mac, Ipv4Addr::from(ip))
        };
        Some(Message { asks, sender: owner(8), target: owner(18) })
    }

    /// Who has `address`?
    pub(super) fn ask(sender: ([u8; 6], Ipv4Addr), address: Ipv4Addr) -> Message {
        Message { asks: true, sender, target: ([0; 6], address) }
    }

    /// The answer: it is at `mac`.
    pub(super) fn answer(&self, mac: [u8; 6]) -> Message {
        Message { asks: false, sender: (mac, self.target.1), target: self.sender }
    }

    /// Writes the frame.
    pub(super) fn write(&self, frame: &mut [u8; LEN]) {
        frame[..6].copy_from_slice(if self.asks { &BROADCAST } else { &self.target.0 });
        frame[6..12].copy_from_slice(&self.sender.0);
        frame[12..14].copy_from_slice(&ARP);
        frame[14..20].copy_from_slice(&KIND);
        frame[20..22].copy_from_slice(&[0, if self.asks { 1 } else { 2 }]);
        for ((mac, ip), at) in [(self.sender, 22), (self.target, 32)] {
            frame[at..at + 6].copy_from_slice(&mac);
            frame[at + 6..at + 10].copy_from_slice(&ip.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written_and_so_is_its_answer() {
        let (ours, theirs) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ask = Message::ask((ours, [10, 0, 0, 1].into()), [10, 0, 0, 2].into());
        let mut frame = [0; LEN];
        ask.write(&mut frame);
        assert_eq!(Message::parse(&frame), Some(ask));
        assert_eq!(frame[..6], BROADCAST);
        let answer = ask.answer(theirs);
        answer.write(&mut frame);
        assert_eq!(Message::parse(&frame), Some(answer));
        assert_eq!((&frame[..6], &frame[6..12]), (&ours[..], &theirs[..]));
        assert_eq!(answer.sender, (theirs, [10, 0, 0, 2].into()));
        for at in [12, 14, 16, 18, 20, 21] {
            let mut other = frame;
            other[at] ^= 0x10;
            assert_eq!(Message::parse(&other), None, "{at}");
        }
        assert_eq!(Message::parse(&frame[..LEN - 1]), None);
    }
}
