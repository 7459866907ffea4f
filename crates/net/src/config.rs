//! What a stack is told at its start.

use std::net::Ipv4Addr;

/// Sizes and addresses of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) subnet: Subnet,
    /// Does the stack want sockets that are bound to any address?
    pub(crate) any: bool,
    /// Bytes of a connection.
    pub(crate) receive_buffer: usize,
    pub(crate) send_buffer: usize,
    /// Bytes of datagrams that wait in a socket.
    pub(crate) datagram_buffer: usize,
    /// Connections of a shard.
    pub(crate) connections: u32,
    pub(crate) seed: u64,
}

/// An address, and who can be reached from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet {
    /// The stack's address.
    pub address: Ipv4Addr,
    /// Bits of the network's part of it.
    pub prefix: u8,
    /// Who forwards to other networks.
    pub gateway: Option<Ipv4Addr>,
}

impl Subnet {
    fn mask(&self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0)
    }

    /// Is this address in the network?
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.address.to_bits()) & self.mask() == 0
    }

    /// Does this address mean everybody in the network?
    pub fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let everybody = self.prefix < 31
            && self.contains(address)
            && address.to_bits() | self.mask() == u32::MAX;
        everybody || address.is_broadcast()
    }

    /// Can one host have this address, and is it not somewhere else by definition?
    pub fn is_host(&self, address: Ipv4Addr) -> bool {
        !(address.is_unspecified()
            || address.is_multicast()
            || address.is_loopback()
            || self.is_broadcast(address))
    }

    /// The neighbour through whom this address is reached.
    pub(crate) fn hop(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.contains(address) { Some(address) } else { self.gateway }
    }
}
