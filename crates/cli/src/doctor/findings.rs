//! What the facts mean, and what to do about them: one [`Finding`] for each line of the report.

mod machine;
mod network;
mod preemption;
mod rights;
mod threads;

use serde::Serialize;

use super::detect::Facts;

/// How good a fact is for Quaver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// It works, worse than it could.
    Warn,
    /// Not there.
    Missing,
}

impl Status {
    /// The word in the report.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Missing => "missing",
        }
    }
}

/// One fact, judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Under which heading it stands.
    pub group: &'static str,
    /// What it is about, a stable name for scripts.
    pub name: &'static str,
    /// How good it is.
    pub status: Status,
    /// The value found.
    pub value: String,
    /// What that means.
    pub meaning: String,
    /// What to do, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The runtime cannot work without it.
    pub required: bool,
}

impl Finding {
    fn new(group: &'static str, name: &'static str, value: impl Into<String>) -> Self {
        Finding {
            group,
            name,
            status: Status::Ok,
            value: value.into(),
            meaning: String::new(),
            advice: None,
            required: false,
        }
    }

    fn ok(self, meaning: impl Into<String>) -> Self {
        Finding { status: Status::Ok, meaning: meaning.into(), ..self }
    }

    fn warn(self, meaning: impl Into<String>, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Finding { status: Status::Warn, meaning: meaning.into(), advice, ..self }
    }

    fn missing(self, meaning: impl Into<String>) -> Self {
        Finding { status: Status::Missing, meaning: meaning.into(), ..self }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Finding { advice: Some(advice.into()), ..self }
    }

    fn required(self) -> Self {
        Finding { required: true, ..self }
    }

    /// Does this make the runtime impossible?
    pub fn is_fatal(&self) -> bool {
        self.required && self.status == Status::Missing
    }
}

/// Judges all facts, in the order of the report.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = machine::judge(facts);
    findings.extend(threads::judge(facts));
    findings.extend(preemption::judge(facts));
    findings.extend(rights::judge(facts));
    findings.extend(network::judge(facts));
    findings
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::doctor::detect::{
        bpf::Bpf,
        cgroup::Cgroup,
        clocks::Clocks,
        cpus::Cpus,
        features::Features,
        kernel::Kernel,
        libc_version::Libc,
        limits::Limits,
        memory::Memory,
        network::{Interface, Network},
        sharing::Sharing,
        user_interrupts::UserInterrupts,
    };

    /// A machine on which nothing is wanting.
    pub(crate) fn perfect() -> Facts {
        // The runtime's facts are of this machine, made independent of it where they matter.
        let mut runtime = quaver::platform::facts();
        runtime.parallelism = 8;
        runtime.fsgsbase = true;
        runtime.guard_install = true;
        runtime.refills_returns = false;
        runtime.shadow_stack = false;
        runtime.signal_frame = 3632;
        runtime.tls_error = None;
        Facts {
            runtime,
            kernel: Kernel {
                release: Some("6.18.0".into()),
                version: Some((6, 18)),
                build: Some("#1 SMP PREEMPT_DYNAMIC".into()),
                processor: Some("A Processor".into()),
                hypervisor: None,
            },
            cpus: Cpus {
                online: (0..8).collect(),
                allowed: (0..8).collect(),
                isolated: vec![],
                smt_siblings: false,
                memory_kib: Some(16 << 20),
            },
            cgroup: Cgroup { version: Some(2), ..Cgroup::default() },
            features: Features {
                xsave: true,
                avx2: true,
                avx512: true,
                amx: false,
                xsave_bytes: Some(2696),
                shadow_stack: true,
            },
            user_interrupts: UserInterrupts {
                cpu: true,
                kernel_abi: Some("module".into()),
                module: true,
                usable: true,
                why: "choose notification=user-interrupt; by module".into(),
            },
            clocks: Clocks {
                tsc_invariant: true,
                tsc_khz: Some(2_500_000),
                clocksource: Some("tsc".into()),
                clocksources: vec!["tsc".into(), "hpet".into()],
                posix_timer: Ok(()),
                timer_slack_ns: Some(50_000),
                high_resolution: true,
            },
            libc: Libc { glibc: Some("2.36".into()) },
            memory: Memory { max_map_count: Some(1_048_576), overcommit: Some(0) },
            limits: Limits {
                sigpending: None,
                memlock: None,
                nofile: None,
                nproc: None,
                perf_event_paranoid: Some(-1),
                ptrace_scope: Some(0),
            },
            bpf: Bpf {
                capable: true,
                map_create: Ok(()),
                btf: true,
                unprivileged_disabled: Some(2),
                lock_monitor_built: true,
                lockd: true,
                slice_extension: Err("the kernel has none".into()),
            },
            network: Network {
                tap: Ok(()),
                xdp_socket: Ok(()),
                xdp_program_built: true,
                net_admin: true,
                net_raw: true,
                interfaces: vec![Interface {
                    name: "eth0".into(),
                    driver: Some("ixgbe".into()),
                    queues: 4,
                }],
            },
            sharing: Sharing { broker: true, realtime: true, nice: true },
            interruption_us: Some(12.5),
        }
    }

    /// The finding of that name.
    pub(crate) fn find(facts: &Facts, name: &str) -> Finding {
        let all = judge(facts);
        all.into_iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no finding {name}"))
    }

    #[test]
    fn nothing_is_wrong_with_a_perfect_machine() {
        for finding in judge(&perfect()) {
            assert_eq!(finding.status, Status::Ok, "{finding:?}");
        }
    }

    #[test]
    fn names_are_unique_and_every_warning_says_what_to_do() {
        let mut facts = perfect();
        facts.cpus.allowed = vec![0];
        facts.cgroup.cpu_quota = Some(0.5);
        facts.clocks.clocksource = Some("hpet".into());
        facts.runtime.shadow_stack = true;
        facts.limits.perf_event_paranoid = Some(4);
        facts.bpf.capable = false;
        facts.runtime.guard_install = false;
        facts.memory.max_map_count = Some(65_530);
        let findings = judge(&facts);
        for finding in &findings {
            let same = findings.iter().filter(|other| other.name == finding.name).count();
            assert_eq!(same, 1, "{} comes twice", finding.name);
            assert!(!finding.meaning.is_empty(), "{finding:?}");
            let advised = finding.advice.is_some() || finding.status != Status::Warn;
            assert!(advised, "{finding:?}");
        }
        assert!(findings.iter().filter(|f| f.status == Status::Warn).count() >= 5);
    }

    #[test]
    fn only_what_the_runtime_cannot_do_without_is_fatal() {
        let mut facts = perfect();
        facts.runtime.guard_install = false;
        facts.user_interrupts.usable = false;
        facts.bpf.capable = false;
        facts.runtime.fsgsbase = false;
        assert!(!judge(&facts).iter().any(Finding::is_fatal));

        facts.runtime.tls_error = Some("no entry points".into());
        let fatal: Vec<_> = judge(&facts).into_iter().filter(Finding::is_fatal).collect();
        assert_eq!(fatal.len(), 1);
        assert_eq!(fatal[0].name, "private_tls");
    }
}
