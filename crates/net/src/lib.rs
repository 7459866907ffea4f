#![doc = include_str!("../README.md")]

pub mod clock;
mod config;
pub mod device;
mod driver;
pub mod l3fwd;
mod lock;
pub mod memory;
mod net;
mod ports;
mod sockets;
pub mod spec;
mod stack;
mod stats;
mod steering;
mod sys;
pub mod tap;
pub mod xdp;

pub use config::Subnet;
pub use net::{Builder, Net, Running, Shared};
pub use stats::Stats;
