//! Limits of this process, and settings that decide what tools may look at it.

use serde::Serialize;

use super::read_number;

/// Limits of this process, and settings of the kernel that concern tools.
#[derive(Clone, Debug, Serialize)]
pub struct Limits {
    /// Signals that may be queued for this user; each POSIX timer holds one. `None`: unlimited.
    pub sigpending: Option<u64>,
    /// Bytes that may be locked in memory. `None`: unlimited.
    pub memlock: Option<u64>,
    /// Files that may be open. `None`: unlimited.
    pub nofile: Option<u64>,
    /// Threads and processes that this user may have. `None`: unlimited.
    pub nproc: Option<u64>,
    /// What ordinary users may measure, from -1 (all) to 3 or 4 (nothing).
    pub perf_event_paranoid: Option<i32>,
    /// Who may attach a debugger (Yama): 0 any process of the user, 1 parents, 2 root, 3 nobody.
    pub ptrace_scope: Option<u32>,
}

pub(super) fn detect() -> Limits {
    Limits {
        sigpending: limit(libc::RLIMIT_SIGPENDING),
        memlock: limit(libc::RLIMIT_MEMLOCK),
        nofile: limit(libc::RLIMIT_NOFILE),
        nproc: limit(libc::RLIMIT_NPROC),
        perf_event_paranoid: read_number("/proc/sys/kernel/perf_event_paranoid"),
        ptrace_scope: read_number("/proc/sys/kernel/yama/ptrace_scope"),
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one rlimit.
    let done = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (done == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}
