//! The `quaver` command.
fn main() {}
