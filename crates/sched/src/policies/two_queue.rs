//! Aspen's two queues: new work before preempted work.
//!
//! * Each worker has a queue of *new* tasks (created, woken, yielded) and one of *preempted* tasks;
//!   a shared queue takes new tasks from elsewhere (Aspen section 3.2).
//! * Order of dispatch: own new, shared new, new of *any* other worker; then own preempted, then
//!   others' preempted. At every 31st dispatch the shared queue comes first, and when a running
//!   task yields it gives way to shared work (`turns`). New work anywhere comes first, because a
//!   short request may be among it (section 3.1.4).
//! * Tasks that yield give way to preempted work too: as soon as they have yielded more often than
//!   new tasks wait, the oldest preempted task is dispatched for a quantum. So a task that yields
//!   until another has done its work waits for quanta, not for the maximal age.
//! * As policy `aspen` in the order of Aspen's code: own new, shared new, own preempted; then one
//!   victim after the other, its preempted before its new work. There a new request is a packet,
//!   which a thief takes from a victim without threads only.
//! * A fresh task stops when it has used the quantum and anything waits here. A preempted task
//!   stops after the quantum if new work waits, and after the long quantum if only preempted work
//!   waits here.
//! * A preempted task that stops for new work goes on after it, before other preempted work, until
//!   it has run for a long quantum in all; then it goes to the tail (`resumed`). As policy `aspen`
//!   it goes to the tail at once.
//! * *Age.* Preempted work could wait for ever behind a stream of new work (Aspen's footnote 3
//!   leaves it to a load balancer). So if the oldest of a worker's preempted tasks has waited for
//!   longer than the maximal age, it is dispatched before new work, for a quantum. Then new work
//!   has nine times as long: where there is more work than can be done all preempted work is old,
//!   and short requests would wait for it in turn. So a preempted task with `p` older ones before
//!   it in its queue is dispatched at the latest `11 (p + 1)` quanta after it came of age: one for
//!   an old task, nine for new work, and one for the new task that is running then.
//! * *History* (`history`), if wanted: who ran for long is queued with preempted work when woken.
//! * From time to time a worker evens out its preempted work with the worker that has most
//!   (`looks`).
//!
//! A task's class is [`Class::Preempted`] from its preemption, or from waking with a long history,
//! until it blocks, yields or ends.
//! Other workers' queues do not count for preemption, for the reason that `ws` gives: their own
//! workers stop within a quantum.

use crate::{
    Class, Pick, Place, Policy, Running, Task, Time, Why,
    policies::{history::History, looks::Looks, resumed::Resumed, stop_at, turns::Turns},
    queue::{Links, List, WorkerQueues},
    sync::{AtomicBool, AtomicU32, AtomicU64, CachePadded, Ordering::Relaxed},
    table::{self, Table},
};

/// The times of [`TwoQueue`], in the host's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoQueueTimes {
    /// How long a task may run while new work waits, and a fresh one while anything waits. `None`:
    /// never preempt.
    pub quantum: Option<Time>,
    /// How long a preempted task may run while only preempted work waits; at least the quantum is
    /// taken.
    pub long_quantum: Time,
    /// After waiting for longer than this, preempted work takes turns with new work. `None`: never.
    pub max_age: Option<Time>,
    /// A task that has run for longer than this between two waits is queued with preempted work
    /// when it wakes. `None`: all that wake are new work.
    pub history: Option<Time>,
}

/// Policies `two-queue` and `aspen`: new before preempted work, with bounded age.
#[derive(Debug)]
pub struct TwoQueue {
    /// [`NEVER`] for no quantum. Relaxed: who sees the old one a little longer does no harm.
    quantum: AtomicU64,
    long_quantum: AtomicU64,
    max_age: Option<Time>,
    links: Links,
    shared: List,
    new: WorkerQueues,
    preempted: Resumed,
    history: Option<History>,
    /// When each task was last queued as preempted; valid while it is in a preempted queue.
    preempted_at: Table<AtomicU64>,
    workers: Table<CachePadded<Worker>>,
    looks: Looks,
    /// There is one worker, which looks at nobody.
    alone: bool,
    /// Stealing comes last, and preempted work is stolen first.
    own_first: bool,
}

/// As a quantum: none.
const NEVER: Time = Time::MAX;

/// How much time new work has for each that old work has had.
const NEW_FOR_OLD: Time = 9;

