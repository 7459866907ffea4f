//! What this machine offers, as far as the runtime's own choices go.

use crate::arch::segment;
use crate::config::{Clock, Notification};
use crate::thread::stack;
use crate::{preempt, sys, tls, tsc};

#[doc(hidden)]
pub use crate::uintr::alone as user_interrupts_alone;
pub use crate::uintr::{Found as UserInterrupts, Provider, look as user_interrupts};
pub use quaver_sched::settings::parse_cpu_list;

/// Facts on which [`recommend`] decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// CPUs that the process may use, by affinity mask (which includes cpusets).
    pub cpus: Vec<usize>,
    /// How many CPUs' worth of time a cgroup quota leaves, never more than `cpus`.
    pub parallelism: usize,
    /// User mode may write `fs` and `gs` bases: a switch of private TLS costs nanoseconds instead
    /// of a system call.
    pub fsgsbase: bool,
    /// The time-stamp counter ticks at one rate.
    pub invariant_tsc: bool,
    /// Stack guards cost no memory mapping each (`MADV_GUARD_INSTALL`).
    pub guard_install: bool,
    /// The kernel leaves wrong predictions of returns. They are put right after each system call of
    /// the runtime's (`quaver-rsb`).
    pub refills_returns: bool,
    /// The process runs with CET shadow stacks, under which no runtime can be built.
    pub shadow_stack: bool,
    /// Bytes of the largest signal frame on this CPU.
    pub signal_frame: usize,
    /// The least stack size that a user thread can have, in bytes.
    pub min_stack_size: usize,
    /// The process has code with probes.
    pub instrumented: bool,
    /// Why private TLS is impossible, if it is.
    pub tls_error: Option<String>,
}

/// Looks at the machine. Reads files and makes system calls; takes well under a millisecond.
pub fn facts() -> Facts {
    let cpus = sys::affinity();
    Facts {
        parallelism: std::thread::available_parallelism().map_or(1, usize::from).min(cpus.len()),
        cpus,
        fsgsbase: segment::kernel_has_fsgsbase(),
        invariant_tsc: tsc::invariant(),
        guard_install: stack::guard_install_works(),
        refills_returns: quaver_rsb::prepare(),
        shadow_stack: quaver_rsb::has_shadow_stack(),
        signal_frame: stack::min_signal_frame(),
        min_stack_size: stack::min_stack_size(),
        instrumented: preempt::instrumented(),
        tls_error: tls::layout().err().map(|e| e.to_string()),
    }
}

/// What the runtime chooses when asked for `auto`, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The clock.
    pub clock: Clock,
    /// Why this clock, in a sentence.
    pub clock_reason: String,
    /// The notification.
    pub notification: Notification,
    /// Why this notification, in a sentence.
    pub notification_reason: String,
    /// Workers, if none are asked for.
    pub workers: usize,
}

/// The choice for this machine.
pub fn recommend() -> Choice {
    choose(&facts())
}

/// The choice for a machine with these facts.
pub fn choose(facts: &Facts) -> Choice {
    let spare_core = facts.parallelism >= 2;
    let (clock, clock_reason) = if spare_core {
        (
            Clock::TimerThread,
            format!(
                "{} CPUs: a thread that sleeps between preemptions interrupts workers at half the \
                 cost of their own timers, and burns no core",
                facts.parallelism
            ),
        )
    } else {
        (
            Clock::PosixTimer,
            "one CPU: a timer thread would have to take it from the worker first".to_string(),
        )
    };
    Choice {
        clock,
        clock_reason,
        notification: if facts.instrumented { Notification::Probe } else { Notification::Signal },
        notification_reason: if facts.instrumented {
            "this program has probes, where a preemption costs a fraction of a microsecond"
        } else {
            "signals work on every Linux, and with every program"
        }
        .to_string(),
        workers: facts.parallelism,
    }
}

/// Writes a CPU list as [`parse_cpu_list`] reads it.
pub fn format_cpu_list(cpus: &[usize]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    let mut out: Vec<String> = Vec::new();
    let mut i = 0;
    while i < sorted.len() {
        let mut j = i;
        while j + 1 < sorted.len() && sorted[j + 1] == sorted[j] + 1 {
            j += 1;
        }
        out.push(if i == j {
            sorted[i].to_string()
        } else {
            format!("{}-{}", sorted[i], sorted[j])
        });
        i = j + 1;
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_round_trip() {
        let text = format_cpu_list(&[4, 0, 1, 2]);
        assert_eq!((text.as_str(), parse_cpu_list(&text)), ("0-2,4", Ok(vec![0, 1, 2, 4])));
    }

    #[test]
    fn no_choice_burns_a_core() {
        let mut f = facts();
        for n in [1, 2, 64] {
            f.parallelism = n;
            assert_ne!(choose(&f).clock, Clock::TimerCore);
        }
        f.parallelism = 1;
        assert_eq!(choose(&f).clock, Clock::PosixTimer);
    }

    #[test]
    fn instrumented_programs_stop_at_probes() {
        let mut f = facts();
        assert_eq!(choose(&f).notification, Notification::Signal);
        f.instrumented = true;
        assert_eq!(choose(&f).notification, Notification::Probe);
    }
}
