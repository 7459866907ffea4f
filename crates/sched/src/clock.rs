//! What a clock decides: when must a worker be interrupted, and when may the clock's thread sleep?
//!
//! The answers follow from [`Policy::preempt_at`] alone, so they are the same for every mechanism
//! that interrupts (a signal, a timer, a simulated event) and for every host. A host asks:
//!
//! * [`due`], whenever something has become runnable that no idle worker takes: if the answer lies
//!   in the past, the worker is interrupted at once, by whoever brought the work; if not, a timer
//!   is set for then, or the clock's thread told.
//! * [`is_due`], where it compares the time with that answer itself.
//! * [`Watch`], where one thread keeps time for all workers: it looks at each, interrupts those
//!   that are due, and learns how it may sleep.
//! * [`Alarm`], where each worker has a timer of its own: must it be set, and for when?
//! * [`Pace`]: how much later a look may be while no task outlives its quantum.
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

mod pace;

pub use pace::Pace;

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

/// Must a worker for which [`due`] has said `at` be interrupted at `now`? What is due within `slop`
/// counts.
#[inline]
pub fn is_due(at: Time, now: Time, slop: Time) -> bool {
    at <= now.saturating_add(slop)
}

/// The quantum of a running task, as the policy gives it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantum {
    /// When it ends.
    pub ends: Time,
    /// How long it is.
    pub length: Time,
}

impl Quantum {
    /// The same, which ends later by `more`: its end is told otherwise, and the clock looks only
    /// whether it has been heeded.
    #[must_use]
    pub fn longer_by(self, more: Time) -> Quantum {
        let Quantum { ends, length } = self;
        Quantum { ends: ends.saturating_add(more), length: length.saturating_add(more) }
    }
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
    pace: Option<Pace>,
    /// How much later looks are, and when a task has outlived its quantum last.
    later: Time,
    long_at: Time,
}

impl Watch {
    /// A watch that knows no better `quantum` yet.
    pub fn new(quantum: Time, slop: Time) -> Watch {
        Watch { quantum, slop, quiet: 0, pace: None, later: 0, long_at: 0 }
    }

    /// The same, whose looks become rarer while they are in vain.
    pub fn paced(self, pace: Pace) -> Watch {
        Watch { pace: Some(pace), ..self }
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
            long: false,
            long_at: self.long_at,
        }
    }

    /// All workers have been shown to `look`; how long to sleep from `now` on.
    pub fn plan(&mut self, look: &Look, now: Time) -> Nap {
        if look.quantum != Time::MAX {
            self.quantum = look.quantum;
        }
        self.quiet = if look.due.is_some() { 0 } else { self.quiet.saturating_add(1) };
        if look.long {
            (self.later, self.long_at) = (0, look.began);
        } else if let Some(pace) = &self.pace {
            self.later = pace.in_vain(self.later, self.long_at, look.began);
        }
        match look.due {
            Some(due) if due > self.soon(look).saturating_add(self.slop) => Nap::Long(Some(due)),
            None if self.quiet >= LINGER => Nap::Long(None),
            due => {
                // Threads whose quanta end one after the other are not looked at one by one: that
                // would be a wake-up for each.
                let restless = look.began.saturating_add(self.restless());
                let used_up = look.used_up.max(restless).min(self.soon(look));
                let until = due.map_or(used_up, |due| due.min(used_up)).max(now);
                Nap::Until(until.saturating_add(self.later))
            }
        }
    }

    /// How much earlier something may be due than the end of a [`Nap::Until`] without the thread
    /// being woken for it: as long as it does not look for the sake of one thread among many.
    pub fn slack(&self) -> Time {
        self.restless().saturating_add(self.later)
    }

    /// How much later looks are than at the end of a quantum.
    pub fn later(&self) -> Time {
        self.later
    }

    fn restless(&self) -> Time {
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
    /// A task has outlived its quantum; when one did before this look.
    long: bool,
    long_at: Time,
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
        let interrupt = is_due(at, now, self.slop);
        // The successor may use its quantum from now on.
        let length = quantum.map_or(self.next, |q| q.length);
        let next = if interrupt { now.saturating_add(length) } else { at };
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
        interrupt
    }

    /// Something else is to be looked at, at `at`.
    pub fn again(&mut self, at: Time) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When something will be due, as things are.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// When a task that [had outlived](Pace::is_long) its quantum has stopped last.
    pub fn stopped_long(&mut self, at: Time) {
        self.long |= at > self.long_at;
    }
}

/// A worker's own timer, which is set for one time and only while something waits.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    quantum: Time,
    least: Time,
}

impl Alarm {
    /// For threads that the policy lets run for `quantum` at least; setting the timer takes `cost`.
    ///
    /// Time runs from the dispatch on, and while the timer is being set. Where that takes most of a
    /// quantum, a thread would be stopped before it has done anything, again and again. So it is
    /// left half a quantum.
    pub fn new(quantum: Time, cost: Time) -> Alarm {
        let least = if cost <= quantum / 2 { 0 } else { cost + quantum / 2 };
        Alarm { quantum, least }
    }

    /// Before that [`due`] cannot be for a thread that has just been dispatched, at `since`: so if
    /// the timer serves this, a host need not ask the policy at each dispatch.
    #[inline]
    pub fn earliest(&self, since: Time, not_before: Time) -> Time {
        since.saturating_add(self.quantum).max(not_before)
    }

