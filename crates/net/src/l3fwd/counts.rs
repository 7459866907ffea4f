//! What has become of frames.

use std::fmt;

/// Why a frame was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Drop {
    /// No route leads to its destination.
    NoRoute,
    /// It has lived long enough.
    Ttl,
    /// Neither IPv4 nor a question or answer of ARP.
    NotIpv4,
    /// Shorter than its headers say.
    TooShort,
    /// The checksum of its IPv4 header is wrong.
    Checksum,
    /// Longer than the next interface takes.
    TooLong,
    /// Its hardware address is not that of the port: broadcasts, and what switches send everywhere.
    NotForPort,
    /// The hardware address of the next hop is not known yet. It has been asked for.
    Unresolved,
    /// The queue of the next interface is full.
    QueueFull,
}

impl Drop {
    /// In the order of their numbers, with their names.
    const ALL: [(Drop, &str); 9] = [
        (Drop::NoRoute, "no route"),
        (Drop::Ttl, "TTL"),
        (Drop::NotIpv4, "not IPv4"),
        (Drop::TooShort, "too short"),
        (Drop::Checksum, "checksum"),
        (Drop::TooLong, "too long"),
        (Drop::NotForPort, "not for the port"),
        (Drop::Unresolved, "no neighbour"),
        (Drop::QueueFull, "queue full"),
    ];
}

/// Frames since the forwarder was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// That have come.
    pub received: u64,
    /// That were sent on.
    pub forwarded: u64,
    /// Of ARP: for the forwarder itself.
    pub arp: u64,
    dropped: [u64; Drop::ALL.len()],
}

impl Counts {
    /// How many were dropped for this reason.
    pub fn dropped(&self, why: Drop) -> u64 {
        self.dropped[why as usize]
    }

    pub(super) fn drop(&mut self, why: Drop) {
        self.dropped[why as usize] += 1;
    }

    /// Since `before`.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Counts {
        let mut dropped = self.dropped;
        dropped.iter_mut().zip(before.dropped).for_each(|(now, before)| *now -= before);
        Counts {
            received: self.received - before.received,
            forwarded: self.forwarded - before.forwarded,
            arp: self.arp - before.arp,
            dropped,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped: u64 = self.dropped.iter().sum();
        write!(f, "received {}, forwarded {}, dropped {dropped}", self.received, self.forwarded)?;
        let mut before = " (";
        for (why, name) in Drop::ALL {
            if self.dropped(why) > 0 {
                write!(f, "{before}{name} {}", self.dropped(why))?;
                before = ", ";
            }
        }
        if dropped > 0 { f.write_str(")") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_own_places_and_names() {
        for (n, (why, _)) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, n);
        }
        let mut counts = Counts { received: 9, forwarded: 6, ..Counts::default() };
        assert_eq!(counts.to_string(), "received 9, forwarded 6, dropped 0");
        let before = counts;
        counts.drop(Drop::Ttl);
        counts.drop(Drop::Ttl);
        counts.drop(Drop::NoRoute);
        let text = "received 9, forwarded 6, dropped 3 (no route 1, TTL 2)";
        assert_eq!(counts.to_string(), text);
        assert_eq!(counts.since(&before).dropped(Drop::Ttl), 2);
        assert_eq!(counts.since(&before).received, 0);
    }
}
