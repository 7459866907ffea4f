//! What can be chosen, how it is written, and what is wrong with a bad choice.

mod error;
mod names;
mod share;
#[cfg(test)]
mod tests;
mod text;

pub use error::BuildError;
pub use names::{Clock, Notification, Resume, Tls, UnknownName};

use crate::policy::{Choice, Custom, PolicyRoom};
use crate::thread::stack;
use crate::{preempt, sys};
use quaver_sched::share::Membership;
use quaver_sched::{Policy, Spec, format_duration};
use std::time::Duration;
use text::TextError;

/// Most workers that a runtime can have.
pub const MAX_WORKERS: usize = 1024;

/// Everything that a runtime is built from, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    /// One for each worker, or empty: not pinned.
    pub(crate) cpus: Vec<usize>,
    pub(crate) policy: Choice,
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

/// Makes a [`Runtime`](crate::Runtime).
///
/// Values that are not set come from the environment with [`from_env`](Builder::from_env), else
/// from defaults. As text, by name, they are set with [`set`](Builder::set) and
/// [`settings`](Builder::settings). Nothing is checked before [`build`](Builder::build), which
/// reports the first error.
///
/// ```
/// use std::time::Duration;
///
/// let rt = quaver::Builder::new()
///     .workers(2)
///     .quantum(Some(Duration::from_micros(100)))
///     .build()?;
/// assert_eq!(rt.run(|| 6 * 7), 42);
/// # Ok::<(), quaver::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct Builder {
    workers: Option<usize>,
    cpus: Option<Vec<usize>>,
    pin: bool,
    quantum: Quantum,
    policy: Choice,
    clock: Clock,
    notification: Notification,
    timer_cpu: Option<usize>,
    stack_size: usize,
    max_threads: u32,
    max_blocking: usize,
    idle_spin: Duration,
    max_deferral: Option<Duration>,
    mutex_extension: Duration,
    tax: Option<u32>,
    signal: i32,
    resume: Resume,
    tls: Tls,
    share: Option<Membership>,
    /// The first thing that was wrong with a text.
    error: Option<TextError>,
}

/// Stack of a user thread unless chosen otherwise. Only touched pages take memory.
pub const DEFAULT_STACK_SIZE: usize = 256 * 1024;

/// Twice the time between two looks at the clock.
const PROBES_MIN_QUANTUM: Duration = Duration::from_micros(2);
/// See [`Builder::max_deferral`].
const DEFAULT_MAX_DEFERRAL: Duration = Duration::ZERO;

/// Who says how long a thread may run.
#[derive(Clone, Copy, Debug)]
enum Quantum {
    /// The policy, or the machine if it says nothing.
    Policy,
    /// The machine.
    Auto,
    Given(Option<Duration>),
}

/// See [`Builder::tax`]: where the machine says what the quantum is.
const AUTO_TAX: u32 = 2;
/// And where somebody else does. So the machine stretches a quantum that is shorter than four
/// interruptions, as it would not choose one ([`quantum_for`](quaver_sched::quantum_for)).
const DEFAULT_TAX: u32 = 25;

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

impl Builder {
    /// All defaults, whatever the environment says.
    pub fn new() -> Builder {
        Builder {
            workers: None,
            cpus: None,
            pin: false,
            quantum: Quantum::Policy,
            policy: Choice::BuiltIn(Spec::default()),
            clock: Clock::Auto,
            notification: Notification::Auto,
            timer_cpu: None,
            stack_size: DEFAULT_STACK_SIZE,
            max_threads: 1 << 21,
            max_blocking: 512,
            idle_spin: Duration::from_micros(20),
            max_deferral: Some(DEFAULT_MAX_DEFERRAL),
            mutex_extension: Duration::ZERO,
            tax: None,
            signal: libc::SIGURG,
            resume: Resume::Auto,
            tls: Tls::Private,
            share: None,
            error: None,
        }
    }

    /// Number of workers: how many user threads run at the same time. Default: the CPUs that the
    /// process may use, less what a cgroup quota takes away.
    pub fn workers(mut self, n: usize) -> Builder {
        self.workers = Some(n);
        self
    }

