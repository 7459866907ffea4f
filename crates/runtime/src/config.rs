//! What can be chosen, how it is written, and what is wrong with a bad choice.

mod check;
mod error;
mod names;
mod share;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use check::Config;
pub use check::MAX_WORKERS;
pub use error::BuildError;
pub use names::{Clock, Notification, Resume, Tls, UnknownName};

use crate::policy::{Custom, PolicyChoice, PolicyRoom};
use quaver_sched::share::Membership;
use quaver_sched::{Policy, Spec};
use std::time::Duration;
use text::TextError;

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
    policy: PolicyChoice,
    clock: Clock,
    notification: Notification,
    timer_cpu: Option<usize>,
    stack_size: usize,
    max_threads: u32,
    max_blocking: usize,
    idle_spin: Duration,
    max_deferral: Option<Duration>,
    mutex_extension: Duration,
    fault_look: Option<Duration>,
    monitor: bool,
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
            policy: PolicyChoice::BuiltIn(Spec::default()),
            clock: Clock::Auto,
            notification: Notification::Auto,
            timer_cpu: None,
            stack_size: DEFAULT_STACK_SIZE,
            max_threads: 1 << 21,
            max_blocking: 512,
            idle_spin: Duration::from_micros(20),
            max_deferral: Some(DEFAULT_MAX_DEFERRAL),
            mutex_extension: Duration::ZERO,
            fault_look: None,
            monitor: false,
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
        self.policy = PolicyChoice::BuiltIn(policy);
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
        self.policy = PolicyChoice::Custom(Custom { quantum, make: std::sync::Arc::new(make) });
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
    /// lock is: who wants it gives its worker to others. That is too little for strict priorities
    /// (policy `priority`): a holder of low priority is not run before all others, and a thread of
    /// high priority that wants malloc's lock waits as long. `quaver bench defer` measures what a
    /// limit costs. Has no effect with [`Tls::Shared`], where a preemption is put off as long as it
    /// takes.
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

    /// How often to look for workers that sleep in a page fault, 20 µs or more, while others wait:
    /// at the second look such a worker goes on with other threads, as it does in a system call
    /// that blocks. Default: `None`, no looks, but for those of every 100 ms without a quantum or
    /// with one of more than 100 ms. For programs that read mapped files from slow
    /// devices; `cargo run --release -p quaver --example page_faults` shows what it brings. Faults
    /// that are over before the second look are not seen. Has no effect with
    /// [`Tls::Shared`] and user interrupts. (Skyloft, section 6.)
    pub fn fault_look(mut self, every: Option<Duration>) -> Builder {
        self.fault_look = every;
        self
    }

    /// Lets a program in the kernel tell which workers have lost their CPU: to another process, or
    /// asleep in a page fault. What waits there is then given to the other workers at once, and a
    /// worker asleep in a page fault goes on with other threads. For machines with more to run than
    /// CPUs, and for pinned workers. Default: no. Needs a [monitor](crate::monitor), else this does
    /// nothing but say why. (Skyloft, section 6.)
    pub fn monitor(mut self, on: bool) -> Builder {
        self.monitor = on;
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
        // Before any thread is made.
        crate::sys::make_room_for_descriptors();
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
}
