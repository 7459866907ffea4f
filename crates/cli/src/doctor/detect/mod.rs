//! What this machine offers: one file a subject, each with the facts as a plain structure and one `detect()`.
//!
//! Facts are tried where trying is harmless (a guard page is installed, a timer made, a BPF map created), because
//! containers often show rights that a filter then takes away. Nothing here judges: a fact that cannot be read is
//! `None`, and `findings` says what it means.

pub mod bpf;
pub mod cgroup;
pub mod clocks;
pub mod cpus;
pub mod features;
pub mod kernel;
pub mod libc_internals;
pub mod limits;
pub mod memory;
pub mod user_interrupts;

use std::path::Path;
use std::str::FromStr;

use serde::Serialize;

/// Everything that `quaver doctor` knows of a machine.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are the documented structures of the modules")]
pub struct Facts {
    pub kernel: kernel::Kernel,
    pub cpus: cpus::Cpus,
    pub cgroup: cgroup::Cgroup,
    pub features: features::Features,
    pub user_interrupts: user_interrupts::UserInterrupts,
    pub clocks: clocks::Clocks,
    pub libc: libc_internals::Libc,
    pub memory: memory::Memory,
    pub limits: limits::Limits,
    pub bpf: bpf::Bpf,
}

/// Looks at this machine, as this process sees it.
///
/// Takes a few milliseconds; forks one short-lived child when the processor has user interrupts.
pub fn detect() -> Facts {
    Facts {
        kernel: kernel::detect(),
        cpus: cpus::detect(),
        cgroup: cgroup::detect(),
        features: features::detect(),
        user_interrupts: user_interrupts::detect(),
        clocks: clocks::detect(),
        libc: libc_internals::detect(),
        memory: memory::detect(),
        limits: limits::detect(),
        bpf: bpf::detect(),
    }
}

/// The trimmed content of a one-line file of `/proc` or `/sys`.
fn read_line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// The number in a one-line file of `/proc` or `/sys`.
fn read_number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    read_line(path)?.parse().ok()
}

/// The name of the error that the last system call of this thread left in `errno`.
fn last_error() -> String {
    std::io::Error::last_os_error().to_string()
}
