//! What can be chosen, how it is written, and what is wrong with a bad choice.

use crate::policy::{Choice, Custom, PolicyRoom};
use crate::thread::stack;
use crate::{preempt, sys, tls};
use core::fmt;
use core::str::FromStr;
use quaver_sched::{Policy, Spec, SpecError, format_duration, parse_duration};
use std::io;
use std::time::Duration;

/// Who keeps time for preemption. See the crate's architecture page for costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Let the runtime choose for this machine; [`crate::platform::recommend`] says what and why.
    #[default]
    Auto,
    /// A thread of its own that spins on one CPU (Aspen, section 3.2). The most exact, and the most expensive.
    TimerCore,
    /// A thread of its own that sleeps until the next preemption is due.
    TimerThread,
    /// A POSIX timer for each worker, armed only while other threads wait. Needs no other core.
    PosixTimer,
}

/// How a worker is told to preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notification {
    /// The best that this machine has.
    #[default]
    Auto,
    /// A signal to the worker's kernel thread.
    Signal,
}

/// How a preempted thread gets its registers back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Resume {
    /// In user mode, unless shadow stacks forbid it.
    #[default]
    Auto,
    /// By `rt_sigreturn`, as after any signal: slower, for comparison and for debugging.
    Sigreturn,
}

/// Whose thread-local variables user threads have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tls {
    /// Each thread has its own, as kernel threads have.
    #[default]
    Private,
    /// Those of the worker that happens to run the thread. Costs less memory, and less time to start a thread; but
    /// `thread_local!`, C's `__thread`, `errno` and thread-specific values may change their values whenever the thread is preempted
    /// or waits. Panics, `println!` and [`std::thread::current`] work as ever. Only for programs whose threads keep the rules
    /// of the book's chapter on preemption.
    Shared,
}

/// A word that is not one of those allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not one of {allowed}")]
pub struct UnknownName {
    given: String,
    allowed: &'static str,
}

macro_rules! names {
    ($ty:ident, $allowed:literal, $($variant:ident = $name:literal),* $(,)?) => {
        impl FromStr for $ty {
            type Err = UnknownName;
            fn from_str(s: &str) -> Result<Self, UnknownName> {
                match s {
                    $($name => Ok($ty::$variant),)*
                    _ => Err(UnknownName { given: s.into(), allowed: $allowed }),
                }
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $($ty::$variant => $name,)* })
            }
        }

        impl $ty {
            /// Every value, in the order of the documentation.
            pub const ALL: &[$ty] = &[$($ty::$variant),*];
        }
    };
}

names!(
    Clock,
    "auto, timer-core, timer-thread, posix-timer",
    Auto = "auto",
    TimerCore = "timer-core",
    TimerThread = "timer-thread",
    PosixTimer = "posix-timer"
);
names!(Notification, "auto, signal", Auto = "auto", Signal = "signal");
names!(Tls, "private, shared", Private = "private", Shared = "shared");
names!(Resume, "auto, sigreturn", Auto = "auto", Sigreturn = "sigreturn");

impl Clock {
    /// The shortest quantum that this clock can keep without spending more time on preempting than on the threads, where
    /// timers and signals do not leave a virtual machine. Where they do, `quaver bench preempt` says what a preemption costs.
    pub fn min_quantum(self) -> Duration {
        Duration::from_micros(match self {
            Clock::TimerCore => 2,
            Clock::TimerThread => 5,
            Clock::Auto | Clock::PosixTimer => 10,
        })
    }
}

/// Most workers that a runtime can have.
pub const MAX_WORKERS: usize = 1024;

