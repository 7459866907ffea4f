//! A runtime for tests that is as bad as the rules of [`crate::abi`] allow.
//!
//! Linked with a program that has probes, it makes each of them hit, in every thread. Then another
//! thread runs on the same processor and overwrites all registers. Of them only what the stub calls
//! alive is kept: the general registers of the mask, the vectors of the class. What is dead is
//! overwritten again, flags included. A program must give the same results as without.
//!
//! It says at the end, on standard error, `hits N unwound N`. Its settings are described in
//! `torture.c`.

/// Names and texts of the two files, for `cc`. `-ldl -lpthread` are needed with old C libraries.
pub const SOURCES: [(&str, &str); 2] = [
    ("torture.S", include_str!("torture/torture.S")),
    ("torture.c", include_str!("torture/torture.c")),
];

/// How many probes were hit, from what the program wrote to standard error.
pub fn hits(errors: &str) -> Option<u64> {
    let last = errors.rsplit("hits ").next().filter(|_| errors.contains("hits "))?;
    last.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_read_from_the_last_line() {
        assert_eq!(hits("warning: 3 hits 7\nhits 12 unwound 0\n"), Some(12));
        assert_eq!(hits("killed\n"), None);
    }
}