/// Whose turn it is on one worker. Written by that worker alone.
#[derive(Debug)]
struct Worker {
    /// Among its own new work and that of the shared queue.
    turns: Turns,
    /// Preempted work may wait here, or `out_of_turn` is set. What is not: new work is all there
    /// is, and dispatched without looking any further.
    has_more: AtomicBool,
    /// The last dispatch went to preempted work though new work waited.
    out_of_turn: AtomicBool,
    /// When that was, because it is old; or [`NEVER`].
    old_began: AtomicU64,
    /// Until when new work comes before old.
    new_until: AtomicU64,
    /// How often a task has yielded while preempted work waited, since such work was dispatched
    /// out of turn.
    yields: AtomicU32,
    /// The number plus one of the preempted task whose turn it is, when it was dispatched last, and
    /// how much of its turn it had used before.
    turn_of: AtomicU32,
    began: AtomicU64,
    used: AtomicU64,
}

impl Worker {
    fn new() -> Self {
        Worker {
            turns: Turns::new(),
            has_more: AtomicBool::new(false),
            out_of_turn: AtomicBool::new(false),
            old_began: AtomicU64::new(NEVER),
            new_until: AtomicU64::new(0),
            yields: AtomicU32::new(0),
            turn_of: AtomicU32::new(0),
            began: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    /// A preempted task is dispatched; its turn goes on if it was at the front.
    fn resume(&self, task: Task, at_front: bool, now: Time) {
        if !at_front {
            self.used.store(0, Relaxed);
        }
        self.turn_of.store(task.0 + 1, Relaxed);
        self.began.store(now, Relaxed);
    }

    /// A task stops at `now`: is that within its turn, of which it had used more then? A task that
    /// is preempted for the first time has had no turn.
    fn goes_on(&self, task: Task, now: Time, turn: Time) -> bool {
        if self.turn_of.load(Relaxed) != task.0 + 1 {
            return false;
        }
        let ran = now.saturating_sub(self.began.load(Relaxed));
        let used = self.used.load(Relaxed).saturating_add(ran);
        self.used.store(used, Relaxed);
        used < turn
    }
}

impl TwoQueue {
    /// For `workers` workers and the tasks `0..max_tasks`.
    ///
    /// # Panics
    ///
    /// If `workers` is 0, and as [`Links::new`].
    pub fn new(workers: usize, max_tasks: u32, times: TwoQueueTimes) -> Self {
        TwoQueue {
            quantum: AtomicU64::new(times.quantum.unwrap_or(NEVER)),
            long_quantum: AtomicU64::new(times.long_quantum),
            max_age: times.max_age,
            links: Links::new(max_tasks),
            shared: List::new(),
            new: WorkerQueues::new(workers),
            preempted: Resumed::new(workers),
            history: times.history.map(|longer_than| History::new(max_tasks, longer_than)),
            preempted_at: table::zeroed_u64(max_tasks),
            workers: Table::of(workers, |_| CachePadded(Worker::new())),
            looks: Looks::new(workers),
            alone: workers == 1,
            own_first: false,
        }
    }

    /// Steals in the order of Aspen's code.
    #[must_use]
    pub fn own_first(self) -> Self {
        TwoQueue { own_first: true, ..self }
    }

    /// The quantum at this moment.
    pub(super) fn quantum(&self) -> Option<Time> {
        Some(self.quantum.load(Relaxed)).filter(|&quantum| quantum != NEVER)
    }

    /// Other quanta from now on.
    pub(super) fn set_quantum(&self, quantum: Time, long_quantum: Time) {
        self.quantum.store(quantum, Relaxed);
        self.long_quantum.store(long_quantum, Relaxed);
    }

    /// The oldest preempted task of `worker`, if it may come before new work: because it has waited
    /// for too long, or because tasks gave way.
    fn take_out_of_turn(&self, worker: usize, now: Time) -> Option<Task> {
        let state = &self.workers[worker];
        if state.out_of_turn.load(Relaxed) {
            state.out_of_turn.store(false, Relaxed);
            // `NEVER` is later than any time.
            let ran = now.saturating_sub(state.old_began.load(Relaxed));
            let turn = NEW_FOR_OLD.saturating_mul(ran);
            state.new_until.store(now.saturating_add(turn), Relaxed);
            return None;
        }
        if self.preempted.is_empty(worker) {
            return None;
        }
        let gave_way = self.yields_outnumber_new(worker);
        if !gave_way && (self.max_age.is_none() || now < state.new_until.load(Relaxed)) {
            return None;
        }
        let since = |task: Task| self.preempted_at[task.0 as usize].load(Relaxed);
        let oldest = self.preempted.oldest(worker, &self.links, since)?;
        let is_old = self.max_age.is_some_and(|age| now.saturating_sub(oldest.since) > age);
        if !is_old && !gave_way {
            return None;
        }
        // A thief may have taken the one just looked at; then its successor runs a little before
        // its time.
        let task = self.preempted.pop_oldest(worker, &self.links, oldest)?;
        if is_old || oldest.at_front {
            state.resume(task, oldest.at_front, now);
        }
        state.yields.store(0, Relaxed);
        state.out_of_turn.store(true, Relaxed);
        state.old_began.store(if gave_way { NEVER } else { now }, Relaxed);
        Some(task)
    }

    /// Have more tasks yielded since preempted work had its turn than wait here as new ones?
    fn yields_outnumber_new(&self, worker: usize) -> bool {
        let yields = self.workers[worker].yields.load(Relaxed) as usize;
        yields != 0 && yields > self.new.len(worker) + self.shared.len()
    }

    #[inline(always)]
    fn take_new(&self, worker: usize) -> Option<Task> {
        let own = || self.new.pop(worker, &self.links);
        let shared = || self.shared.pop(&self.links);
        self.workers[worker].turns.take(own, shared)
    }

    /// What `worker` is to run next of what it can get at once, where it may have more than new
    /// work.
    #[inline(never)]
    fn choose(&self, worker: usize, now: Time) -> Option<Pick> {
        let state = &self.workers[worker];
        self.take_in(worker);
        let more = state.out_of_turn.load(Relaxed) || !self.preempted.is_empty(worker);
        state.has_more.store(more, Relaxed);
        let fresh = |task| Pick { task, class: Class::Fresh };
        let preempted = |task| Pick { task, class: Class::Preempted };
        if let Some(task) = self.take_out_of_turn(worker, now) {
            return Some(preempted(task));
        }
        if let Some(task) = self.take_new(worker) {
            return Some(fresh(task));
        }
        if self.preempted.is_empty(worker) {
            return None;
        }
        let stolen = if self.own_first { None } else { self.new.steal(worker, &self.links) };
        let own = || {
            let (task, at_front) = self.preempted.pop(worker, &self.links)?;
            state.resume(task, at_front, now);
            Some(preempted(task))
        };
        stolen.map(fresh).or_else(own)
    }

    /// It is time to compare with the others.
    #[cold]
    fn look(&self, worker: usize) {
        self.preempted.even_out(worker, &self.links, self.looks.running(worker));
        self.workers[worker].has_more.store(true, Relaxed);
    }

    /// What `worker`, which has nothing, gets from all others, or from one `victim`.
    fn steal(&self, worker: usize, victim: Option<usize>, now: Time) -> Option<Pick> {
        let fresh = |task| Pick { task, class: Class::Fresh };
        let preempted = |task| {
            self.workers[worker].resume(task, false, now);
            Pick { task, class: Class::Preempted }
        };
        let (new, old, links) = (&self.new, &self.preempted, &self.links);
        // What comes with the one that is taken.
        self.workers[worker].has_more.store(true, Relaxed);
        let new_of = |victim| new.steal_from(victim, worker, links).map(fresh);
        let old_of = |victim| old.steal_from(victim, worker, links).map(preempted);
        let any_of = |victim| match self.own_first {
            true => old_of(victim).or_else(|| new_of(victim)),
            false => new_of(victim).or_else(|| old_of(victim)),
        };
        match victim {
            Some(victim) => any_of(victim),
            None if self.own_first => old.victims(worker).find_map(any_of),
            None => {
                let stolen = new.victims(worker).find_map(new_of);
                stolen.or_else(|| old.victims(worker).find_map(old_of))
            }
        }
    }

    #[inline]
    fn chosen(&self, worker: usize, pick: Option<Pick>) -> Option<Pick> {
        if !self.alone {
            self.looks.chosen(worker, pick.map(|pick| pick.task));
        }
        pick
    }

    /// `task` goes into a queue of `worker`.
    #[inline]
    fn queued(&self, worker: usize, task: Task) {
        if !self.alone {
            self.looks.queued(worker, task);
        }
    }

    /// A running task was preempted at `now`.
    fn enqueue_preempted(&self, worker: usize, task: Task, now: Time) {
        let state = &self.workers[worker];
        self.preempted_at[task.0 as usize].store(now, Relaxed);
        self.queued(worker, task);
        state.has_more.store(true, Relaxed);
        let turn = self.long_quantum.load(Relaxed).max(self.quantum.load(Relaxed));
        if !self.own_first && state.goes_on(task, now, turn) {
            self.preempted.put_back(worker, &self.links, task);
        } else {
            self.preempted.push(worker, &self.links, task);
        }
    }

    /// A task that was long wakes at `now`.
    fn enqueue_long(&self, history: &History, place: Place, task: Task, now: Time) {
        self.preempted_at[task.0 as usize].store(now, Relaxed);
        match place {
            Place::Local(worker) => {
                self.queued(worker, task);
                self.workers[worker].has_more.store(true, Relaxed);
                self.preempted.push(worker, &self.links, task);
            }
            Place::Shared => history.push(&self.links, task),
        }
    }

    /// Long tasks that wait outside become preempted work of `worker`.
    fn take_in(&self, worker: usize) {
        if let Some(history) = self.history.as_ref().filter(|_| self.waits_outside() != 0) {
            history.move_to(&self.links, |task| {
                self.queued(worker, task);
                self.preempted.push(worker, &self.links, task);
            });
        }
    }

    /// How many tasks wait outside that are no new work.
    #[inline(always)]
    fn waits_outside(&self) -> usize {
        self.history.as_ref().map_or(0, History::len)
    }

    fn new_waits(&self, worker: usize) -> bool {
        !self.new.is_empty(worker) || !self.shared.is_empty()
    }
}

impl Policy for TwoQueue {
    fn name(&self) -> &'static str {
        if self.own_first { "aspen" } else { "two-queue" }
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time) {
        if let Some(history) = &self.history
            && history.was_long(task, why)
        {
            return self.enqueue_long(history, place, task, now);
        }
        match (place, why) {
            (Place::Local(worker), Why::Preempted) => self.enqueue_preempted(worker, task, now),
            (Place::Local(worker), why) => {
                self.queued(worker, task);
                let queue = self.new.own(worker);
                if why == Why::Yielded {
                    let state = &self.workers[worker];
                    state.turns.give_way(queue.is_empty());
                    if state.has_more.load(Relaxed)
                        && !self.own_first
                        && !self.preempted.is_empty(worker)
                    {
                        let yields = state.yields.load(Relaxed).saturating_add(1);
                        state.yields.store(yields, Relaxed);
                    }
                }
                queue.push(&self.links, task);
            }
            // Preempted tasks come from a worker. From elsewhere, as after a hand-over, a task
            // counts as new.
            (Place::Shared, _) => self.shared.push(&self.links, task),
        }
    }

    /// Steals new work of others before it takes preempted work of its own, but as `aspen`.
    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        if !self.alone && self.looks.is_due(worker, now, self.quantum()) {
            self.look(worker);
        }
        let pick = if self.workers[worker].has_more.load(Relaxed) || self.waits_outside() != 0 {
            self.choose(worker, now)
        } else {
            self.take_new(worker).map(|task| Pick { task, class: Class::Fresh })
        };
        self.chosen(worker, pick)
    }

