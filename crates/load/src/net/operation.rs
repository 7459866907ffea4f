//! What a class of requests does, by its name.

use crate::error::{Spec, SpecError};
use crate::mix::Mix;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Get,
    /// Writes a key.
    Set,
    /// Adds 1 to a counter.
    Incr,
    /// Reads many rows in the order of their keys.
    Range,
    /// Computes: one of the kernels of the analytics server, from 1.
    Kernel(u32),
}

/// The names of the kernels, from the first.
pub const KERNELS: [&str; 5] = ["decay", "ad", "rmv", "ppo", "kmeans"];

impl Operation {
    /// The operation of this name.
    pub fn named(name: &str) -> Option<Operation> {
        Some(match name {
            "get" => Operation::Get,
            "set" => Operation::Set,
            "incr" => Operation::Incr,
            "range" => Operation::Range,
            _ => {
                let kernel = KERNELS.iter().position(|kernel| *kernel == name)?;
                Operation::Kernel(kernel as u32 + 1)
            }
        })
    }
}

/// The operation of each class of the mix.
///
/// # Errors
///
/// A class has another name than those of operations.
pub fn operations(mix: &Mix) -> Result<Vec<Operation>, SpecError> {
    let one = |name: &str| {
        let expected = "classes named get, set, incr, range, decay, ad, rmv, ppo or kmeans";
        Operation::named(name).ok_or_else(|| Spec::new("request mix", name).error(name, expected))
    };
    mix.classes().iter().map(|class| one(&class.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_operations() {
        let mix: Mix = "get:99,range:1,kmeans:1".parse().unwrap();
        let expected = [Operation::Get, Operation::Range, Operation::Kernel(5)];
        assert_eq!(operations(&mix).unwrap(), expected);
        let mix: Mix = "fetch:99".parse().unwrap();
        let error = operations(&mix).unwrap_err().to_string();
        assert!(error.contains("fetch") && error.contains("range"), "{error}");
    }
}
