//! The CPUs of the machine and those that this process may use.

use procfs::Current;
use procfs::process::Process;
use serde::Serialize;

use super::read_line;
use crate::parse::cpulist;

/// The CPUs of the machine and those that this process may use.
#[derive(Clone, Debug, Serialize)]
pub struct Cpus {
    /// CPUs that are switched on.
    pub online: Vec<usize>,
    /// CPUs that the affinity mask allows; a cgroup's cpuset has already narrowed it.
    pub allowed: Vec<usize>,
    /// CPUs that the kernel was told to keep free of other work (`isolcpus`).
    pub isolated: Vec<usize>,
    /// Hardware threads that share a core with another allowed CPU.
    pub smt_siblings: bool,
    /// The memory the kernel reports, in KiB.
    pub memory_kib: Option<u64>,
}

pub(super) fn detect() -> Cpus {
    let list = |path: &str| read_line(path).and_then(|text| cpulist::parse(&text).ok());
    let allowed = allowed();
    let smt_siblings = allowed.iter().any(|cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let siblings = list(&path).unwrap_or_default();
        siblings.iter().any(|other| other != cpu && allowed.contains(other))
    });
    Cpus {
        online: list("/sys/devices/system/cpu/online").unwrap_or_else(|| allowed.clone()),
        isolated: list("/sys/devices/system/cpu/isolated").unwrap_or_default(),
        memory_kib: procfs::Meminfo::current().ok().map(|m| m.mem_total / 1024),
        smt_siblings,
        allowed,
    }
}

/// The CPUs in this thread's affinity mask; empty when `/proc` is not there.
pub fn allowed() -> Vec<usize> {
    let status = Process::myself().and_then(|me| me.status());
    let ranges = status.ok().and_then(|status| status.cpus_allowed_list).unwrap_or_default();
    ranges.into_iter().flat_map(|(first, last)| first as usize..=last as usize).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_may_use_at_least_one_cpu() {
        let cpus = super::detect();
        assert!(!cpus.allowed.is_empty());
        assert!(cpus.allowed.iter().all(|cpu| cpus.online.contains(cpu)));
    }
}