    /// Pins the workers to these CPUs, one each. Without [`workers`](Builder::workers) there are as
    /// many workers as CPUs.
    pub fn cpus(mut self, cpus: Vec<usize>) -> Builder {
        self.cpus = Some(cpus);
        self
    }

    /// Pins each worker to a CPU of the process's affinity mask, beginning with the last. Default:
    /// not pinned.
    pub fn pin(mut self, pin: bool) -> Builder {
        self.pin = pin;
        self
    }

    /// How long a thread may run while others wait; `None`: nothing is ever preempted. Default: the
    /// policy's, and where that names none, four times what an interruption takes on this machine,
    /// at least 20 us ([`quantum_for`](crate::sched::quantum_for)); where threads stop at probes,
    /// three times that, at least 10 us ([`probe_quantum_for`](crate::sched::probe_quantum_for)).
    pub fn quantum(mut self, quantum: Option<Duration>) -> Builder {
        self.quantum = Quantum::Given(quantum);
        self
    }

    /// [`quantum`](Builder::quantum) as text: `20us`, `0.5ms`, `off`; `auto`: as suits the machine,
    /// whatever the policy says.
    pub fn quantum_str(self, quantum: &str) -> Builder {
        self.set("quantum", quantum)
    }

    /// Which thread runs next. Default: `two-queue`.
    pub fn policy(mut self, policy: Spec) -> Builder {
        self.policy = Choice::BuiltIn(policy);
        self
    }

    /// A policy of your own, which `make` makes when the runtime is built. `quantum`, or what
    /// [`quantum`](Builder::quantum) says, is how long a thread may run while others wait; the
    /// clock goes by it, and the policy is told of it in [`PolicyRoom`]. What a policy must keep to
    /// is written at [`Policy`](crate::sched::Policy): above all it never blocks and does not
    /// allocate while it schedules. A policy that loses a thread loses it for ever.
    ///
    /// `crates/runtime/examples/own_policy.rs` is a worked example.
    pub fn custom_policy(
        mut self,
        quantum: Option<Duration>,
        make: impl Fn(&PolicyRoom) -> Box<dyn Policy> + Send + Sync + 'static,
    ) -> Builder {
        let quantum = quantum.filter(|quantum| !quantum.is_zero());
        self.policy = Choice::Custom(Custom { quantum, make: std::sync::Arc::new(make) });
        self
    }

    /// [`policy`](Builder::policy) as text, e.g. `two-queue:quantum=20us,long=100us`.
    pub fn policy_str(self, policy: &str) -> Builder {
        self.set("policy", policy)
    }

    /// Who keeps time. Default: [`Clock::Auto`].
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// [`clock`](Builder::clock) as text.
    pub fn clock_str(self, clock: &str) -> Builder {
        self.set("clock", clock)
    }

    /// How workers are told to preempt. Default: [`Notification::Auto`], which is
    /// [`Probe`](Notification::Probe) where the program, or a library that it has loaded by now, is
    /// instrumented and threads have [thread-locals of their own](Tls::Private), else
    /// [`Signal`](Notification::Signal).
    pub fn notification(mut self, notification: Notification) -> Builder {
        self.notification = notification;
        self
    }

    /// The CPU of the timer core or timer thread. Default: where workers are pinned, any CPU that
    /// none of them has; else the kernel's choice.
    pub fn timer_cpu(mut self, cpu: Option<usize>) -> Builder {
        self.timer_cpu = cpu;
        self
    }

    /// Usable bytes of each user thread's stack, rounded up to pages. Default:
    /// [`DEFAULT_STACK_SIZE`]. Only touched pages take memory.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// Most user threads that may exist at a time. Default: 2^21. Costs address space, not memory.
    pub fn max_threads(mut self, n: u32) -> Builder {
        self.max_threads = n;
        self
    }

    /// Most user threads that may block in the kernel at a time without occupying a worker; each
    /// takes a kernel thread. Beyond it, blocked threads are interrupted and switched like running
    /// ones. Default: 512.
    pub fn max_blocking(mut self, n: usize) -> Builder {
        self.max_blocking = n;
        self
    }

