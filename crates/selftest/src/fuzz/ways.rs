//! The ways in which programs are run.

use std::fmt;

/// On user threads, or natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As ever.
    Native,
    /// By `quaver run`.
    Shim {
        /// `--quantum`.
        quantum: &'static str,
        /// `--workers`.
        workers: usize,
    },
    /// The same, on cores that it shares with others.
    Shared {
        /// `--share`.
        role: &'static str,
    },
}

/// Those that are compared with the native one.
pub fn all() -> Vec<Way> {
    let mut ways = Vec::new();
    for quantum in ["off", "100us", "20us", "5us"] {
        for workers in [1, 2] {
            ways.push(Way::Shim { quantum, workers });
        }
    }
    ways
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Native => f.write_str("natively"),
            Way::Shim { quantum, workers } => {
                write!(f, "--quantum {quantum} --workers {workers}")
            }
            Way::Shared { role } => write!(f, "--share {role}"),
        }
    }
}
