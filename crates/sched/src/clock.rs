//! What a clock decides: when must a worker be interrupted, and when may the clock's thread sleep?
//!
//! The answers follow from [`Policy::preempt_at`] alone, so they are the same for every mechanism
//! that interrupts (a signal, a timer, a simulated event) and for every host. A host asks:
//!
//! * [`due`], whenever something has become runnable that no idle worker takes: if the answer lies
//!   in the past, the worker is interrupted at once, by whoever brought the work; if not, a timer
//!   is set for then, or the clock's thread told.
//! * [`Watch`], where one thread keeps time for all workers: it looks at each, interrupts those
//!   that are due, and learns how it may sleep.
//!
//! ```
//! use quaver_sched::clock::{Nap, Watch, due, quantum};
//! use quaver_sched::{Class, Place, Policy, Running, Spec, Task, Why};
//!
//! let spec: Spec = "rr:quantum=100us".parse().unwrap();
//! let policy = spec.build(1, 8, |span| span.as_nanos() as u64);
//! let running = Running { task: Task(0), since: 5_000, class: Class::Fresh };
//! let mut watch = Watch::new(100_000, 500);
//!
//! // Nothing waits: the thread looks again when the quantum is over.
//! let mut look = watch.look(10_000);
//! let at = due(&*policy, 0, &running, None, 0);
//! assert!(!look.worker(10_000, at, quantum(&*policy, 0, &running)));
//! assert_eq!(watch.plan(&look, 10_000), Nap::Until(105_000));
//!
//! // Something does, and the quantum is over.
//! policy.task_enqueue(Place::Shared, Task(1), Why::New, 20_000);
//! let mut look = watch.look(105_000);
//! let at = due(&*policy, 0, &running, None, 0);
//! assert!(look.worker(105_000, at, quantum(&*policy, 0, &running)), "interrupt it");
//! ```

use crate::{Policy, Running, Time};

/// Looks one after the other that find nothing waiting, before a clock's thread sleeps until it is
/// woken. Waking it costs a worker a system call, so a little restlessness pays.
pub const LINGER: u32 = 8;
/// Looks in a quantum, at the most, for the sake of threads beside which nothing waits.
pub const RESTLESS: Time = 4;

/// When `worker` must be interrupted, as things are: what the policy says, but not before
/// `not_before`, which is the host's (an earlier request was put off, or interruptions have cost
/// too much). `None`: not before something changes.
pub fn due(
    policy: &dyn Policy,
    worker: usize,
    running: &Running,
    next_timer: Option<Time>,
    not_before: Time,
) -> Option<Time> {
    policy.preempt_at(worker, running, next_timer).map(|at| at.max(not_before))
}

/// The quantum of a running task, as the policy gives it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantum {
    /// When it ends.
    pub ends: Time,
    /// How long it is.
    pub length: Time,
}

/// The quantum that `running` would have if something waited since its dispatch. `None`: it is
/// never stopped.
///
/// Asked as a question about a timer that expired at the dispatch: what it wakes counts as waiting
/// from then on.
pub fn quantum(policy: &dyn Policy, worker: usize, running: &Running) -> Option<Quantum> {
    let ends = policy.preempt_at(worker, running, Some(running.since))?;
    Some(Quantum { ends, length: ends.saturating_sub(running.since) })
}

/// How long a clock's thread may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nap {
    /// Until then. Work that comes meanwhile need not wake it, unless it is due before that by more
    /// than [`Watch::slack`].
    Until(Time),
    /// Until it is woken: work is rare. Who makes work that is due before the time given, if there
    /// is one, wakes it. A host whose threads run in parallel announces this sleep, then looks once
    /// more ([`Watch::look`], [`Look::due`]): what came before the announcement has told nobody.
    Long(Option<Time>),
}

/// What a clock's thread remembers between its looks.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The shortest quantum at the last look that saw one.
    quantum: Time,
    /// What is due within this time is not worth another wake-up.
    slop: Time,
    /// Looks since something waited.
    quiet: u32,
}