    /// How long an idle worker looks for work at most before it sleeps in the kernel: less, down to
    /// a sixteenth, while work mostly comes later than that. Default: 20 µs.
    pub fn idle_spin(mut self, spin: Duration) -> Builder {
        self.idle_spin = spin;
        self
    }

    /// How long a preemption may be put off because the running thread is in the C library, an
    /// allocator or another library whose locks others may want; then it is preempted there.
    /// `None`: until it comes out. Default: 0, it is preempted there at once.
    ///
    /// A thread that is preempted while it holds such a lock is waited for as any other holder of a
    /// lock is: who wants it gives its worker to others. Has no effect with [`Tls::Shared`], where
    /// a preemption is put off as long as it takes.
    pub fn max_deferral(mut self, limit: Option<Duration>) -> Builder {
        self.max_deferral = limit;
        self
    }

    /// [`max_deferral`](Builder::max_deferral) as text: `20us`, `off`.
    pub fn max_deferral_str(self, limit: &str) -> Builder {
        self.set("max_deferral", limit)
    }

    /// For how long the preemption of a thread that holds a [`Mutex`](crate::sync::Mutex) may be
    /// put off; it comes when the last mutex is freed, or after this time. Default: 0, it is
    /// preempted at once. Some microseconds are enough for short critical sections.
    ///
    /// Counting costs a little at each lock and unlock: `cargo run --release -p quaver --example
    /// mutex_extension` measures it, and what it brings. With a clock that sleeps the bound is met
    /// as exactly as quanta are. Mutexes of `std` and C are not counted. (As the slice extension
    /// of FlexGuard, section 2.4.)
    pub fn mutex_extension(mut self, bound: Duration) -> Builder {
        self.mutex_extension = bound;
        self
    }

    /// How much of a worker's time preemptions may take, in percent, 1 to 100 (as much as they do).
    /// Default: 2, and 25 where a quantum was chosen, here or by the policy: that bounds quanta
    /// shorter than four interruptions only.
    ///
    /// A preemption takes some microseconds of the worker, in virtual machines ten to twenty, and
    /// where a worker has more to do than time for it, these are missing. With a tax of 10 a thread
    /// may be interrupted when it has run for ten times what that takes; before that, it is paid
    /// from savings. A worker saves a share of the time in which it has nothing to do, which falls
    /// with the square of that time ([`Tax`](crate::sched::Tax)). What an interruption costs is
    /// measured when the first runtime is built, which takes about a millisecond
    /// ([`Runtime::preemption_price`](crate::Runtime::preemption_price)). Not in the papers.
    pub fn tax(mut self, percent: u32) -> Builder {
        self.tax = Some(percent);
        self
    }

    /// The signal that preempts. Default: `SIGURG`, which programs rarely use and which is ignored
    /// by default. (One whose default is to end the process may do that to a program that takes
    /// this one's place by `exec`.)
    pub fn signal(mut self, signal: i32) -> Builder {
        self.signal = signal;
        self
    }

    pub(crate) fn preemption_signal(&self) -> i32 {
        self.signal
    }

    /// How preempted threads get their registers back. Default: [`Resume::Auto`].
    pub fn resume(mut self, resume: Resume) -> Builder {
        self.resume = resume;
        self
    }

    /// Whose thread-local variables user threads have. Default: [`Tls::Private`].
    pub fn tls(mut self, tls: Tls) -> Builder {
        self.tls = tls;
        self
    }

    /// Builds and starts the runtime.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub fn build(mut self) -> Result<crate::Runtime, BuildError> {
        let mut share = self.join()?;
        let config = self.check()?;
        if let Some(share) = &mut share {
            share.occupy(&config.cpus[..config.workers])?;
        }
        crate::Runtime::start(config, share)
    }

    /// Says what [`build`](Builder::build) would find wrong with the settings, without starting
    /// anything. What only the start can tell (another runtime, a signal in use, resources of the
    /// kernel, a broker) is not looked at.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub fn validate(self) -> Result<(), BuildError> {
        self.check().map(drop)
    }

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
            tax: (tax < 100).then_some(tax),
            signal: self.signal,
            probes,
            user_interrupts,
            resume: self.resume,
            tls: self.tls,
        })
    }
}
