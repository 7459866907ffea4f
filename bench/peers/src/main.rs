//! Peers of `quaver bench`.
fn main() {}
