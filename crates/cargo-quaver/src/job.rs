//! What a `cargo quaver` tells the wrappers that cargo starts.

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// The environment variable that carries it.
pub const VARIABLE: &str = "CARGO_QUAVER_JOB";

/// One build.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Job {
    /// The only crates that get probes, by the names that rustc knows; all if empty.
    pub only: Vec<String>,
    /// The wrapper that would have been used: it compiles what stays plain.
    pub wrapper: Option<PathBuf>,
    /// Everything that the result depends on and that cargo does not know of.
    pub stamp: String,
}

impl Job {
    /// The job in the environment, if there is one.
    pub fn given() -> Option<anyhow::Result<Job>> {
        let text = env::var(VARIABLE).ok()?;
        Some(serde_json::from_str(&text).with_context(|| format!("cannot read {VARIABLE}")))
    }

    /// Whether the crate gets probes.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}
