//! The settings of a Quaver runtime in a measurement, and their names in rows.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// How to build the runtime that is measured. What is not said is the default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The name of the policy, if not the default one.
    #[serde(default)]
    pub policy: Option<String>,
    /// The clock; `None`: no preemption.
    pub preemption: Option<Preemption>,
    /// The CPU of each worker.
    pub cpus: Vec<usize>,
    /// The CPU of the timer core, if that is the clock.
    pub timer_cpu: Option<usize>,
    /// Stacks as small as this machine allows, for very many threads.
    pub small_stacks: bool,
    /// Threads share the thread-local variables of their workers.
    pub shared_tls: bool,
    /// For how long a preemption may be put off in libraries, as text.
    pub max_deferral: Option<String>,
}

/// Clock and quantum.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preemption {
    /// The name of the clock.
    pub clock: String,
    /// The quantum, in µs.
    pub quantum_us: u64,
}

/// The clocks that need no core of their own.
pub const TICKLESS: [&str; 2] = ["timer-thread", "posix-timer"];

/// All clocks.
pub const CLOCKS: [&str; 3] = ["timer-core", "timer-thread", "posix-timer"];

impl Settings {
    /// Workers on these CPUs that preempt.
    pub fn preemptive(clock: &str, quantum_us: u64, cpus: &[usize]) -> Self {
        let preemption = Preemption { clock: clock.to_owned(), quantum_us };
        Self { preemption: Some(preemption), ..Self::run_to_completion(cpus) }
    }

    /// With this policy, whose other parameters are the default ones.
    pub fn policy(self, name: &str) -> Self {
        Self { policy: Some(name.to_owned()), ..self }
    }

    /// Workers on these CPUs that never preempt.
    pub fn run_to_completion(cpus: &[usize]) -> Self {
        Self {
            policy: None,
            preemption: None,
            cpus: cpus.to_vec(),
            timer_cpu: None,
            small_stacks: false,
            shared_tls: false,
            max_deferral: None,
        }
    }

    /// With the timer core, if that is the clock, on this CPU.
    pub fn timer_cpu(self, cpu: Option<usize>) -> Self {
        Self { timer_cpu: cpu, ..self }
    }

    /// Builds the runtime.
    ///
    /// # Errors
    ///
    /// As [`quaver::Builder::build`], or when the clock's name is none.
    pub fn build(&self) -> anyhow::Result<quaver::Runtime> {
        let mut builder =
            quaver::Builder::new().workers(self.cpus.len()).cpus(self.cpus.clone()).quantum(None);
        if let Some(policy) = &self.policy {
            builder = builder.policy_str(policy);
        }
        if self.shared_tls {
            builder = builder.tls(quaver::Tls::Shared);
        }
        if let Some(limit) = &self.max_deferral {
            builder = builder.max_deferral_str(limit);
        }
        if let Some(Preemption { clock, quantum_us }) = &self.preemption {
            let clock: quaver::Clock = clock.parse()?;
            builder = builder.clock(clock).quantum(Some(Duration::from_micros(*quantum_us)));
            if clock == quaver::Clock::TimerCore {
                builder = builder.timer_cpu(self.timer_cpu);
            }
        }
        let built = if self.small_stacks { with_small_stacks(builder) } else { builder.build() };
        built.with_context(|| format!("cannot build {self}"))
    }
}

/// The error for a stack that is too small says which one is not.
fn with_small_stacks(builder: quaver::Builder) -> Result<quaver::Runtime, quaver::BuildError> {
    match builder.clone().stack_size(1).build() {
        Err(quaver::BuildError::StackTooSmall { min, .. }) => builder.stack_size(min).build(),
        other => other,
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.preemption {
            Some(Preemption { clock, quantum_us }) => write!(f, "quaver {clock} {quantum_us}us"),
            None => write!(f, "quaver run-to-completion"),
        }?;
        if let Some(policy) = &self.policy {
            write!(f, " {policy}")?;
        }
        if let Some(limit) = &self.max_deferral {
            write!(f, " max-deferral={limit}")?;
        }
        if self.shared_tls { write!(f, " shared-tls") } else { Ok(()) }
    }
}
