#![doc = include_str!("../README.md")]

pub mod boundaries;
pub mod chaos;
pub mod fuzz;
pub mod libraries;
pub mod outcome;
pub mod probes;
pub mod symbols;
pub mod torture;

pub use libraries::Libraries;
pub use outcome::{Counts, Difference, Outcome};
