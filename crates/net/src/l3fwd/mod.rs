//! A router of IPv4: DPDK's l3fwd on AF_XDP. (xUI, 5.4.)
//!
//! ```text
//!  port ── receive ──> check ──> table ──> next hop ──> rewrite ──> queue ── flush ──> port
//!                        |         |           |                      |
//!                      drops    no route   no neighbour             full
//! ```
//!
//! * A frame stays where the kernel has put it: all ports share their frames, and only its headers
//!   are read and written. On interfaces without zero-copy the kernel copies twice, nobody else.
//! * A round takes up to 64 frames of each queue, and ends with one system call for each port that
//!   has something to send.
//! * Next hops are hardware addresses, or are asked for by ARP. Packets to those that have not
//!   answered yet are dropped: nothing is kept.
//! * It does what a router must to be one (TTL, header checksum, length), and sends no ICMP: who is
//!   dropped is counted ([`Drop`]).
//! * One thread has all ports. [`Forwarder::poll`] never waits, [`Forwarder::wait`] does.

mod arp;
mod counts;
mod forwarder;
mod packet;
mod port;
mod prefix;
mod routes;
mod table;

pub use counts::{Counts, Drop};
pub use forwarder::{Forwarder, RouteError};
pub use port::PortSettings;
pub use prefix::Prefix;
pub use routes::{Hop, Route, Wrong, hardware, parse, random};
pub use table::{Full, Table, Value};
