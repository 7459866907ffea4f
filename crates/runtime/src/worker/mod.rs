#![doc = include_str!("README.md")]

pub(crate) mod carrier;
mod looking;
pub(crate) mod room;
pub(crate) mod scheduler;
mod seat;
pub(crate) mod slot;
pub(crate) mod spare;
