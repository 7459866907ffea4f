//! schbench's options, as far as they mean something here.

use std::str::FromStr;

use clap::Parser;
use clap::builder::RangedI64ValueParser;
use serde::{Deserialize, Serialize};

/// How many threads do what, for how long.
#[derive(Parser, Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[command(name = "schbench", no_binary_name = true, disable_version_flag = true)]
pub struct Flags {
    /// Message threads
    #[arg(short = 'm', long = "message-threads", default_value_t = 1)]
    #[arg(value_parser = u16s().range(1..=64))]
    pub messages: u16,
    /// Worker threads of each message thread
    #[arg(short, long, default_value_t = 4, value_parser = u16s().range(1..=4096))]
    pub threads: u16,
    /// Seconds that count
    #[arg(short, long, default_value_t = 3.0, value_parser = seconds)]
    pub runtime: f64,
    /// Seconds before these
    #[arg(short, long, default_value_t = 0.1, value_parser = seconds)]
    pub warmuptime: f64,
    /// Multiplications for each message
    #[arg(short = 'n', long, default_value_t = 10, value_parser = u32s().range(1..=100_000))]
    pub operations: u32,
    /// KiB of the three matrices
    #[arg(short = 'F', long = "cache_footprint", default_value_t = 128)]
    #[arg(value_parser = u32s().range(1..=1 << 20))]
    pub footprint: u32,
}

fn u16s() -> RangedI64ValueParser<u16> {
    clap::value_parser!(u16)
}

fn u32s() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=3600.0).contains(&value) => Ok(value),
        _ => Err(format!("{text} is not a number of seconds from 0 to 3600")),
    }
}

impl Flags {
    /// So many worker threads, measured for so long; all else is Skyloft's.
    pub fn of(threads: u16, runtime_ms: u64) -> Self {
        let flags = Self::parse_from([] as [&str; 0]);
        Self { threads, runtime: runtime_ms as f64 / 1e3, ..flags }
    }

    /// The time that counts, in milliseconds.
    pub fn runtime_ms(&self) -> u64 {
        (self.runtime * 1e3) as u64
    }

    /// Rows of a matrix: three of them fill the footprint.
    pub fn rows(&self) -> usize {
        let numbers = u64::from(self.footprint) * 1024 / 3 / size_of::<u64>() as u64;
        numbers.isqrt().max(1) as usize
    }
}

impl FromStr for Flags {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::try_parse_from(text.split_whitespace())
            .map_err(|error| error.to_string().trim().trim_start_matches("error: ").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_skylofts() {
        let flags: Flags = "-n10 -F128 -m1 -r10".parse().unwrap();
        assert_eq!(Flags { threads: flags.threads, ..flags }, Flags::of(flags.threads, 10_000));
        // What the paper's own files say of its matrices.
        assert_eq!(flags.rows(), 73);
        assert_eq!("-t 8 --message-threads=2".parse::<Flags>().unwrap().threads, 8);
    }

    #[test]
    fn bad_options_are_named() {
        for (text, part) in [
            ("-t 0", "0 is not in 1..=4096"),
            ("-m many", "many"),
            ("-r -1", "-1"),
            ("-r 1e9", "0 to 3600"),
            ("--locking", "--locking"),
            ("8", "8"),
        ] {
            let error = text.parse::<Flags>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
