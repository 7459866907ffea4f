//! Parsers of the values that users and the kernel write: durations, lists, CPU sets.
//!
//! Every parser is a plain function `&str -> Result<T, String>` whose error says what was wrong and
//! what would be right, so that it serves clap (which puts the option's name in front) and file
//! readers alike.

pub mod bytes;
pub mod cpulist;
pub mod duration;
pub mod mix;
