//! The numbers of the core, from `parameters.toml`.

use serde::{Deserialize, Serialize};

use crate::fault::Error;

/// The file that comes with the model; it says where each number is from.
pub const SHIPPED: &str = include_str!("../../parameters.toml");

/// All numbers of the timing model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Cycles of a second.
    pub frequency: u64,
}

impl Default for Parameters {
    /// Those of `parameters.toml`.
    fn default() -> Self {
        Parameters::load(SHIPPED).expect("a test reads the shipped file")
    }
}

impl Parameters {
    /// Reads the text of a parameter file. All values must be there.
    ///
    /// # Errors
    ///
    /// It is no TOML, or a value is missing, unknown or out of range.
    pub fn load(text: &str) -> Result<Parameters, Error> {
        toml::from_str(text).map_err(|e| Error::Parameters(e.to_string()))
    }

    /// Cycles of this many microseconds.
    pub fn cycles(&self, microseconds: f64) -> u64 {
        (microseconds * self.frequency as f64 / 1e6).round() as u64
    }
}
