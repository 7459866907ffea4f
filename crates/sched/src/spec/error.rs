//! Why a text specifies no policy.

use alloc::{string::String, vec::Vec};
use core::{error::Error, fmt, time::Duration};

use super::table::NAMES;
use crate::{DurationError, format_duration};

/// Why a text specifies no policy. Its display names the wrong part and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpecError {
    /// No policy has this name.
    UnknownPolicy(String),
    /// The policy has no such parameter.
    UnknownKey {
        /// The policy.
        policy: &'static str,
        /// The key that it does not have.
        key: String,
        /// The keys that it has.
        keys: Vec<&'static str>,
    },
    /// A part after the colon is not of the form `key=value`.
    NotASetting {
        /// That part.
        setting: String,
        /// The keys that the policy has.
        keys: Vec<&'static str>,
    },
    /// A key occurs twice.
    RepeatedKey(&'static str),
    /// A value is no duration.
    BadValue {
        /// The key.
        key: &'static str,
        /// What is wrong with its value.
        error: DurationError,
    },
    /// A value that must be above zero is zero.
    Zero {
        /// The key.
        key: &'static str,
    },
    /// A value that must not be below the quantum is.
    BelowQuantum {
        /// The key.
        key: &'static str,
        /// Its value.
        value: Duration,
        /// The quantum.
        quantum: Duration,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::UnknownPolicy(name) => {
                let names: Vec<_> = NAMES.iter().map(|&(name, _)| name).collect();
                write!(f, "unknown policy `{name}`; known are {}", names.join(", "))
            }
            SpecError::UnknownKey { policy, key, keys } => {
                write!(f, "policy `{policy}` has no key `{key}`; ")?;
                allowed(f, keys)
            }
            SpecError::NotASetting { setting, keys } => {
                write!(f, "`{setting}` is not of the form key=value; ")?;
                allowed(f, keys)
            }
            SpecError::RepeatedKey(key) => write!(f, "key `{key}` is given twice"),
            SpecError::BadValue { key, error } => write!(f, "key `{key}`: {error}"),
            SpecError::Zero { key } => write!(f, "key `{key}` must be above zero"),
            SpecError::BelowQuantum { key, value, quantum } => write!(
                f,
                "key `{key}`: {} is shorter than the quantum, {}",
                format_duration(*value),
                format_duration(*quantum),
            ),
        }
    }
}

fn allowed(f: &mut fmt::Formatter<'_>, keys: &[&str]) -> fmt::Result {
    match keys {
        [] => f.write_str("this policy has no keys"),
        keys => write!(f, "allowed keys are {}", keys.join(", ")),
    }
}

impl Error for SpecError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SpecError::BadValue { error, .. } => Some(error),
            _ => None,
        }
    }
}
