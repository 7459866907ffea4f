//! Kernel, CPUs, control group.

use super::{Facts, Finding};
use crate::parse::cpulist;

const GROUP: &str = "Machine";

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    vec![kernel(facts), processor(facts), returns(facts), cpus(facts), quota(facts)]
}

fn kernel(facts: &Facts) -> Finding {
    let kernel = &facts.kernel;
    let release = kernel.release.clone().unwrap_or_else(|| "unknown".to_owned());
    let finding = Finding::new(GROUP, "kernel", release);
    match kernel.version {
        Some(version) if version >= (6, 13) => {
            finding.ok("everything Quaver uses is in this kernel")
        }
        Some(version) if version >= (5, 9) => {
            finding.ok("works; from 6.13 on guard pages need no mapping of their own")
        }
        Some(_) => finding.warn(
            "Quaver is made for Linux 5.9 or newer; before, programs could not set the FS base \
             themselves",
            "boot Linux 5.9 or newer",
        ),
        None => finding.warn("its version cannot be read", "mount /proc"),
    }
}

fn processor(facts: &Facts) -> Finding {
    let kernel = &facts.kernel;
    let name = kernel.processor.clone().unwrap_or_else(|| "unknown x86-64".to_owned());
    let finding = Finding::new(GROUP, "processor", name);
    match &kernel.hypervisor {
        None => finding.ok("no hypervisor admits to be under it"),
        Some(hypervisor) => finding.ok(format!(
            "a virtual machine ({hypervisor}): arming a timer and signalling another CPU each \
             leave it, about 2 µs"
        )),
    }
}

fn returns(facts: &Facts) -> Finding {
    if facts.runtime.refills_returns {
        Finding::new(GROUP, "return_predictions", "lost in the kernel (Safe RET)").ok(
            "put right after each system call of the runtime's, for 10 ns; other programs pay for \
             wrong guesses",
        )
    } else {
        Finding::new(GROUP, "return_predictions", "kept")
            .ok("system calls leave them as they are, or nothing can be done about it")
    }
}

fn cpus(facts: &Facts) -> Finding {
    let cpus = &facts.cpus;
    let value = format!(
        "{} online, {} usable ({})",
        cpus.online.len(),
        cpus.allowed.len(),
        cpulist::format(&cpus.allowed)
    );
    let finding = Finding::new(GROUP, "cpus", value);
    match cpus.allowed.len() {
        0 => finding.missing("the affinity mask cannot be read").advice("mount /proc").required(),
        1 => finding.warn(
            "workers, timers and everything else share one CPU, so latencies include the kernel's \
             scheduling",
            "widen the affinity mask (taskset, cpuset) if the machine has more",
        ),
        _ if cpus.smt_siblings => finding
            .ok("some are hyperthreads of one core: a worker slows down while its sibling is busy"),
        _ if cpus.allowed.len() < cpus.online.len() => {
            finding.ok("the affinity mask or cpuset keeps the others away")
        }
        _ => finding.ok("all of them may be used"),
    }
}

fn quota(facts: &Facts) -> Finding {
    let cgroup = &facts.cgroup;
    let version = cgroup.version.map_or("no CPU controller".to_owned(), |v| format!("cgroup v{v}"));
    let Some(quota) = cgroup.cpu_quota else {
        return Finding::new(GROUP, "cpu_quota", format!("none ({version})"))
            .ok("the control group does not limit CPU time");
    };
    let period_ms = cgroup.quota_period_us.unwrap_or_default() as f64 / 1e3;
    let finding = Finding::new(GROUP, "cpu_quota", format!("{quota} CPUs ({version})"));
    if quota >= facts.cpus.allowed.len() as f64 {
        return finding.ok("as much as the usable CPUs can give");
    }
    finding.warn(
        format!("whoever uses it up stands still for the rest of a {period_ms} ms period"),
        "raise the limit, or run fewer workers than it pays for (the default does)",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::super::tests::{find, perfect};

    #[test]
    fn an_old_kernel_is_told_which_one_is_needed() {
        let mut facts = perfect();
        facts.kernel.version = Some((4, 19));
        let finding = find(&facts, "kernel");
        assert_eq!(finding.status, Status::Warn);
        assert!(finding.advice.unwrap().contains("5.9"));
    }

    #[test]
    fn a_kernel_that_spoils_predictions_is_named() {
        let mut facts = perfect();
        assert_eq!(find(&facts, "return_predictions").value, "kept");
        facts.runtime.refills_returns = true;
        let finding = find(&facts, "return_predictions");
        assert!(finding.value.contains("Safe RET") && finding.status == Status::Ok);
    }

    #[test]
    fn a_quota_below_the_cpus_is_a_warning() {
        let mut facts = perfect();
        facts.cgroup.cpu_quota = Some(1.5);
        facts.cgroup.quota_period_us = Some(100_000);
        let finding = find(&facts, "cpu_quota");
        assert_eq!(finding.status, Status::Warn);
        assert!(finding.meaning.contains("100 ms"), "{}", finding.meaning);

        facts.cgroup.cpu_quota = Some(8.0);
        assert_eq!(find(&facts, "cpu_quota").status, Status::Ok);
    }

    #[test]
    fn one_cpu_is_a_warning_and_none_is_fatal() {
        let mut facts = perfect();
        facts.cpus.allowed = vec![3];
        assert_eq!(find(&facts, "cpus").status, Status::Warn);
        facts.cpus.allowed.clear();
        assert!(find(&facts, "cpus").is_fatal());
    }
}
