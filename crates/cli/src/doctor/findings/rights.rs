//! What this process may do beyond running threads: trace by BPF, profile, be debugged, hold
//! resources.

use super::{Facts, Finding};
use crate::doctor::detect::sharing::Sharing;

const GROUP: &str = "Rights and limits";

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    vec![
        bpf(facts),
        locks(facts),
        workers(facts),
        sharing(facts),
        perf(facts),
        ptrace(facts),
        files(facts),
        threads(facts),
        memlock(facts),
    ]
}

fn bpf(facts: &Facts) -> Finding {
    let bpf = &facts.bpf;
    match (&bpf.map_create, bpf.capable, bpf.btf) {
        (Ok(()), true, true) => {
            Finding::new(GROUP, "bpf", "yes").ok("tracing tools can watch the kernel's scheduler")
        }
        (Ok(()), true, false) => Finding::new(GROUP, "bpf", "without BTF")
            .missing(
                "the kernel does not describe its types (/sys/kernel/btf/vmlinux), so tracing \
                 programs cannot be loaded",
            )
            .advice("use a kernel built with CONFIG_DEBUG_INFO_BTF"),
        (Err(error), true, _) => Finding::new(GROUP, "bpf", format!("no: {error}"))
            .missing("this process has the rights, but the system call fails: a sandbox filters it")
            .advice("allow bpf() in the sandbox's system call filter"),
        (_, false, _) => Finding::new(GROUP, "bpf", "no rights")
            .missing("the monitor of quaver-lock and tracing tools need BPF, nothing else does")
            .advice("run with CAP_BPF and CAP_PERFMON (setcap cap_bpf,cap_perfmon+ep), or as root"),
    }
}

fn locks(facts: &Facts) -> Finding {
    let bpf = &facts.bpf;
    let loads = bpf.capable && bpf.btf && bpf.map_create.is_ok();
    let finding = |value| Finding::new(GROUP, "locks", value);
    match (bpf.lockd, loads, bpf.lock_monitor_built) {
        (true, ..) => finding("lockd").ok("quaver-lock spins until lockd sees a holder preempted"),
        (_, true, true) => finding("yes").ok(
            "quaver-lock spins until a holder is preempted; each process loads a monitor of its \
             own, with `quaver lockd` all share one",
        ),
        _ if bpf.slice_extension.is_ok() => finding("slice extension").ok(
            "without a monitor, quaver-lock blocks early, and the kernel lets holders run on for \
             some microseconds",
        ),
        (_, true, false) => finding("not built")
            .missing("without a monitor, quaver-lock blocks early")
            .advice("install clang and build again"),
        (_, false, _) => finding("no rights")
            .missing("without a monitor, quaver-lock blocks early")
            .advice("start `quaver lockd` as root"),
    }
}

/// Who can tell the runtime which workers have lost their CPU.
fn workers(facts: &Facts) -> Finding {
    let bpf = &facts.bpf;
    let loads = bpf.capable && bpf.btf && bpf.map_create.is_ok() && bpf.lock_monitor_built;
    let finding = |value| Finding::new(GROUP, "workers", value);
    match (bpf.lockd, loads) {
        (true, _) => {
            finding("lockd").ok("with monitor=yes, what waits at a worker without a CPU moves")
        }
        (_, true) => finding("own programs only")
            .ok("with monitor=yes, what waits at a worker without a CPU moves")
            .advice("for `quaver run` start `quaver lockd` as root"),
        _ => finding("not seen")
            .missing("what waits at a worker that has lost its CPU waits for it")
            .advice("start `quaver lockd` as root, for the setting monitor=yes"),
    }
}

fn sharing(facts: &Facts) -> Finding {
    let finding = |value| Finding::new(GROUP, "sharing", value);
    match &facts.sharing {
        Sharing { broker: true, .. } => {
            finding("a broker").ok("applications can join by `share=lc` or `share=be`")
        }
        Sharing { realtime: true, .. } => {
            finding("yes").ok("`quaver share` can rank applications that share cores by SCHED_FIFO")
        }
        Sharing { nice: true, .. } => finding("by nice values").ok(
            "`quaver share` can rank applications that share cores by nice values: this control \
             group may not use SCHED_FIFO",
        ),
        _ => finding("no rights")
            .missing(
                "`quaver share` can only put best-effort applications below all others, without \
                 weights",
            )
            .advice("start `quaver share` as root, or with CAP_SYS_NICE"),
    }
}

fn perf(facts: &Facts) -> Finding {
    match facts.limits.perf_event_paranoid {
        Some(level) if level <= 1 || facts.bpf.capable => {
            Finding::new(GROUP, "perf", format!("perf_event_paranoid {level}"))
                .ok("perf can profile user threads and the kernel below them")
        }
        Some(2) => Finding::new(GROUP, "perf", "perf_event_paranoid 2")
            .ok("perf can profile user threads, without the kernel below them"),
        Some(level) => Finding::new(GROUP, "perf", format!("perf_event_paranoid {level}")).warn(
            "perf refuses to profile for ordinary users",
            "sysctl kernel.perf_event_paranoid=2",
        ),
        None => Finding::new(GROUP, "perf", "no")
            .missing("this kernel has no performance events, so perf cannot profile"),
    }
}

