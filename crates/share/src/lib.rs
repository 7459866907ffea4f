//! Several applications on the same cores: latency-critical (LC) ones beside best-effort (BE) ones
//! that use what is left. (Skyloft 3.3, on stock Linux, with Shenango's rule for who gets a core.)
//!
//! * [`Member`]: this process takes part; [`Doors`]: giving cores up and having them back;
//!   [`Rest`]: whether that is worth it.
//! * [`common`]: one run queue for several applications.
//! * [`class`]: the kernel's scheduling classes, by which cores are bound to applications.
//! * `broker`, with the feature of that name: admits, ranks and watches applications.
//!
//! The protocol, its states, invariants and faults are in this crate's README.

#[cfg(feature = "broker")]
pub mod broker;
pub mod class;
mod client;
pub mod common;
mod door;
mod files;
mod futex;
mod layout;
mod map;
mod pages;
mod procfs;
mod rest;
mod threads;
mod wire;

pub use client::{JoinError, Kind, Member, State, common_queue, join_plain, socket_path, status};
pub use door::{Doors, Rung, Tally};
pub use layout::{MOST_APPS, MOST_PLACES};
pub use rest::Rest;

/// Where a broker listens unless it is told otherwise.
pub const SOCKET: &str = "/run/quaver-share.sock";
