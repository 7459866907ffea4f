#![doc = include_str!("README.md")]

pub(crate) mod carrier;
pub(crate) mod descheduled;
pub(crate) mod patience;
pub(crate) mod room;
pub(crate) mod scheduler;
mod seat;
pub(crate) mod slot;
pub(crate) mod spare;
mod workers;