/// Why a runtime could not be built. Every message says what to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Zero workers, or more than [`MAX_WORKERS`].
    #[error("{0} workers: there must be between 1 and {MAX_WORKERS}")]
    Workers(usize),
    /// A CPU that this process may not use.
    #[error(
        "CPU {cpu} is not among those that this process may use ({allowed}); check taskset, cpusets and --cpus"
    )]
    Cpu {
        /// The CPU asked for.
        cpu: usize,
        /// The process's affinity mask.
        allowed: String,
    },
    /// Fewer CPUs than workers were given.
    #[error(
        "{workers} workers cannot be pinned to {cpus} CPUs; give one CPU for each worker or do not pin"
    )]
    TooFewCpus {
        /// Workers asked for.
        workers: usize,
        /// CPUs to pin them to.
        cpus: usize,
    },
    /// A quantum that the clock cannot keep.
    #[error(
        "a quantum of {quantum} is below what the clock {clock} can keep ({min}); use a longer quantum, another clock, or `off`"
    )]
    Quantum {
        /// What was asked for.
        quantum: String,
        /// The clock in use.
        clock: Clock,
        /// Its shortest quantum.
        min: String,
    },
    /// Stacks on which a signal frame does not fit.
    #[error(
        "stacks of {given} bytes cannot hold a preempted thread on this CPU: at least {min} are needed"
    )]
    StackTooSmall {
        /// What was asked for.
        given: usize,
        /// The least on this machine.
        min: usize,
    },
    /// Zero, or more threads than handles.
    #[error("max_threads of {0}: there must be between 1 and 2^24")]
    MaxThreads(u32),
    /// Not a percentage of a worker's time.
    #[error(
        "a tax of {0} %: there must be between 1 and 100; 100 is no bound on what preemptions cost"
    )]
    Tax(u32),
    /// Another runtime runs in this process.
    #[error(
        "a quaver runtime is already running in this process: shut it down first, or use quaver::spawn, which finds it"
    )]
    AlreadyRunning,
    /// Called on a user thread.
    #[error("a runtime cannot be built on a user thread of another one")]
    OnUserThread,
    /// The signal cannot be used.
    #[error(
        "signal {0} cannot be used for preemption: choose a number from 1 to 64 that can be caught"
    )]
    BadSignal(i32),
    /// The program handles the signal itself.
    #[error(
        "signal {0} already has a handler in this program: choose another with Builder::signal or QUAVER_SIGNAL"
    )]
    SignalInUse(i32),
    /// The C library offers no private TLS.
    #[error(transparent)]
    Tls(#[from] tls::Unsupported),
    /// Threads cannot share TLS with this standard library.
    #[error(transparent)]
    SharedTls(#[from] tls::shared::Unshareable),
    /// A setting could not be read.
    #[error("{name}: `{value}` cannot be used: {reason}")]
    Setting {
        /// Environment variable or builder method.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        reason: String,
    },
    /// The operating system refused something.
    #[error("cannot {what}: {error}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        #[source]
        error: io::Error,
    },
}

/// Everything that a runtime is built from, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    /// One for each worker, or empty: not pinned.
    pub(crate) cpus: Vec<usize>,
    pub(crate) policy: Choice,
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
    /// In percent; `None`: no bound.
    pub(crate) tax: Option<u32>,
    pub(crate) signal: i32,
    pub(crate) resume: Resume,
    pub(crate) tls: Tls,
}

/// Makes a [`Runtime`](crate::Runtime).
///
/// Values that are not set come from the environment with [`from_env`](Builder::from_env), else from
/// defaults. Nothing is checked before [`build`](Builder::build), which reports the first error.
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
    quantum: Option<Option<Duration>>,
    policy: Choice,
    clock: Clock,
    notification: Notification,
    timer_cpu: Option<usize>,
    stack_size: usize,
    max_threads: u32,
    max_blocking: usize,
    idle_spin: Duration,
    max_deferral: Option<Duration>,
    tax: u32,
    signal: i32,
    resume: Resume,
    tls: Tls,
    error: Option<(&'static str, String, String)>,
}

/// Stack of a user thread unless chosen otherwise. Only touched pages take memory.
pub const DEFAULT_STACK_SIZE: usize = 256 * 1024;

/// See [`Builder::max_deferral`].
const DEFAULT_MAX_DEFERRAL: Duration = Duration::ZERO;

