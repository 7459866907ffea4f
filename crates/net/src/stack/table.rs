//! Hash tables of the stack.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddrV4;

/// A hash table whose keys are one machine word.
pub(crate) type Table<K, V> = HashMap<K, V, Seed>;

/// A connection's 4-tuple. There is one local address, so three parts are enough.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new(remote: SocketAddrV4, local_port: u16) -> Key {
        let ports = u64::from(remote.port()) << 16 | u64::from(local_port);
        Key(u64::from(remote.ip().to_bits()) << 32 | ports)
    }
}

/// Begins hashes. Peers choose keys: without the seed they cannot choose those that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(pub(crate) u64);

/// Multiplies what it is given with a constant and folds the product.
pub(crate) struct Mix(u64);

impl BuildHasher for Seed {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(self.0)
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
