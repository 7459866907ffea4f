//! Shinjuku's queue with Shenango's core allocation: latency-critical (LC) beside best-effort (BE)
//! work.
//!
//! * One queue of LC tasks, served as by `shinjuku`: oldest first, preempted ones to the tail, a
//!   quantum.
//! * One queue of BE tasks. A worker takes from it only when no LC task waits: the core is *lent*.
//! * *Congestion.* Where all cores are lent, one is taken back as soon as an LC task waits. When
//!   the oldest has waited for longer than `delay`, lent cores are taken back at once: their BE
//!   tasks are stopped wherever they are in their quantum. Not more of them than LC tasks wait:
//!   the lent cores are counted in the order of their numbers (Skyloft section 5.2; Shenango's rule
//!   is the queueing delay of 5 us).
//! * Among themselves BE tasks take turns by a quantum of their own, `be`, which is long.
//!
//! With [`central`](Policy::central) a host may use a dispatcher, as for `shinjuku`.

use crate::{
    AttributeTable, Attributes, Class, Pick, Place, Policy, Running, Service, Task, Time, Why,
    policies::stop_at,
    queue::{Links, List},
    share::{Cores, take_at},
    sync::{AtomicBool, AtomicU64, CachePadded, Ordering::Relaxed},
    table::{self, Table},
};

/// The times of [`ShinjukuShenango`], in the host's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShenangoTimes {
    /// How long an LC task may run while others wait; `None`: LC tasks are not preempted.
    pub quantum: Option<Time>,
    /// How long an LC task may wait before cores are taken back.
    pub delay: Time,
    /// How long a BE task may run while other BE tasks wait.
    pub be_quantum: Time,
}

/// Policy `shinjuku-shenango`: LC tasks first, idle cores lent to BE tasks.
#[derive(Debug)]
pub struct ShinjukuShenango {
    times: ShenangoTimes,
    links: Links,
    attributes: AttributeTable,
    critical: List,
    best_effort: List,
    /// When each LC task was enqueued; valid while it waits.
    enqueued_at: Table<AtomicU64>,
    /// Which workers run BE tasks.
    lent: Table<CachePadded<AtomicBool>>,
}

impl ShinjukuShenango {
    /// For `workers` workers and the tasks `0..max_tasks`.
    ///
    /// # Panics
    ///
    /// As [`Links::new`].
    pub fn new(workers: usize, max_tasks: u32, times: ShenangoTimes) -> Self {
        ShinjukuShenango {
            times,
            links: Links::new(max_tasks),
            attributes: AttributeTable::new(max_tasks),
            critical: List::new(),
            best_effort: List::new(),
            enqueued_at: table::zeroed_u64(max_tasks),
            lent: Table::of(workers, |_| CachePadded(AtomicBool::new(false))),
        }
    }

    fn is_best_effort(&self, task: Task) -> bool {
        self.attributes.service(task) == Service::BestEffort
    }

    /// When `worker`, which runs a BE task, must give its core back to the LC tasks that wait now.
    fn take_back_at(&self, worker: usize) -> Option<Time> {
        let oldest = self.critical.peek()?;
        let lent = |workers: &[CachePadded<AtomicBool>]| {
            workers.iter().filter(|lent| lent.load(Relaxed)).count()
        };
        // Those before this one are taken first.
        let cores = Cores {
            held: self.lent.len() - lent(&self.lent),
            coming: lent(&self.lent[..worker]),
            waiting: self.critical.len(),
            oldest: self.enqueued_at[oldest.0 as usize].load(Relaxed),
        };
        take_at(&cores, self.times.delay)
    }
}

impl Policy for ShinjukuShenango {
    fn name(&self) -> &'static str {
        "shinjuku-shenango"
    }

    fn task_init(&self, task: Task, attributes: &Attributes, _now: Time) {
        self.attributes.set(task, attributes);
    }

    fn task_enqueue(&self, _place: Place, task: Task, _why: Why, now: Time) {
        if self.is_best_effort(task) {
            self.best_effort.push(&self.links, task);
        } else {
            self.enqueued_at[task.0 as usize].store(now, Relaxed);
            self.critical.push(&self.links, task);
        }
    }

    fn task_dequeue(&self, worker: usize, _now: Time) -> Option<Pick> {
        let critical = self.critical.pop(&self.links);
        let task = critical.or_else(|| self.best_effort.pop(&self.links));
        self.lent[worker].store(critical.is_none() && task.is_some(), Relaxed);
        Some(Pick { task: task?, class: Class::Fresh })
    }

    fn central(&self) -> bool {
        true
    }

    fn balance(&self, _worker: usize, _now: Time) -> Option<Pick> {
        None
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        if !self.is_best_effort(running.task) {
            return stop_at(running, self.times.quantum?, !self.critical.is_empty(), timer);
        }
        let others_wait = !self.best_effort.is_empty();
        let for_others = stop_at(running, self.times.be_quantum, others_wait, None);
        let for_critical = self.take_back_at(worker);
        // It may wake an LC task.
        let for_timer = timer.map(|timer| timer.saturating_add(self.times.delay));
        [for_others, for_critical, for_timer].into_iter().flatten().min()
    }

    fn has_work(&self, _worker: usize) -> bool {
        !self.critical.is_empty() || !self.best_effort.is_empty()
    }

    fn waiting(&self) -> usize {
        self.critical.len() + self.best_effort.len()
    }
}