    /// Must a timer that is set for `armed` be set anew at `now`, for what is due at `due`? If it
    /// is set for later (or off: [`Time::MAX`]), or has been overdue for `lost_after`.
    #[inline]
    pub fn misses(armed: Time, due: Time, now: Time, lost_after: Time) -> bool {
        armed > due || armed.saturating_add(lost_after) <= now
    }

    /// For when to set it at `now`.
    pub fn at(&self, due: Time, now: Time) -> Time {
        due.max(now.saturating_add(self.least))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Attributes, Class, Place, Spec, Task, Why};
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
    fn what_was_told_is_looked_at_again_when_it_may_be_late() {
        let mut watch = watch();
        let mut look = watch.look(1_000);
        assert!(look.worker(1_000, Some(900), ends(900)));
        assert_eq!(look.due(), Some(1_100), "the successor's");
        look.again(1_040);
        look.again(1_090);
        assert_eq!(look.due(), Some(1_040));
        assert_eq!(watch.plan(&look, 1_000), Nap::Until(1_040));
    }

    #[test]
    fn a_task_that_is_granted_a_quantum_is_never_due_before_its_end() {
        let mut granting = 0;
        for &(name, _) in Spec::names() {
            let policy = policy(name);
            for task in 0..6 {
                let attributes = Attributes { priority: task as u8, ..Attributes::default() };
                policy.task_init(Task(task), &attributes, 0);
            }
            let Some(alone) = quantum(&*policy, 0, &running(1_000)) else { continue };
            let arrivals = [
                (Place::Local(0), Why::New),
                (Place::Shared, Why::New),
                (Place::Local(0), Why::Preempted),
                (Place::Local(1), Why::Woken),
                (Place::Local(1), Why::Woken),
            ];
            for (task, (place, why)) in (1..).zip(arrivals) {
                policy.task_enqueue(place, Task(task), why, 500);
                for class in [Class::Fresh, Class::Preempted] {
                    let running = Running { class, ..running(1_000) };
                    for timer in [None, Some(900), Some(1_001)] {
                        let at = policy.preempt_at(0, &running, timer);
                        let early = at.is_some_and(|at| at < 1_000 + alone.length);
                        assert!(!policy.grants_quantum() || !early, "{name}, {why:?}: {at:?}");
                    }
                }
            }
            granting += usize::from(policy.grants_quantum());
        }
        assert!(granting >= 4, "{granting}");
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
    fn looks_become_rarer_while_nothing_outlives_its_quantum() {
        let unit = |span: core::time::Duration| span.as_micros() as Time;
        let mut watch = watch().paced(Pace::new(100, 25, unit));
        let mut now = 20_000;
        // Something waits at each look, behind a thread that has just begun.
        let mut look_at = |now: Time, long_at: Time| {
            let mut look = watch.look(now);
            look.stopped_long(long_at);
            assert!(!look.worker(now, Some(now + 95), ends(now + 95)));
            match watch.plan(&look, now) {
                Nap::Until(at) => at - now,
                nap => panic!("{nap:?}"),
            }
        };
        for later in [100, 300, 400, 400] {
            assert_eq!(look_at(now, 0), 95 + later);
            now += 1_000;
        }
        // A thread has outlived its quantum: on time, for 10 ms.
        let long_at = now - 1;
        for _ in 0..10 {
            assert_eq!(look_at(now, long_at), 95);
            now += 1_000;
        }
        assert_eq!(look_at(now, long_at), 195);
    }

    #[test]
    fn an_alarm_leaves_a_thread_half_of_its_quantum() {
        let at = |cost| Alarm::new(10, cost).at(0, 0);
        assert_eq!([0, 1, 4, 5].map(at), [0; 4]);
        assert_eq!([6, 10, 70].map(at), [11, 15, 75]);
        assert_eq!(Alarm::new(10, 6).at(130, 100), 130);
    }

    #[test]
    fn an_alarm_is_set_anew_only_if_it_is_late_off_or_lost() {
        assert!(!Alarm::misses(500, 500, 400, 100) && !Alarm::misses(400, 500, 499, 100));
        assert!(Alarm::misses(501, 500, 400, 100), "late");
        assert!(Alarm::misses(Time::MAX, 500, 400, 100), "off");
        assert!(Alarm::misses(400, 500, 500, 100), "lost");
    }

    /// So a timer that serves the earliest time serves whatever the policy says later.
    #[test]
    fn no_policy_stops_a_thread_before_the_earliest_time() {
        for &(name, _) in Spec::names() {
            let policy = policy(name);
            let Some(span) = name.parse::<Spec>().unwrap().quantum() else { continue };
            let alarm = Alarm::new(span.as_micros() as Time, 0);
            policy.task_init(Task(1), &Attributes::default(), 1_000);
            policy.task_enqueue(Place::Local(0), Task(1), Why::New, 1_000);
            let at = due(&*policy, 0, &running(1_000), None, 0).unwrap();
            assert!(at >= alarm.earliest(1_000, 0), "{name}: {at}");
            assert_eq!(alarm.earliest(1_000, 9_000), 9_000);
        }
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