    fn task_stopped(&self, _worker: usize, task: Task, ran: Time) {
        if let Some(history) = &self.history {
            history.ran(task, ran);
        }
    }

    fn task_goes_on(&self, task: Task, ran: Time) {
        self.history.iter().for_each(|history| history.begins(task, ran));
    }

    fn accounts(&self) -> bool {
        self.history.is_some()
    }

    fn balance(&self, worker: usize, now: Time) -> Option<Pick> {
        self.chosen(worker, self.steal(worker, None, now))
    }

    fn glance(&self, worker: usize, now: Time) -> Option<Pick> {
        let victim = self.new.victims(worker).next()?;
        self.chosen(worker, self.steal(worker, Some(victim), now))
    }

    /// All become shared work, which is new; preempted work comes last.
    fn worker_lost(&self, worker: usize, _now: Time) -> usize {
        if self.alone {
            return 0;
        }
        let share = |task| self.shared.push(&self.links, task);
        self.new.move_all(worker, &self.links, share)
            + self.preempted.move_all(worker, &self.links, share)
    }

    fn grants_quantum(&self) -> bool {
        true
    }

    fn fresh_waits(&self, worker: usize) -> Option<bool> {
        Some(self.new_waits(worker))
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let quantum = self.quantum()?;
        let new_waits = self.new_waits(worker);
        let own = &self.workers[worker].has_more;
        let preempted_waits =
            self.waits_outside() != 0 || own.load(Relaxed) && !self.preempted.is_empty(worker);
        let at = match running.class {
            Class::Fresh => stop_at(running, quantum, new_waits || preempted_waits, timer),
            Class::Preempted => {
                // A timer that expires makes new work.
                let for_new = stop_at(running, quantum, new_waits, timer);
                let long = self.long_quantum.load(Relaxed).max(quantum);
                let for_preempted = stop_at(running, long, preempted_waits, None);
                match (for_new, for_preempted) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                }
            }
        };
        if new_waits
            || preempted_waits
            || self.alone
            || !self.looks.any_has_more(worker, |other| self.preempted.movable(other) >= 2)
        {
            return at;
        }
        let look = self.looks.stop_at(worker, running, quantum);
        Some(at.map_or(look, |at| at.min(look)))
    }

    fn has_work(&self, _worker: usize) -> bool {
        // Outside first: from there tasks are moved to preempted work.
        !self.shared.is_empty()
            || self.waits_outside() != 0
            || self.new.any_waiting()
            || self.preempted.any_waiting()
    }

    fn has_work_at_hand(&self, worker: usize) -> bool {
        self.new_waits(worker) || self.waits_outside() != 0 || !self.preempted.is_empty(worker)
    }

    fn waiting(&self) -> usize {
        self.shared.len() + self.waits_outside() + self.new.total() + self.preempted.total()
    }
}
