//! What a job wants where a preemption finds a thread in the C library or another one that has
//! locks.

use core::fmt;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// See [`quaver::Builder::max_deferral`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Libraries {
    /// The preemption is put off until the thread comes out.
    Defer,
    /// It is taken there.
    Insist,
}

impl Libraries {
    /// The builder's value.
    pub fn max_deferral(self) -> Option<Duration> {
        match self {
            Libraries::Defer => None,
            Libraries::Insist => Some(Duration::ZERO),
        }
    }
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Libraries::Defer => "defer",
            Libraries::Insist => "insist",
        })
    }
}
