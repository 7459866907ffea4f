//! The kernel's classes as ranks: what binds a core to one application without the module of the
//! paper. (Skyloft 3.3.) Both may be runnable; the kernel runs the one of higher rank. So a
//! best-effort application that is dead, stopped or lies cannot hold a core.

use crate::class::Class;
use std::collections::HashMap;
use std::io;

/// By which classes ranks are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binding {
    /// All are `SCHED_FIFO`: nothing else on the shared CPUs disturbs either. Other programs get a
    /// twentieth of these CPUs.
    Fifo,
    /// Latency-critical ones are `SCHED_FIFO`, best-effort ones are `SCHED_IDLE`.
    Mixed,
    /// Latency-critical ones have the nice value -20, best-effort ones are `SCHED_IDLE`: where the
    /// kernel throttles `SCHED_FIFO`, or forbids it to this control group.
    Nice,
    /// Latency-critical ones stay as they are, best-effort ones are `SCHED_IDLE`: needs no rights.
    Idle,
}

/// The place of a kernel thread in the order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Rank {
    /// Of a latency-critical application.
    Critical,
    /// Of the best-effort application whose turn it is.
    Turn,
    /// The same, of a plain program, or where several take turns.
    PlainTurn,
    /// Of a best-effort application whose turn it is not, and of who was expelled.
    Last,
}

/// The broker's own, where it has a CPU that nobody shares; and where it has none.
pub(super) const ABOVE: Class = Class::Fifo(4);
pub(super) const BETWEEN: Class = Class::Fifo(2);
pub(super) use crate::class::USUAL;

impl Binding {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Fifo => "fifo",
            Binding::Mixed => "mixed",
            Binding::Nice => "nice",
            Binding::Idle => "idle",
        }
    }

    /// As rights, CPUs and the kernel allow: `FIFO` for all only where other programs have a CPU of
    /// their own, and the kernel does not stop such threads ([`throttle`](super::throttle)).
    pub(super) fn choose(rights: Rights, others_have_cpus: bool, throttles: bool) -> Binding {
        match (rights, others_have_cpus) {
            (Rights::None, _) => Binding::Idle,
            (Rights::Fifo, true) if !throttles => Binding::Fifo,
            (Rights::Fifo, false) if !throttles => Binding::Mixed,
            _ => Binding::Nice,
        }
    }

    /// What it takes.
    pub(super) fn needs(self) -> Rights {
        match self {
            Binding::Fifo | Binding::Mixed => Rights::Fifo,
            Binding::Nice => Rights::Nice,
            Binding::Idle => Rights::None,
        }
    }

    /// Whether turns can be given: a thread that is to run again must be raised.
    pub(super) fn has_turns(self) -> bool {
        self != Binding::Idle
    }

    /// The class of this rank.
    pub(super) fn class(self, rank: Rank) -> Class {
        match (self, rank) {
            (Binding::Fifo | Binding::Mixed, Rank::Critical) => Class::Fifo(3),
            (Binding::Idle, Rank::Critical) => USUAL,
            (Binding::Nice, Rank::Critical) => Class::Other(-20),
            (Binding::Fifo, Rank::Turn) => Class::Fifo(1),
            (_, Rank::Turn | Rank::PlainTurn) if self.has_turns() => Class::Other(10),
            _ => Class::Idle,
        }
    }
}

/// How this process may rank threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rights {
    /// Only below all others.
    None,
    /// By nice values. A control group may have no time for `SCHED_FIFO` (`CONFIG_RT_GROUP_SCHED`),
    /// whatever its processes may otherwise do.
    Nice,
    /// By all classes.
    Fifo,
}

impl Rights {
    /// This process's.
    pub(super) fn find() -> Rights {
        match () {
            () if Class::Fifo(1).is_allowed() => Rights::Fifo,
            () if Class::Other(-20).is_allowed() => Rights::Nice,
            () => Rights::None,
        }
    }
}