fn ptrace(facts: &Facts) -> Finding {
    match facts.limits.ptrace_scope {
        None => {
            Finding::new(GROUP, "ptrace", "unrestricted").ok("gdb can attach to running programs")
        }
        Some(0) => {
            Finding::new(GROUP, "ptrace", "scope 0").ok("gdb can attach to running programs")
        }
        Some(3) => Finding::new(GROUP, "ptrace", "scope 3").warn(
            "nobody can attach a debugger until the next boot",
            "boot with kernel.yama.ptrace_scope=1",
        ),
        Some(scope) => Finding::new(GROUP, "ptrace", format!("scope {scope}"))
            .ok("gdb can start programs; to attach to running ones it needs root"),
    }
}

fn files(facts: &Facts) -> Finding {
    let finding = Finding::new(GROUP, "open_files", amount(facts.limits.nofile));
    match facts.limits.nofile {
        Some(limit) if limit < 1024 => finding.warn(
            "a server with a connection for each thread runs out of descriptors early",
            "raise the limit (ulimit -n)",
        ),
        _ => finding.ok("open files and sockets of this process"),
    }
}

fn threads(facts: &Facts) -> Finding {
    let finding = Finding::new(GROUP, "kernel_threads", amount(facts.limits.nproc));
    match facts.limits.nproc {
        // Workers, spares for those that block in the kernel, a clock; the user's other processes
        // count too.
        Some(limit) if limit < 16 * facts.cpus.allowed.len() as u64 + 64 => finding.warn(
            "each thread that blocks in the kernel holds a kernel thread, and the user's other \
             processes count too",
            "raise the limit (ulimit -u)",
        ),
        _ => finding.ok("kernel threads of this user, for workers and their spares"),
    }
}

fn memlock(facts: &Facts) -> Finding {
    let value = facts.limits.memlock.map(|bytes| format!("{} KiB", bytes >> 10));
    Finding::new(GROUP, "locked_memory", value.unwrap_or_else(|| "unlimited".to_owned()))
        .ok("memory that this process may lock; stacks are not locked")
}

fn amount(limit: Option<u64>) -> String {
    limit.map_or("unlimited".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::super::tests::{find, perfect};

    #[test]
    fn bpf_tells_rights_from_filters_from_missing_types() {
        let mut facts = perfect();
        facts.bpf.btf = false;
        assert!(find(&facts, "bpf").advice.unwrap().contains("BTF"));
        facts.bpf.map_create = Err("Operation not permitted".into());
        assert!(find(&facts, "bpf").advice.unwrap().contains("filter"));
        facts.bpf.capable = false;
        assert!(find(&facts, "bpf").advice.unwrap().contains("CAP_BPF"));
    }

    #[test]
    fn workers_without_a_cpu_are_seen_or_not() {
        let mut facts = perfect();
        assert_eq!(find(&facts, "workers").value, "lockd");
        facts.bpf.lockd = false;
        assert_eq!(find(&facts, "workers").value, "own programs only");
        facts.bpf.capable = false;
        let unseen = find(&facts, "workers");
        assert_eq!(unseen.status, Status::Missing);
        assert!(unseen.advice.unwrap().contains("lockd"));
    }

    #[test]
    fn locks_have_a_monitor_or_say_what_is_missing() {
        let mut facts = perfect();
        assert_eq!(find(&facts, "locks").value, "lockd");
        facts.bpf.lockd = false;
        assert_eq!(find(&facts, "locks").value, "yes");
        facts.bpf.lock_monitor_built = false;
        assert!(find(&facts, "locks").advice.unwrap().contains("clang"));
        facts.bpf.capable = false;
        assert!(find(&facts, "locks").advice.unwrap().contains("lockd"));
        facts.bpf.slice_extension = Ok(());
        assert_eq!(find(&facts, "locks").value, "slice extension");
    }

    #[test]
    fn sharing_needs_rights_unless_there_is_a_broker() {
        let mut facts = perfect();
        (facts.sharing.realtime, facts.sharing.nice) = (false, false);
        assert_eq!(find(&facts, "sharing").value, "a broker");
        facts.sharing.broker = false;
        assert!(find(&facts, "sharing").advice.unwrap().contains("quaver share"));
        facts.sharing.nice = true;
        assert!(find(&facts, "sharing").value.contains("nice"));
        facts.sharing.realtime = true;
        assert_eq!(find(&facts, "sharing").value, "yes");
        assert_eq!(find(&facts, "sharing").status, Status::Ok);
    }

    #[test]
    fn low_limits_are_warnings() {
        let mut facts = perfect();
        facts.limits.nofile = Some(256);
        facts.limits.nproc = Some(50);
        assert_eq!(find(&facts, "open_files").status, Status::Warn);
        assert_eq!(find(&facts, "kernel_threads").status, Status::Warn);
    }

    #[test]
    fn perf_for_ordinary_users() {
        let mut facts = perfect();
        facts.bpf.capable = false;
        for (level, status) in [
            (Some(1), Status::Ok),
            (Some(2), Status::Ok),
            (Some(3), Status::Warn),
            (None, Status::Missing),
        ] {
            facts.limits.perf_event_paranoid = level;
            assert_eq!(find(&facts, "perf").status, status, "{level:?}");
        }
    }
}
