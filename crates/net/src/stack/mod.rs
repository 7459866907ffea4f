//! What lies behind one queue of an interface.

mod acknowledge;
pub(crate) mod connection;
mod connections;
mod core;
mod egress;
mod icmp;
mod ingress;
pub(crate) mod listener;
mod neighbours;
mod packet;
mod shard;
mod stale;
pub(crate) mod table;
mod time_wait;
pub(crate) mod udp;

pub(crate) use ingress::Stray;
pub(crate) use shard::{Shard, State};

use quaver::net::stack::Readiness;
use std::io;

/// No time.
pub(crate) const NEVER: u64 = u64::MAX;

pub(crate) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// From its bits.
pub(crate) fn readiness(bits: u32) -> Readiness {
    use Readiness as R;
    let mut readiness = R::NONE;
    for event in [R::READABLE, R::WRITABLE, R::END, R::HANG_UP, R::ERROR] {
        if bits & event.bits() != 0 {
            readiness |= event;
        }
    }
    readiness
}
