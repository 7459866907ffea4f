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
    /// kernel throttles `SCHED_FIFO`.
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
    pub(super) fn choose(may_rank: bool, others_have_cpus: bool, throttles: bool) -> Binding {
        match (may_rank, others_have_cpus) {
            (true, _) if throttles => Binding::Nice,
            (true, true) => Binding::Fifo,
            (true, false) => Binding::Mixed,
            (false, _) => Binding::Idle,
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

/// Whether this process may rank threads: tried with a thread of its own.
pub(super) fn may_rank() -> bool {
    let tried = std::thread::spawn(|| Class::Fifo(1).set(0).is_ok());
    tried.join().unwrap_or(false)
}

/// Raises or lowers what a process may ask for by itself. Nothing happens without the right to.
pub(super) fn allow(pid: i32, class: Option<Class>) {
    let most = match class {
        Some(Class::Fifo(priority)) => priority.into(),
        _ => 0,
    };
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `limit` lives across the call; the old value is not asked for.
    unsafe { libc::prlimit(pid, libc::RLIMIT_RTPRIO, &limit, std::ptr::null_mut()) };
}

/// The classes that threads of one application were put into.
#[derive(Debug, Default)]
pub(super) struct Ranked(HashMap<i32, Class>);

impl Ranked {
    /// Puts all `threads` into `class`, as far as they are not there already. The first error that
    /// is not the end of a thread.
    pub(super) fn put(&mut self, threads: &[i32], class: Class) -> io::Result<()> {
        self.0.retain(|tid, _| threads.contains(tid));
        let mut result = Ok(());
        for &tid in threads {
            if self.0.get(&tid) == Some(&class) {
                continue;
            }
            match class.set(tid) {
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

    #[test]
    fn nothing_is_chosen_that_would_starve_other_programs() {
        assert_eq!(Binding::choose(true, true, false), Binding::Fifo);
        assert_eq!(Binding::choose(true, false, false), Binding::Mixed);
        assert_eq!([true, false].map(|cpus| Binding::choose(true, cpus, true)), [Binding::Nice; 2]);
        assert_eq!([true, false].map(|it| Binding::choose(false, true, it)), [Binding::Idle; 2]);
    }
}