/// Raises or lowers what a process may ask for by itself.
///
/// # Errors
///
/// `EPERM`: that takes `CAP_SYS_RESOURCE`. `ESRCH`: there is no such process.
pub(super) fn allow(pid: i32, class: Option<Class>) -> io::Result<()> {
    let (realtime, nice) = match class {
        Some(Class::Fifo(priority)) => (priority.into(), 0),
        Some(Class::Other(nice)) => (0, (20 - i64::from(nice)) as u64),
        _ => (0, 0),
    };
    for (resource, most) in [(libc::RLIMIT_RTPRIO, realtime), (libc::RLIMIT_NICE, nice)] {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: `limit` lives across the call; the old value is not asked for.
        if unsafe { libc::prlimit(pid, resource, &limit, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The classes that threads of one application were put into.
#[derive(Debug, Default)]
pub(super) struct Ranked(HashMap<i32, Class>);

impl Ranked {
    /// Puts all `threads` into `class`, as far as they are not there already. Programs that they
    /// start have no turns. The first error that is not the end of a thread.
    pub(super) fn put(&mut self, threads: &[i32], class: Class) -> io::Result<()> {
        self.0.retain(|tid, _| threads.contains(tid));
        let mut result = Ok(());
        for &tid in threads {
            if self.0.get(&tid) == Some(&class) {
                continue;
            }
            match class.set_alone(tid) {
                Ok(()) => drop(self.0.insert(tid, class)),
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                Err(e) => result = result.and(Err(e)),
            }
        }
        result
    }

    /// Whether a thread is above where it was put.
    pub(super) fn any_has_risen(&self) -> bool {
        self.0.iter().any(|(&tid, &given)| Class::of(tid).is_ok_and(|class| class > given))
    }

    /// Forgets what was done: threads may have changed their classes themselves.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_in_order_in_every_binding() {
        for binding in [Binding::Fifo, Binding::Mixed, Binding::Nice, Binding::Idle] {
            let class = |rank| binding.class(rank);
            assert!(class(Rank::Critical) > class(Rank::Turn), "{binding:?}");
            assert!(class(Rank::Critical) > class(Rank::PlainTurn), "{binding:?}");
            assert!(class(Rank::Turn) >= class(Rank::Last), "{binding:?}");
            assert_eq!(class(Rank::Turn) > class(Rank::Last), binding.has_turns());
            assert_eq!(class(Rank::PlainTurn) > class(Rank::Last), binding.has_turns());
        }
        let fifo = |rank| Binding::Fifo.class(rank);
        assert!(ABOVE > fifo(Rank::Critical) && fifo(Rank::Critical) > BETWEEN);
        assert!(BETWEEN > fifo(Rank::Turn));
    }

    /// A process without rights may do what it was allowed, until it is not any more.
    #[test]
    fn what_is_allowed_needs_no_rights() {
        use std::os::unix::process::CommandExt;
        let tried = |allowed: Option<Class>, wanted: Class| {
            let mut command = std::process::Command::new("true");
            // SAFETY: between fork and exec the child makes a few system calls only.
            unsafe {
                command.pre_exec(move || {
                    allow(0, allowed)?;
                    if libc::setuid(65_534) != 0 {
                        return Err(io::Error::last_os_error());
                    }
                    wanted.set(0)
                })
            };
            command.status()
        };
        let (raised, usual) = (Class::Other(-20), Class::Other(0));
        if tried(Some(raised), usual).is_err() {
            return eprintln!("skipped: it takes CAP_SYS_RESOURCE, and root");
        }
        assert!(tried(Some(raised), raised).is_ok());
        assert!(tried(Some(usual), raised).is_err() && tried(None, raised).is_err());
    }

    #[test]
    fn nothing_is_chosen_that_would_starve_other_programs() {
        let both = [true, false];
        assert_eq!(Binding::choose(Rights::Fifo, true, false), Binding::Fifo);
        assert_eq!(Binding::choose(Rights::Fifo, false, false), Binding::Mixed);
        for rights in [Rights::None, Rights::Nice, Rights::Fifo] {
            for (cpus, throttles) in both.map(|cpus| both.map(|it| (cpus, it))).concat() {
                let binding = Binding::choose(rights, cpus, throttles);
                assert!(binding.needs() <= rights, "{binding:?} takes more than {rights:?}");
                let nice = rights == Rights::Nice || rights == Rights::Fifo && throttles;
                assert_eq!(binding == Binding::Nice, nice);
            }
        }
    }
}
