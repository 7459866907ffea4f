//! What user threads need: registers of their own, TLS blocks, guarded stacks.

use super::{Facts, Finding};

const GROUP: &str = "User threads";

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    vec![fsgsbase(facts), tls(facts), guard_pages(facts), mappings(facts)]
}

fn fsgsbase(facts: &Facts) -> Finding {
    if facts.runtime.fsgsbase {
        Finding::new(GROUP, "fsgsbase", "yes")
            .ok("each user thread has its own FS base, set by one instruction")
    } else {
        Finding::new(GROUP, "fsgsbase", "no")
            .missing(
                "each switch sets the FS base by a system call, which is some ten times slower",
            )
            .advice("boot Linux 5.9 or newer without 'nofsgsbase' on a processor since 2012")
    }
}

fn tls(facts: &Facts) -> Finding {
    let version = facts.libc.glibc.clone().unwrap_or_else(|| "unknown".to_owned());
    let finding = Finding::new(GROUP, "private_tls", format!("glibc {version}"));
    match &facts.runtime.tls_error {
        None => finding.ok(
            "thread-locals and errno belong to the user thread and stay right across preemption",
        ),
        Some(error) => finding
            .missing(error.clone())
            .advice("link dynamically against glibc 2.34 or newer")
            .required(),
    }
}

fn guard_pages(facts: &Facts) -> Finding {
    if facts.runtime.guard_install {
        Finding::new(GROUP, "guard_install", "yes")
            .ok("a stack's guard costs no mapping of its own (MADV_GUARD_INSTALL)")
    } else {
        Finding::new(GROUP, "guard_install", "no")
            .missing("stacks get guards by mprotect: slower to make, and two more mappings each")
            .advice("boot Linux 6.13 or newer when hundreds of thousands of threads are needed")
    }
}

fn mappings(facts: &Facts) -> Finding {
    let Some(count) = facts.memory.max_map_count else {
        return Finding::new(GROUP, "max_map_count", "unknown")
            .warn("/proc/sys/vm/max_map_count cannot be read", "mount /proc");
    };
    let finding = Finding::new(GROUP, "max_map_count", count.to_string());
    if facts.runtime.guard_install {
        return finding.ok("enough: stacks are cut from large mappings");
    }
    // A stack with an mprotect guard takes two mappings.
    let threads = count / 2;
    if threads >= 500_000 {
        return finding.ok(format!("room for the stacks of about {threads} threads"));
    }
    finding.warn(
        format!(
            "room for the stacks of about {threads} threads, because each guard page needs a \
             mapping"
        ),
        "sysctl vm.max_map_count=2097152 for more",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::super::tests::{find, perfect};

    #[test]
    fn a_libc_without_private_tls_is_fatal_and_the_runtime_s_reason_is_given() {
        let mut facts = perfect();
        facts.runtime.tls_error = Some("_dl_allocate_tls is missing".into());
        let finding = find(&facts, "private_tls");
        assert!(finding.is_fatal());
        assert!(finding.meaning.contains("_dl_allocate_tls"));
    }

    #[test]
    fn the_mapping_limit_matters_only_without_guard_install() {
        let mut facts = perfect();
        facts.memory.max_map_count = Some(65_530);
        assert_eq!(find(&facts, "max_map_count").status, Status::Ok);
        facts.runtime.guard_install = false;
        let finding = find(&facts, "max_map_count");
        assert_eq!(finding.status, Status::Warn);
        assert!(finding.meaning.contains("32765"), "{}", finding.meaning);
    }
}
