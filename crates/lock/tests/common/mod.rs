//! Processes that the tests start and kill.

mod actors;

pub use actors::{Actor, Place, soon};
use std::path::Path;
use std::process::Command;

/// The command for the role of this name, with lockd's socket.
pub fn role(name: &str, socket: &Path) -> Command {
    let mut command = actors::role(name);
    command.env("QUAVER_LOCKD", socket).env("QUAVER_LOCK_ROLE", name);
    command
}

/// Whether this process has been started for a role; `cargo test -- --ignored` alone has not.
pub fn is_actor() -> bool {
    std::env::var_os("QUAVER_LOCK_ROLE").is_some()
}