/// See [`Builder::tax`].
const DEFAULT_TAX: u32 = 100;

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
            quantum: None,
            policy: Choice::BuiltIn(Spec::default()),
            clock: Clock::Auto,
            notification: Notification::Auto,
            timer_cpu: None,
            stack_size: DEFAULT_STACK_SIZE,
            max_threads: 1 << 21,
            max_blocking: 512,
            idle_spin: Duration::from_micros(20),
            max_deferral: Some(DEFAULT_MAX_DEFERRAL),
            tax: DEFAULT_TAX,
            signal: libc::SIGURG,
            resume: Resume::Auto,
            tls: Tls::Private,
            error: None,
        }
    }

    /// Defaults, changed by these environment variables: `QUAVER_WORKERS` (a number), `QUAVER_CPUS` (a list such as
    /// `0-2,4`; pins), `QUAVER_QUANTUM` (`20us`, `off`), `QUAVER_POLICY` (`two-queue:long=100us`), `QUAVER_CLOCK`,
    /// `QUAVER_NOTIFICATION`, `QUAVER_TIMER_CPU`, `QUAVER_STACK_SIZE` (bytes, or with `k`, `m`), `QUAVER_MAX_THREADS`,
    /// `QUAVER_SIGNAL`, `QUAVER_RESUME`, `QUAVER_TLS`, `QUAVER_MAX_DEFERRAL` (`20us`, `off`),
    /// `QUAVER_TAX` (percent). A value that cannot be read is an error at `build`.
    pub fn from_env() -> Builder {
        let mut b = Builder::new();
        let get = |name: &str| std::env::var(name).ok();
        if let Some(v) = get("QUAVER_WORKERS") {
            b = b.parsed("QUAVER_WORKERS", &v, |b, v| {
                v.parse().map(|n| b.workers = Some(n)).map_err(|_| "expected a number".into())
            });
        }
        if let Some(v) = get("QUAVER_CPUS") {
            b = b.parsed("QUAVER_CPUS", &v, |b, v| {
                crate::platform::parse_cpu_list(v).map(|c| b.cpus = Some(c))
            });
        }
        if let Some(v) = get("QUAVER_POLICY") {
            b = b.parsed("QUAVER_POLICY", &v, Builder::set_policy);
        }
        if let Some(v) = get("QUAVER_QUANTUM") {
            b = b.parsed("QUAVER_QUANTUM", &v, set_quantum);
        }
        if let Some(v) = get("QUAVER_CLOCK") {
            b = b.parsed("QUAVER_CLOCK", &v, |b, v| {
                v.parse().map(|c| b.clock = c).map_err(|e: UnknownName| e.to_string())
            });
        }
        if let Some(v) = get("QUAVER_NOTIFICATION") {
            b = b.parsed("QUAVER_NOTIFICATION", &v, |b, v| {
                v.parse().map(|c| b.notification = c).map_err(|e: UnknownName| e.to_string())
            });
        }
        if let Some(v) = get("QUAVER_TIMER_CPU") {
            b = b.parsed("QUAVER_TIMER_CPU", &v, |b, v| {
                v.parse().map(|c| b.timer_cpu = Some(c)).map_err(|_| "expected a CPU number".into())
            });
        }
        if let Some(v) = get("QUAVER_STACK_SIZE") {
            b = b.parsed("QUAVER_STACK_SIZE", &v, |b, v| parse_size(v).map(|n| b.stack_size = n));
        }
        if let Some(v) = get("QUAVER_MAX_THREADS") {
            b = b.parsed("QUAVER_MAX_THREADS", &v, |b, v| {
                v.parse().map(|n| b.max_threads = n).map_err(|_| "expected a number".into())
            });
        }
        if let Some(v) = get("QUAVER_SIGNAL") {
            b = b.parsed("QUAVER_SIGNAL", &v, |b, v| {
                v.parse().map(|n| b.signal = n).map_err(|_| "expected a signal number".into())
            });
        }
        if let Some(v) = get("QUAVER_RESUME") {
            b = b.parsed("QUAVER_RESUME", &v, |b, v| {
                v.parse().map(|c| b.resume = c).map_err(|e: UnknownName| e.to_string())
            });
        }
        if let Some(v) = get("QUAVER_MAX_DEFERRAL") {
            b = b.parsed("QUAVER_MAX_DEFERRAL", &v, |b, v| {
                parse_optional(v).map(|limit| b.max_deferral = limit)
            });
        }
        if let Some(v) = get("QUAVER_TAX") {
            b = b.parsed("QUAVER_TAX", &v, |b, v| {
                v.parse().map(|n| b.tax = n).map_err(|_| "expected a percentage".into())
            });
        }
        if let Some(v) = get("QUAVER_TLS") {
            b = b.parsed("QUAVER_TLS", &v, |b, v| {
                v.parse().map(|c| b.tls = c).map_err(|e: UnknownName| e.to_string())
            });
        }
        b
    }

    fn parsed(
        mut self,
        name: &'static str,
        value: &str,
        set: impl FnOnce(&mut Builder, &str) -> Result<(), String>,
    ) -> Builder {
        if let Err(reason) = set(&mut self, value.trim())
            && self.error.is_none()
        {
            self.error = Some((name, value.into(), reason));
        }
        self
    }

    fn set_policy(&mut self, v: &str) -> Result<(), String> {
        v.parse().map(|p| self.policy = Choice::BuiltIn(p)).map_err(|e: SpecError| e.to_string())
    }

    /// Number of workers: how many user threads run at the same time. Default: the CPUs that the process may
    /// use, less what a cgroup quota takes away.
    pub fn workers(mut self, n: usize) -> Builder {
        self.workers = Some(n);
        self
    }

    /// Pins the workers to these CPUs, one each. Without [`workers`](Builder::workers) there are as many workers as CPUs.
    pub fn cpus(mut self, cpus: Vec<usize>) -> Builder {
        self.cpus = Some(cpus);
        self
    }

    /// Pins each worker to a CPU of the process's affinity mask, beginning with the last. Default: not pinned.
    pub fn pin(mut self, pin: bool) -> Builder {
        self.pin = pin;
        self
    }

    /// How long a thread may run while others wait; `None`: nothing is ever preempted. Default: the policy's.
    pub fn quantum(mut self, quantum: Option<Duration>) -> Builder {
        self.quantum = Some(quantum);
        self
    }

    /// [`quantum`](Builder::quantum) as text: `20us`, `0.5ms`, `off`.
    pub fn quantum_str(self, quantum: &str) -> Builder {
        self.parsed("quantum", quantum, set_quantum)
    }

    /// Which thread runs next. Default: `two-queue`.
    pub fn policy(mut self, policy: Spec) -> Builder {
        self.policy = Choice::BuiltIn(policy);
        self
    }

    /// A policy of your own, which `make` makes when the runtime is built. `quantum`, or what
    /// [`quantum`](Builder::quantum) says, is how long a thread may run while others wait; the clock goes by it, and the
    /// policy is told of it in [`PolicyRoom`]. What a policy must keep to is written at
    /// [`Policy`](crate::sched::Policy): above all it never blocks and does not allocate while it schedules. A policy that
    /// loses a thread loses it for ever.
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
        self.parsed("policy", policy, Builder::set_policy)
    }

    /// Who keeps time. Default: [`Clock::Auto`].
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// [`clock`](Builder::clock) as text.
    pub fn clock_str(self, clock: &str) -> Builder {
        self.parsed("clock", clock, |b, v| {
            v.parse().map(|c| b.clock = c).map_err(|e: UnknownName| e.to_string())
        })
    }

    /// How workers are told to preempt. Default: [`Notification::Auto`].
    pub fn notification(mut self, notification: Notification) -> Builder {
        self.notification = notification;
        self
    }

    /// The CPU of the timer core or timer thread. Default: where workers are pinned, any CPU that none of them has; else the
    /// kernel's choice.
    pub fn timer_cpu(mut self, cpu: Option<usize>) -> Builder {
        self.timer_cpu = cpu;
        self
    }

    /// Usable bytes of each user thread's stack, rounded up to pages. Default: [`DEFAULT_STACK_SIZE`]. Only touched
    /// pages take memory.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// Most user threads that may exist at a time. Default: 2^21. Costs address space, not memory.
    pub fn max_threads(mut self, n: u32) -> Builder {
        self.max_threads = n;
        self
    }

    /// Most user threads that may block in the kernel at a time without occupying a worker; each takes a kernel thread.
    /// Beyond it, blocked threads are interrupted and switched like running ones. Default: 512.
    pub fn max_blocking(mut self, n: usize) -> Builder {
        self.max_blocking = n;
        self
    }

    /// How long an idle worker looks for work before it sleeps in the kernel. Default: 20 µs.
    pub fn idle_spin(mut self, spin: Duration) -> Builder {
        self.idle_spin = spin;
        self
    }

    /// How long a preemption may be put off because the running thread is in the C library, an allocator or another library whose
    /// locks others may want; then it is preempted there. `None`: until it comes out. Default: 0, it is preempted there at once.
    ///
    /// A thread that is preempted while it holds such a lock is waited for as any other holder of a lock is: who wants it gives its
    /// worker to others. Has no effect with [`Tls::Shared`], where a preemption is put off as long as it takes.
    pub fn max_deferral(mut self, limit: Option<Duration>) -> Builder {
        self.max_deferral = limit;
        self
    }

    /// [`max_deferral`](Builder::max_deferral) as text: `20us`, `off`.
    pub fn max_deferral_str(self, limit: &str) -> Builder {
        self.parsed("max_deferral", limit, |b, v| parse_optional(v).map(|l| b.max_deferral = l))
    }

    /// How much of a worker's time preemptions may take, in percent, 1 to 100; 100, the default: as much as they do.
    ///
    /// A preemption takes some microseconds of the worker, in virtual machines ten to twenty, and where a worker has more to do than time
    /// for it, these are missing. With a tax of 10 a worker loses a tenth of its time at most: when that is spent, quanta
    /// become longer. Time in which the worker has nothing to do is spent on preemptions first, so at moderate loads the quantum
    /// is kept. What one costs is measured when the first runtime is built that has to know it, which takes a millisecond.
    pub fn tax(mut self, percent: u32) -> Builder {
        self.tax = percent;
        self
    }

    /// The signal that preempts. Default: `SIGURG`, which programs rarely use and which is ignored by default.
    pub fn signal(mut self, signal: i32) -> Builder {
        self.signal = signal;
        self
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
    pub fn build(self) -> Result<crate::Runtime, BuildError> {
        let config = self.check()?;
        crate::Runtime::start(config)
    }

    /// Says what [`build`](Builder::build) would find wrong with the settings, without starting anything. What only the start can
    /// tell (another runtime, a signal in use, resources of the kernel) is not looked at.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub fn validate(self) -> Result<(), BuildError> {
        self.check().map(drop)
    }

    /// Checks all values against each other and the machine.
    pub(crate) fn check(self) -> Result<Config, BuildError> {
        if let Some((name, value, reason)) = self.error {
            return Err(BuildError::Setting { name, value, reason });
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
        let policy = match self.quantum {
            Some(q) => self.policy.with_quantum(q),
            None => self.policy,
        };
        let clock = match self.clock {
            Clock::Auto => crate::platform::recommend().clock,
            chosen => chosen,
        };
        if let Some(q) = policy.quantum()
            && q < clock.min_quantum()
        {
            return Err(BuildError::Quantum {
                quantum: format_duration(q),
                clock,
                min: format_duration(clock.min_quantum()),
            });
        }
        if self.stack_size < stack::min_stack_size() {
            return Err(BuildError::StackTooSmall {
                given: self.stack_size,
                min: stack::min_stack_size(),
            });
        }
        if self.max_threads == 0 || self.max_threads > 1 << 24 {
            return Err(BuildError::MaxThreads(self.max_threads));
        }
        if !(1..=100).contains(&self.tax) {
            return Err(BuildError::Tax(self.tax));
        }
        if !preempt::signal_is_valid(self.signal) {
            return Err(BuildError::BadSignal(self.signal));
        }
        let (Notification::Auto | Notification::Signal) = self.notification;
        Ok(Config {
            workers,
            cpus,
            policy,
            clock,
            clock_cpus,
            clock_shares,
            stack_size: self.stack_size,
            max_threads: self.max_threads,
            max_blocking: self.max_blocking,
            idle_spin: self.idle_spin,
            max_deferral: self.max_deferral,
            tax: (self.tax < 100).then_some(self.tax),
            signal: self.signal,
            resume: self.resume,
            tls: self.tls,
        })
    }
}

