//! Choices among a few words.

use core::fmt;
use core::str::FromStr;
use std::time::Duration;

/// Who keeps time for preemption. See the crate's architecture page for costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Let the runtime choose for this machine; [`crate::platform::recommend`] says what and why.
    #[default]
    Auto,
    /// A thread of its own that spins on one CPU (Aspen, section 3.2). The most exact, and the most
    /// expensive.
    TimerCore,
    /// A thread of its own that sleeps until the next preemption is due.
    TimerThread,
    /// A POSIX timer for each worker, armed only while other threads wait. Needs no other core.
    PosixTimer,
    /// The timer of each worker's CPU itself, which the kernel gives away for as long as a worker
    /// runs there (Skyloft, section 3.2). Needs [`Notification::UserInterrupt`], pinned workers,
    /// and CPUs that are used for nothing else.
    DelegatedTimer,
}

/// How a worker is told to preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notification {
    /// The best that this machine has.
    #[default]
    Auto,
    /// A signal to the worker's kernel thread.
    Signal,
    /// A word that probes look at: the program is instrumented (`quaver-as`). A signal follows two
    /// quanta later where none was met.
    Probe,
    /// A user interrupt (Intel, since Sapphire Rapids), with this project's kernel module. A signal
    /// follows where a thread blocks. Where there are none, signals are used, with a message.
    UserInterrupt,
    /// The same code with the instructions emulated: slow, for tests on any machine.
    EmulatedUserInterrupt,
}

/// How a preempted thread gets its registers back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Resume {
    /// In user mode.
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
    /// Those of the worker that happens to run the thread. For programs of very many small threads
    /// that run code of their own only: the memory of a thread is its stack alone, and starting one
    /// and switching cost less (`quaver bench ops`: a yield 39 ns instead of 58). But
    /// `thread_local!`, C's `__thread`, `errno` and thread-specific values may change their values
    /// whenever the thread is preempted or waits. Panics, `println!` and [`std::thread::current`]
    /// work as ever. The threads must keep the rules of the book's chapter on preemption.
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
    "auto, timer-core, timer-thread, posix-timer, delegated-timer",
    Auto = "auto",
    TimerCore = "timer-core",
    TimerThread = "timer-thread",
    PosixTimer = "posix-timer",
    DelegatedTimer = "delegated-timer"
);
names!(
    Notification,
    "auto, signal, probe, user-interrupt, emulated-user-interrupt",
    Auto = "auto",
    Signal = "signal",
    Probe = "probe",
    UserInterrupt = "user-interrupt",
    EmulatedUserInterrupt = "emulated-user-interrupt"
);
names!(Tls, "private, shared", Private = "private", Shared = "shared");
names!(Resume, "auto, sigreturn", Auto = "auto", Sigreturn = "sigreturn");

impl Notification {
    /// Is it one, real or emulated?
    pub(crate) fn is_user_interrupt(self) -> bool {
        matches!(self, Notification::UserInterrupt | Notification::EmulatedUserInterrupt)
    }
}

impl Clock {
    /// The shortest quantum that this clock can keep without spending more time on preempting than
    /// on the threads, where timers and signals do not leave a virtual machine. Where they do,
    /// `quaver bench preempt` says what a preemption costs.
    pub fn min_quantum(self) -> Duration {
        Duration::from_micros(match self {
            Clock::TimerCore => 2,
            Clock::TimerThread | Clock::DelegatedTimer => 5,
            Clock::Auto | Clock::PosixTimer => 10,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_sched::settings::{Kind, Setting};

    #[test]
    fn names_round_trip() {
        for &c in Clock::ALL {
            assert_eq!(c.to_string().parse(), Ok(c));
        }
        let e = "sundial".parse::<Clock>().unwrap_err().to_string();
        assert!(e.contains("sundial") && e.contains("timer-core"), "{e}");
    }

    #[test]
    fn the_table_of_settings_has_the_same_words() {
        fn words<T: fmt::Display>(all: &[T]) -> Vec<String> {
            all.iter().map(T::to_string).collect()
        }
        for (name, all) in [
            ("clock", words(Clock::ALL)),
            ("notification", words(Notification::ALL)),
            ("resume", words(Resume::ALL)),
            ("tls", words(Tls::ALL)),
        ] {
            let Some(Kind::Word(allowed)) = Setting::named(name).map(|s| s.kind) else {
                panic!("{name} is no word")
            };
            assert_eq!(all, allowed, "{name}");
        }
    }
}
