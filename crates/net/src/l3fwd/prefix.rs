//! Networks: an address and how many of its bits count.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A network, as `10.1.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Prefix {
    address: u32,
    len: u8,
}

impl Prefix {
    /// The network of `address` with `len` bits; `None`: there are no more than 32.
    pub fn of(address: Ipv4Addr, len: u8) -> Option<Prefix> {
        (len <= 32).then(|| Prefix { address: address.to_bits() & mask(len), len })
    }

    /// The first address.
    pub fn first(self) -> Ipv4Addr {
        self.address.into()
    }

    /// How many bits count.
    pub fn bits(self) -> u8 {
        self.len
    }

    /// Is `address` one of it?
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.len) == self.address
    }

    /// The network of one bit less; `None`: this is everything.
    pub(super) fn wider(self) -> Option<Prefix> {
        Prefix::of(self.first(), self.len.checked_sub(1)?)
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.len)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let malformed = || format!("{text:?} is no network such as 10.1.0.0/16");
        let (address, len) = text.split_once('/').ok_or_else(malformed)?;
        let address: Ipv4Addr = address.parse().map_err(|_| malformed())?;
        let len = len.parse().map_err(|_| malformed())?;
        let prefix = Prefix::of(address, len).ok_or_else(malformed)?;
        if prefix.first() != address {
            return Err(format!("{text} has bits that do not count: {prefix} is meant?"));
        }
        Ok(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_written_as_they_are_read() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "10.1.2.0/23", "255.255.255.255/32"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.0", "10.0.0/8", "10.0.0.0/33", "10.0.0.0/-1", "x/8", "::/0"] {
            assert!(text.parse::<Prefix>().unwrap_err().contains("no network"), "{text}");
        }
        let error = "10.1.2.3/16".parse::<Prefix>().unwrap_err();
        assert!(error.contains("10.1.0.0/16 is meant?"), "{error}");
    }

    #[test]
    fn they_contain_what_begins_alike() {
        let net: Prefix = "10.1.2.0/23".parse().unwrap();
        assert!(net.contains([10, 1, 3, 255].into()) && !net.contains([10, 1, 4, 0].into()));
        assert_eq!(net.wider().unwrap().to_string(), "10.1.0.0/22");
        assert_eq!("0.0.0.0/0".parse::<Prefix>().unwrap().wider(), None);
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().contains([255; 4].into()));
    }
}
