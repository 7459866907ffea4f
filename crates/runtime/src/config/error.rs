//! What is wrong with a choice.

use super::{Clock, MAX_WORKERS};
use crate::tls;
use std::io;

/// Why a runtime could not be built. Every message says what to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Zero workers, or more than [`MAX_WORKERS`].
    #[error("{0} workers: there must be between 1 and {MAX_WORKERS}")]
    Workers(usize),
    /// A CPU that this process may not use.
    #[error(
        "CPU {cpu} is not among those that this process may use ({allowed}); check taskset, \
         cpusets and --cpus"
    )]
    Cpu {
        /// The CPU asked for.
        cpu: usize,
        /// The process's affinity mask.
        allowed: String,
    },
    /// Fewer CPUs than workers were given.
    #[error(
        "{workers} workers cannot be pinned to {cpus} CPUs; give one CPU for each worker or do not \
         pin"
    )]
    TooFewCpus {
        /// Workers asked for.
        workers: usize,
        /// CPUs to pin them to.
        cpus: usize,
    },
    /// A quantum that the clock cannot keep.
    #[error(
        "a quantum of {quantum} is below what the clock {clock} can keep ({min}); use a longer \
         quantum, another clock, probes, or `off`"
    )]
    Quantum {
        /// What was asked for.
        quantum: String,
        /// The clock in use.
        clock: Clock,
        /// Its shortest quantum.
        min: String,
    },
    /// A quantum that probes cannot keep.
    #[error(
        "a quantum of {quantum} is below what probes can keep ({min}); use a longer quantum, or \
         `off`"
    )]
    ProbesQuantum {
        /// What was asked for.
        quantum: String,
        /// The shortest one.
        min: String,
    },
    /// The broker of shared cores is not there or refuses, or the workers' CPUs are not shared.
    #[error("cannot share cores: {reason}")]
    Share {
        /// What is wrong.
        reason: String,
    },
    /// Stacks on which a signal frame does not fit.
    #[error(
        "stacks of {given} bytes cannot hold a preempted thread on this CPU: at least {min} are \
         needed"
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
        "a quaver runtime is already running in this process: shut it down first, or use \
         quaver::spawn, which finds it"
    )]
    AlreadyRunning,
    /// Called on a user thread.
    #[error("a runtime cannot be built on a user thread of another one")]
    OnUserThread,
    /// Called on a thread whose register `gs` somebody else uses: a user thread of another copy of
    /// this crate, say in a program that is started by `quaver run`.
    #[error(
        "another runtime runs this thread (it uses the register gs): a program that makes a \
         quaver runtime itself must be started without `quaver run`, and have one copy of quaver"
    )]
    OtherRuntime,
    /// The signal cannot be used.
    #[error(
        "signal {0} cannot be used for preemption: choose a number from 1 to 64 that can be caught"
    )]
    BadSignal(i32),
    /// Probes look at a word of the thread's own.
    #[error(
        "notification=probe needs threads with thread-local variables of their own: choose \
         tls=private, or notification=signal"
    )]
    ProbesWithoutTls,
    /// A delegated timer interrupts by user interrupts only.
    #[error(
        "clock=delegated-timer needs notification=user-interrupt: choose that, or another clock"
    )]
    DelegatedWithout,
    /// A delegated timer belongs to a CPU.
    #[error("clock=delegated-timer needs pinned workers: name their CPUs (cpus), or choose pin")]
    DelegatedUnpinned,
    /// The program handles the signal itself.
    #[error(
        "signal {0} already has a handler in this program: choose another with Builder::signal or \
         QUAVER_SIGNAL"
    )]
    SignalInUse(i32),
    /// The process runs with shadow stacks, which a switch of threads would have to switch, too.
    #[error(
        "user threads cannot run under shadow stacks: switch them off for this program \
         (GLIBC_TUNABLES=glibc.cpu.x86_shstk=off)"
    )]
    ShadowStack,
    /// The C library offers no private TLS.
    #[error(transparent)]
    Tls(#[from] tls::Unsupported),
    /// Threads cannot share TLS with this standard library.
    #[error(transparent)]
    SharedTls(#[from] tls::shared::Unshareable),
    /// A setting could not be read.
    #[error("{name}: `{value}` cannot be used: {reason}")]
    Setting {
        /// Environment variable or setting.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong.
        reason: String,
    },
    /// A text names a setting that does not exist, or none.
    #[error("{0}")]
    UnknownSetting(String),
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