fn set_quantum(b: &mut Builder, v: &str) -> Result<(), String> {
    b.quantum = Some(if v == "0" { None } else { parse_optional(v)? });
    Ok(())
}

/// A duration, or `off`.
fn parse_optional(v: &str) -> Result<Option<Duration>, String> {
    match v {
        "off" | "none" => Ok(None),
        _ => parse_duration(v).map(Some).map_err(|e| e.to_string()),
    }
}

fn parse_size(v: &str) -> Result<usize, String> {
    let lower = v.to_ascii_lowercase();
    let (digits, unit) = match lower.trim_end_matches("ib").trim_end_matches('b') {
        s if s.ends_with('k') => (&s[..s.len() - 1], 1 << 10),
        s if s.ends_with('m') => (&s[..s.len() - 1], 1 << 20),
        s => (s, 1),
    };
    digits
        .trim()
        .parse::<usize>()
        .ok()
        .and_then(|n| n.checked_mul(unit))
        .ok_or_else(|| "expected bytes, or a number with k or m".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &c in Clock::ALL {
            assert_eq!(c.to_string().parse(), Ok(c));
        }
        let e = "sundial".parse::<Clock>().unwrap_err().to_string();
        assert!(e.contains("sundial") && e.contains("timer-core"), "{e}");
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("64k"), Ok(65536));
        assert_eq!(parse_size("1 MiB"), Ok(1 << 20));
        assert!(parse_size("big").is_err());
        assert!(parse_size("99999999999999999999").is_err());
    }

    fn error(b: Builder) -> String {
        b.check().unwrap_err().to_string()
    }

    #[test]
    fn bad_values_are_named() {
        assert!(error(Builder::new().workers(0)).starts_with("0 workers"));
        assert!(error(Builder::new().workers(5000)).contains("1024"));
        assert!(error(Builder::new().cpus(vec![4000])).contains("CPU 4000"));
        assert!(error(Builder::new().cpus(vec![sys::affinity()[0]]).workers(2)).contains("pinned"));
        assert!(error(Builder::new().stack_size(1000)).contains("1000 bytes"));
        assert!(error(Builder::new().max_threads(0)).contains("max_threads"));
        assert!(error(Builder::new().signal(9)).contains("signal 9"));
        let e =
            error(Builder::new().clock(Clock::PosixTimer).quantum(Some(Duration::from_nanos(1))));
        assert!(e.contains("1ns") && e.contains("posix-timer") && e.contains("10us"), "{e}");
        let e = error(Builder::new().quantum_str("soon"));
        assert!(e.contains("quantum") && e.contains("soon"), "{e}");
        assert!(error(Builder::new().policy_str("best")).contains("best"));
        assert!(error(Builder::new().clock_str("sundial")).contains("sundial"));
    }

    #[test]
    fn a_cpu_that_is_named_beyond_the_workers_is_the_clocks_own() {
        let all = sys::affinity();
        let shares = |workers| {
            let b = Builder::new().cpus(all.clone()).workers(workers);
            b.check().unwrap().clock_shares
        };
        assert!(shares(all.len()));
        assert_eq!(shares(1), all.len() == 1);
    }

    #[test]
    fn off_means_no_preemption() {
        assert_eq!(Builder::new().quantum_str("off").check().unwrap().policy.quantum(), None);
    }
}
