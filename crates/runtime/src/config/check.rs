//! What a runtime is built from: the builder's values, checked against each other and the machine.

use super::{BuildError, Builder, Clock, Notification, Quantum, Resume, Tls};
use crate::policy::PolicyChoice;
use crate::thread::stack;
use crate::{preempt, sys};
use quaver_sched::format_duration;
use std::time::Duration;

/// Most workers that a runtime can have.
pub const MAX_WORKERS: usize = 1024;

/// Twice the time between two looks at the clock.
const PROBES_MIN_QUANTUM: Duration = Duration::from_micros(2);

/// See [`Builder::tax`]: where the machine says what the quantum is.
const AUTO_TAX: u32 = 2;
/// And where somebody else does. So the machine stretches a quantum that is shorter than four
/// interruptions, as it would not choose one ([`quantum_for`](quaver_sched::quantum_for)).
const DEFAULT_TAX: u32 = 25;

/// Everything that a runtime is built from, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    /// One for each worker, or empty: not pinned.
    pub(crate) cpus: Vec<usize>,
    /// Where the process may run.
    pub(crate) allowed: Vec<usize>,
    pub(crate) policy: PolicyChoice,
    /// Its quantum is to be what suits the machine.
    pub(crate) auto_quantum: bool,
    pub(crate) clock: Clock,
    /// Where the clock's own thread may run, or empty: anywhere.
    pub(crate) clock_cpus: Vec<usize>,
    /// It has no CPU without a worker.
    pub(crate) clock_shares: bool,
    pub(crate) stack_size: usize,
    pub(crate) max_threads: u32,
    pub(crate) max_blocking: usize,
    pub(crate) idle_spin: Duration,
    pub(crate) max_deferral: Option<Duration>,
    pub(crate) mutex_extension: Duration,
    pub(crate) fault_look: Option<Duration>,
    pub(crate) monitor: bool,
    /// In percent; `None`: no bound.
    pub(crate) tax: Option<u32>,
    pub(crate) signal: i32,
    /// Threads are told at probes.
    pub(crate) probes: bool,
    /// By [`UserInterrupt`](Notification::UserInterrupt) or the emulated one, if there are any.
    pub(crate) user_interrupts: Option<Notification>,
    pub(crate) resume: Resume,
    pub(crate) tls: Tls,
}

impl Builder {
    /// Checks all values against each other and the machine.
    pub(crate) fn check(self) -> Result<Config, BuildError> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        let allowed = sys::affinity();
        let default_workers = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = match (self.workers, &self.cpus) {
            (Some(n), _) => n,
            (None, Some(cpus)) => cpus.len(),
            (None, None) => default_workers(),
        };
        if workers == 0 || workers > MAX_WORKERS {
            return Err(BuildError::Workers(workers));
        }
        let cpus = match self.cpus {
            Some(cpus) => cpus,
            None if self.pin => allowed.iter().rev().copied().collect(),
            None => Vec::new(),
        };
        for &cpu in cpus.iter().chain(&self.timer_cpu) {
            if !allowed.contains(&cpu) {
                let allowed = crate::platform::format_cpu_list(&allowed);
                return Err(BuildError::Cpu { cpu, allowed });
            }
        }
        if !cpus.is_empty() && cpus.len() < workers {
            return Err(BuildError::TooFewCpus { workers, cpus: cpus.len() });
        }
        // Of more CPUs than workers, the first are used.
        let pinned = cpus.get(..workers).unwrap_or_default();
        let clock_cpus = match self.timer_cpu {
            Some(cpu) => vec![cpu],
            None if pinned.is_empty() => Vec::new(),
            None => allowed.iter().copied().filter(|cpu| !pinned.contains(cpu)).collect(),
        };
        let own_cpus = if clock_cpus.is_empty() { &allowed } else { &clock_cpus };
        let clock_shares = crate::clock::shares(own_cpus, workers, pinned);
        let auto_quantum = match self.quantum {
            Quantum::Auto => self.policy.quantum().is_some(),
            Quantum::Policy => !self.policy.has_own_quantum(),
            Quantum::Given(_) => false,
        };
        let policy = match self.quantum {
            Quantum::Given(q) => self.policy.with_quantum(q),
            Quantum::Auto | Quantum::Policy => self.policy,
        };
        let user_interrupts = Some(self.notification).filter(|n| n.is_user_interrupt());
        let clock = match self.clock {
            // A POSIX timer tells by signals.
            Clock::Auto if user_interrupts.is_some() => Clock::TimerThread,
            Clock::Auto => crate::platform::recommend().clock,
            chosen => chosen,
        };
        let probes = match self.notification {
            Notification::Auto => self.tls == Tls::Private && preempt::instrumented(),
            chosen => chosen == Notification::Probe,
        };
        if clock == Clock::DelegatedTimer {
            if user_interrupts.is_none() {
                return Err(BuildError::DelegatedWithout);
            }
            if cpus.is_empty() {
                return Err(BuildError::DelegatedUnpinned);
            }
        }
        let min = if probes { PROBES_MIN_QUANTUM } else { clock.min_quantum() };
        if let Some(q) = policy.quantum()
            && q < min
        {
            let (quantum, min) = (format_duration(q), format_duration(min));
            return Err(if probes {
                BuildError::ProbesQuantum { quantum, min }
            } else {
                BuildError::Quantum { quantum, clock, min }
            });
        }
        // User interrupts leave two frames beside those of signals; emulated ones come as signals.
        let min = stack::min_stack_size() * if user_interrupts.is_some() { 2 } else { 1 };
        if self.stack_size < min {
            return Err(BuildError::StackTooSmall { given: self.stack_size, min });
        }
        if self.max_threads == 0 || self.max_threads > 1 << 24 {
            return Err(BuildError::MaxThreads(self.max_threads));
        }
        let tax = self.tax.unwrap_or(if auto_quantum { AUTO_TAX } else { DEFAULT_TAX });
        if !(1..=100).contains(&tax) {
            return Err(BuildError::Tax(tax));
        }
        if !preempt::signal_is_valid(self.signal) {
            return Err(BuildError::BadSignal(self.signal));
        }
        if probes && self.tls == Tls::Shared {
            return Err(BuildError::ProbesWithoutTls);
        }
        Ok(Config {
            workers,
            cpus,
            allowed,
            policy,
            auto_quantum,
            clock,
            clock_cpus,
            clock_shares,
            stack_size: self.stack_size,
            max_threads: self.max_threads,
            max_blocking: self.max_blocking,
            idle_spin: self.idle_spin,
            max_deferral: self.max_deferral,
            mutex_extension: self.mutex_extension,
            fault_look: self.fault_look,
            monitor: self.monitor,
            tax: (tax < 100).then_some(tax),
            signal: self.signal,
            probes,
            user_interrupts,
            resume: self.resume,
            tls: self.tls,
        })
    }
}
