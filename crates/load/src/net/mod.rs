//! Load over the network: an open loop, a pool of connections, latency as the client sees it.
//!
//! * [`Protocol`] says what requests and replies look like: [`resp`], [`memcached`], [`aspen`].
//! * [`Operation`] is what a class of requests does.
//! * [`Pool`] holds the connections. [`Pool::offer`] sends a schedule and receives replies, on one
//!   kernel thread; [`fill`] puts the keys there before.
//!
//! # What is measured
//!
//! Latency counts from the intended send time to the moment at which the client has read the whole
//! reply. A request goes out on a connection with room: at most [`Options::depth`] are on one at a
//! time. If there is none it waits in the client, and its time runs. Requests that get an error, or
//! whose connection breaks, count as dropped: no percentile gains by them. They are counted by
//! class.
//!
//! While the loop waits for the next send time it receives; when it is late, it receives between
//! sends. So the client costs one thread, and its own lateness is in the histogram of the loop.

pub mod aspen;
mod connection;
mod fill;
pub mod memcached;
mod operation;
mod pool;
mod protocol;
pub mod resp;

pub use fill::{FillError, fill};
pub use operation::{KERNELS, Operation, operations};
pub use pool::{ClassErrors, Offered, Options, Pool, PoolError};
pub use protocol::{Protocol, Reply, Transport, UnknownProtocol};

/// The name of a key by its number: as `redis-benchmark -r` names them.
pub fn key(index: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = index;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The value of a key: letters that depend on its number, and can be compared.
pub fn value(index: u64, bytes: usize) -> Vec<u8> {
    let mut word = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            b'a' + (word % 26) as u8
        })
        .collect()
}

/// A number below `end` that is uniform if `random` is.
fn below(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_twelve_digits() {
        assert_eq!(&key(0), b"key:000000000000");
        assert_eq!(&key(123_456), b"key:000000123456");
    }

    #[test]
    fn values_differ_and_stay() {
        assert_eq!(value(1, 100), value(1, 100));
        assert_ne!(value(1, 100), value(2, 100));
        assert_eq!(value(3, 0), b"");
    }
}