impl Watch {
    /// A watch that knows no better `quantum` yet.
    pub fn new(quantum: Time, slop: Time) -> Watch {
        Watch { quantum, slop, quiet: 0 }
    }

    /// Begin to look at the workers, at `now`. Each is shown to [`Look::worker`];
    /// [`plan`](Watch::plan) ends the look.
    pub fn look(&self, now: Time) -> Look {
        Look {
            began: now,
            slop: self.slop,
            due: None,
            used_up: Time::MAX,
            quantum: Time::MAX,
            next: self.quantum,
        }
    }

    /// All workers have been shown to `look`; how long to sleep from `now` on.
    pub fn plan(&mut self, look: &Look, now: Time) -> Nap {
        if look.quantum != Time::MAX {
            self.quantum = look.quantum;
        }
        self.quiet = if look.due.is_some() { 0 } else { self.quiet.saturating_add(1) };
        match look.due {
            Some(due) if due > self.soon(look).saturating_add(self.slop) => Nap::Long(Some(due)),
            None if self.quiet >= LINGER => Nap::Long(None),
            due => {
                // Threads whose quanta end one after the other are not looked at one by one: that
                // would be a wake-up for each.
                let restless = look.began.saturating_add(self.slack());
                let used_up = look.used_up.max(restless).min(self.soon(look));
                Nap::Until(due.map_or(used_up, |due| due.min(used_up)).max(now))
            }
        }
    }

    /// How much earlier something may be due than the end of a [`Nap::Until`] without the thread
    /// being woken for it: as long as it does not look for the sake of one thread among many.
    pub fn slack(&self) -> Time {
        self.quantum / RESTLESS
    }

    fn soon(&self, look: &Look) -> Time {
        look.began.saturating_add(self.quantum)
    }
}

/// One look at all workers.
#[derive(Clone, Debug)]
pub struct Look {
    began: Time,
    slop: Time,
    /// When the next request will be due, as things are.
    due: Option<Time>,
    /// When the first of the threads beside which nothing waits will have had its quantum. Work
    /// that comes before that tells nobody while the clock's thread is in a short sleep, so it has
    /// to look then.
    used_up: Time,
    /// The shortest quantum seen.
    quantum: Time,
    /// The quantum of a thread of which nothing is known yet.
    next: Time,
}

impl Look {
    /// What to do about a worker that runs something, given its [`due`] and its [`quantum`] at
    /// `now`. `true`: interrupt it now. Workers that run nothing are left out.
    #[must_use = "the worker must be interrupted if the answer is yes"]
    pub fn worker(&mut self, now: Time, due: Option<Time>, quantum: Option<Quantum>) -> bool {
        if let Some(q) = quantum.filter(|q| q.length > 0) {
            self.quantum = self.quantum.min(q.length);
        }
        let Some(at) = due else {
            if let Some(q) = quantum.filter(|q| q.ends > now) {
                self.used_up = self.used_up.min(q.ends);
            }
            return false;
        };
        let interrupt = at <= now.saturating_add(self.slop);
        // The successor may use its quantum from now on.
        let length = quantum.map_or(self.next, |q| q.length);
        let next = if interrupt { now.saturating_add(length) } else { at };
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
        interrupt
    }

    /// When something will be due, as things are.
    pub fn due(&self) -> Option<Time> {
        self.due
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Class, Place, Spec, Task, Why};
    use alloc::boxed::Box;

    fn policy(text: &str) -> Box<dyn Policy> {
        text.parse::<Spec>().unwrap().build(2, 8, |span| span.as_micros() as Time)
    }

    fn running(since: Time) -> Running {
        Running { task: Task(0), since, class: Class::Fresh }
    }

    fn watch() -> Watch {
        Watch::new(100, 1)
    }

    fn ends(at: Time) -> Option<Quantum> {
        Some(Quantum { ends: at, length: 100 })
    }

