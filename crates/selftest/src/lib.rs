#![doc = include_str!("../README.md")]

pub mod boundaries;
pub mod outcome;
pub mod symbols;
pub mod torture;

pub use outcome::{Counts, Difference, Outcome};
