//! What this machine offers: one file a subject, each with the facts as a plain structure and one
//! `detect()`.
//!
//! What the runtime finds out for itself is asked of the runtime ([`quaver::platform`]). Other
//! facts are tried where trying is harmless (a timer is made, a BPF map created), because
//! containers often show rights that a filter then takes away. Nothing here judges: a fact that
//! cannot be read is `None`, and `findings` says what it means.

pub mod bpf;
pub mod cgroup;
pub mod clocks;
pub mod cpus;
pub mod features;
pub mod kernel;
pub mod libc_version;
pub mod limits;
pub mod memory;
pub mod network;
pub mod sharing;
pub mod user_interrupts;

use std::path::Path;
use std::str::FromStr;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Everything that `quaver doctor` knows of a machine.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are the documented structures of the modules")]
pub struct Facts {
    #[serde(serialize_with = "runtime_facts")]
    pub runtime: quaver::platform::Facts,
    pub kernel: kernel::Kernel,
    pub cpus: cpus::Cpus,
    pub cgroup: cgroup::Cgroup,
    pub features: features::Features,
    pub user_interrupts: user_interrupts::UserInterrupts,
    pub clocks: clocks::Clocks,
    pub libc: libc_version::Libc,
    pub memory: memory::Memory,
    pub limits: limits::Limits,
    pub bpf: bpf::Bpf,
    pub network: network::Network,
    pub sharing: sharing::Sharing,
    /// What an interruption takes of a worker's time with the clock that the runtime chooses, in
    /// us; `None`: no runtime can be built.
    pub interruption_us: Option<f64>,
}

/// Looks at this machine, as this process sees it.
///
/// Takes a few milliseconds.
pub fn detect() -> Facts {
    let mut runtime = quaver::platform::facts();
    // This program may be; it is asked about others.
    runtime.instrumented = false;
    Facts {
        runtime,
        kernel: kernel::detect(),
        cpus: cpus::detect(),
        cgroup: cgroup::detect(),
        features: features::detect(),
        user_interrupts: user_interrupts::detect(),
        clocks: clocks::detect(),
        libc: libc_version::detect(),
        memory: memory::detect(),
        limits: limits::detect(),
        bpf: bpf::detect(),
        network: network::detect(),
        sharing: sharing::detect(),
        interruption_us: interruption_us(),
    }
}

fn interruption_us() -> Option<f64> {
    let price = quaver::Builder::new().build().ok()?.preemption_price()?;
    Some(price.as_secs_f64() * 1e6)
}

/// The runtime's own facts as JSON.
fn runtime_facts<S: Serializer>(
    facts: &quaver::platform::Facts,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("parallelism", &facts.parallelism)?;
    map.serialize_entry("fsgsbase", &facts.fsgsbase)?;
    map.serialize_entry("guard_install", &facts.guard_install)?;
    map.serialize_entry("refills_returns", &facts.refills_returns)?;
    map.serialize_entry("shadow_stack", &facts.shadow_stack)?;
    map.serialize_entry("signal_frame_bytes", &facts.signal_frame)?;
    map.serialize_entry("min_stack_bytes", &facts.min_stack_size)?;
    map.serialize_entry("tls_error", &facts.tls_error)?;
    map.end()
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