    #[test]
    fn every_policy_with_a_quantum_tells_it_although_nothing_waits() {
        for &(name, _) in Spec::names() {
            let policy = policy(name);
            let spec = name.parse::<Spec>().unwrap();
            let span = spec.quantum().map(|q| q.as_micros() as Time);
            let found = quantum(&*policy, 0, &running(1_000));
            assert_eq!(found.is_some(), span.is_some(), "{name}");
            let least = found.map(|q| (q.length, q.ends - 1_000));
            assert!(least.is_none_or(|(a, b)| a == b && Some(a) >= span), "{name}: {found:?}");
            assert_eq!(policy.preempt_at(0, &running(1_000), None), None, "{name}");
        }
    }

    #[test]
    fn a_quantum_that_changes_is_asked_for_anew() {
        let two = policy("two-queue:quantum=10us,long=50us,max-age=none");
        let mut watch = watch();
        let mut look = watch.look(1_000);
        assert!(!look.worker(1_000, None, quantum(&*two, 0, &running(1_000))));
        assert_eq!(watch.plan(&look, 1_000), Nap::Until(1_010));
        assert_eq!(watch.slack(), 2);
    }

    #[test]
    fn nothing_is_due_before_the_host_allows_it() {
        let rr = policy("rr:quantum=10us");
        assert_eq!(due(&*rr, 0, &running(0), None, 0), None);
        rr.task_enqueue(Place::Shared, Task(1), Why::New, 0);
        assert_eq!(due(&*rr, 0, &running(0), None, 0), Some(10));
        assert_eq!(due(&*rr, 0, &running(0), None, 70), Some(70));
    }

    #[test]
    fn what_is_due_is_interrupted_and_its_successor_looked_at_a_quantum_later() {
        let mut watch = watch();
        let mut look = watch.look(1_000);
        assert!(look.worker(1_000, Some(900), ends(900)));
        assert!(look.worker(1_000, Some(1_001), ends(1_001)), "within the slop");
        assert!(!look.worker(1_000, Some(1_002), ends(1_002)));
        assert_eq!(watch.plan(&look, 1_000), Nap::Until(1_002));
    }

    #[test]
    fn a_nap_ends_when_a_running_thread_has_had_its_quantum() {
        let nap = |due: Option<Time>, used_up: Time| {
            let mut look = watch().look(1_000);
            let alone = look.worker(1_000, None, ends(used_up));
            assert!(!alone && (due.is_none() || !look.worker(1_000, due, None)));
            watch().plan(&look, 1_000)
        };
        assert_eq!(nap(None, 1_060), Nap::Until(1_060));
        assert_eq!(nap(Some(1_040), 1_060), Nap::Until(1_040));
        assert_eq!(nap(Some(1_080), 1_060), Nap::Until(1_060));
        // One of many workers' threads, whose quanta end one after the other.
        assert_eq!(nap(None, 1_001), Nap::Until(1_025));
        assert_eq!(nap(Some(1_010), 1_001), Nap::Until(1_010));
        // It has had its quantum: who brings work interrupts it.
        assert_eq!(nap(None, 900), Nap::Until(1_100));
    }

    #[test]
    fn a_thread_that_sees_nothing_sleeps_long() {
        let mut watch = watch();
        for at in 1..LINGER {
            let look = watch.look(Time::from(at));
            assert!(matches!(watch.plan(&look, Time::from(at)), Nap::Until(_)));
        }
        let look = watch.look(1_000);
        assert_eq!(watch.plan(&look, 1_000), Nap::Long(None));
        // Something waits that is due much later, because it cannot be paid for yet.
        let mut look = watch.look(2_000);
        assert!(!look.worker(2_000, Some(9_000), ends(2_050)));
        assert_eq!(watch.plan(&look, 2_000), Nap::Long(Some(9_000)));
        // And after that the thread lingers again.
        let look = watch.look(3_000);
        assert!(matches!(watch.plan(&look, 3_000), Nap::Until(_)));
    }
}
