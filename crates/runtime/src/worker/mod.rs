#![doc = include_str!("README.md")]

pub(crate) mod carrier;
pub(crate) mod idle;
pub(crate) mod scheduler;
pub(crate) mod slot;
pub(crate) mod spare;
