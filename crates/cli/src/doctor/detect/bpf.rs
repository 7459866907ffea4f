//! May this process load BPF programs?

use std::path::Path;

use procfs::process::Process;
use quaver_lock::{monitor, slice};
use serde::Serialize;

use super::{last_error, read_number};

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// May this process load BPF programs?
#[derive(Clone, Debug, Serialize)]
pub struct Bpf {
    /// `CAP_SYS_ADMIN`, or both `CAP_BPF` and `CAP_PERFMON`, are effective.
    pub capable: bool,
    /// A BPF map could be created; otherwise why not.
    pub map_create: Result<(), String>,
    /// The kernel describes its types in `/sys/kernel/btf/vmlinux`, which tracing programs need.
    pub btf: bool,
    /// `kernel.unprivileged_bpf_disabled`: 0 no, 1 for good, 2 until changed.
    pub unprivileged_disabled: Option<u32>,
    /// Whether this build of Quaver has the program that watches locks.
    pub lock_monitor_built: bool,
    /// Whether a lockd serves the locks of all processes.
    pub lockd: bool,
    /// Locks without a monitor can ask the kernel for longer slices; otherwise why not.
    pub slice_extension: Result<(), String>,
}

pub(super) fn detect() -> Bpf {
    let status = Process::myself().and_then(|me| me.status());
    Bpf {
        capable: status.is_ok_and(|status| capable(status.capeff)),
        map_create: try_map_create(),
        btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
        unprivileged_disabled: read_number("/proc/sys/kernel/unprivileged_bpf_disabled"),
        lock_monitor_built: monitor::built(),
        lockd: monitor::lockd_answers(),
        slice_extension: slice::possible().map_err(|why| why.to_string()),
    }
}

fn capable(effective: u64) -> bool {
    let has = |capability: u32| effective & (1 << capability) != 0;
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
}

/// The first fields of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

fn try_map_create() -> Result<(), String> {
    const BPF_MAP_CREATE: libc::c_int = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    let map = MapCreate {
        map_type: BPF_MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        map_flags: 0,
    };
    // SAFETY: the kernel reads as many bytes as we say; the new descriptor, if any, is closed at
    // once.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, &raw const map, size_of_val(&map));
        if fd < 0 {
            return Err(last_error());
        }
        libc::close(fd as libc::c_int);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_small_capabilities_or_the_great_one() {
        assert!(capable(1 << CAP_SYS_ADMIN));
        assert!(capable(1 << CAP_BPF | 1 << CAP_PERFMON));
        assert!(!capable(1 << CAP_BPF));
        assert!(!capable(0));
    }
}
