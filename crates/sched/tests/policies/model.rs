//! Reference models: the rules of the policies, written down with plain collections.
//!
//! Where a policy chooses at random (which victim to rob), the model takes the policy's choice and
//! checks that it was one of those allowed.

use std::collections::VecDeque;

use super::*;

type Queue = VecDeque<u32>;

/// Shared queue, and own queues of new and of preempted work. `fifo` and `rr` use the shared one
/// only, `ws` no preempted ones.
pub struct Model {
    rule: &'static str,
    quantum: Option<Time>,
    long: Time,
    max_age: Time,
    shared: Queue,
    workers: Vec<Worker>,
    preempted_at: Vec<Time>,
}

#[derive(Default)]
struct Worker {
    new: Queue,
    preempted: Queue,
    /// The preempted task that goes on before the others.
    front: Option<u32>,
    /// The preempted task whose turn it is, when it was dispatched, what it had used before.
    turn: Option<(u32, Time, Time)>,
    dispatches: u32,
    /// A task gave way: the shared queue comes first.
    shared_next: bool,
    /// The last new task came from the shared queue.
    from_shared: bool,
    /// The last dispatch went to preempted work though new work waited.
    out_of_turn: bool,
    /// When that was, if it was old.
    old_began: Option<Time>,
    /// Until when old work waits for new.
    new_until: Time,
    /// Since the last dispatch out of turn, while preempted work waited.
    yields: usize,
    /// When it looks what others have; none before its first dispatch.
    looks_at: Option<Time>,
    /// What was dispatched last and has not come back.
    running: Option<u32>,
    /// The other worker that it watches for having more.
    watched: std::cell::Cell<usize>,
}

impl Worker {
    fn resume(&mut self, task: Option<u32>, at_front: bool, now: Time) {
        let used = self.turn.filter(|_| at_front).map_or(0, |(_, _, used)| used);
        self.turn = task.map(|task| (task, now, used)).or(self.turn);
    }
}

impl Model {
    pub fn new(spec: &Spec, workers: usize, max_tasks: u32) -> Self {
        let nanos = |d: std::time::Duration| d.as_nanos() as Time;
        Model {
            rule: spec.name(),
            quantum: spec.quantum().map(nanos),
            long: spec.long_quantum().map_or(0, nanos),
            max_age: spec.max_age().map_or(Time::MAX, nanos),
            shared: Queue::new(),
            workers: (0..workers).map(|_| Worker::default()).collect(),
            preempted_at: vec![0; max_tasks as usize],
        }
    }

    pub fn enqueue(&mut self, place: Place, task: u32, why: Why, now: Time) {
        if let ("two-queue", Place::Local(worker), Why::Preempted) = (self.rule, place, why) {
            let (long, me) = (self.long, &mut self.workers[worker]);
            if let Some((whose, began, used)) = &mut me.turn
                && *whose == task
            {
                *used += now.saturating_sub(*began);
                if *used < long && me.front.is_none() {
                    me.front = Some(task);
                    self.preempted_at[task as usize] = now;
                    me.running = me.running.filter(|&running| running != task);
                    return;
                }
            }
        }
        let queue = match (self.rule, place, why) {
            ("fifo" | "rr", _, _) | (_, Place::Shared, _) => &mut self.shared,
            ("two-queue", Place::Local(worker), Why::Preempted) => {
                self.preempted_at[task as usize] = now;
                &mut self.workers[worker].preempted
            }
            (rule, Place::Local(worker), why) => {
                let me = &mut self.workers[worker];
                if why == Why::Yielded || (why == Why::Preempted && rule == "ws") {
                    me.shared_next = me.new.is_empty() || !me.from_shared;
                }
                if why == Why::Yielded && (!me.preempted.is_empty() || me.front.is_some()) {
                    me.yields += 1;
                }
                &mut me.new
            }
        };
        queue.push_back(task);
        if let Place::Local(worker) = place
            && self.workers[worker].running == Some(task)
        {
            self.workers[worker].running = None;
        }
    }

    /// The queue that is evened out.
    fn evened(&mut self, worker: usize) -> &mut Queue {
        let me = &mut self.workers[worker];
        if self.rule == "ws" { &mut me.new } else { &mut me.preempted }
    }

    fn look(&mut self, worker: usize, now: Time) {
        let (Some(quantum), "ws" | "two-queue") = (self.quantum, self.rule) else { return };
        let me = &mut self.workers[worker];
        let (at, running) = (me.looks_at, usize::from(me.running.is_some()));
        if at.is_some_and(|at| now < at) {
            return;
        }
        me.looks_at = Some((now + 50 * quantum).max(1));
        let others = (0..self.workers.len()).filter(|&other| other != worker);
        let longest = others.max_by_key(|&other| self.evened(other).len());
        let (Some(longest), Some(_)) = (longest, at) else { return };
        let front = usize::from(self.workers[worker].front.is_some());
        let mine = self.evened(worker).len() + running + front;
        let half = (self.evened(longest).len() + 1).saturating_sub(mine) / 2;
        let moved: Vec<_> = self.evened(longest).drain(..half).collect();
        self.evened(worker).extend(moved);
    }

    pub fn waiting(&self) -> usize {
        let own = |w: &Worker| w.new.len() + w.preempted.len() + usize::from(w.front.is_some());
        self.shared.len() + self.workers.iter().map(own).sum::<usize>()
    }

    /// Of these, those that `worker` sees without a look at others.
    pub fn at_hand(&self, worker: usize) -> usize {
        let me = &self.workers[worker];
        self.shared.len() + me.new.len() + me.preempted.len() + usize::from(me.front.is_some())
    }

    /// Do those see some among them that were not preempted?
    pub fn fresh_waits(&self, worker: usize) -> Option<bool> {
        let waits = || !self.shared.is_empty() || !self.workers[worker].new.is_empty();
        (self.rule == "two-queue").then(waits)
    }

    /// Is `pick` right for `task_dequeue`? If so, do the same.
    pub fn dequeue(&mut self, worker: usize, now: Time, pick: Option<Pick>) -> Result<(), String> {
        self.look(worker, now);
        self.workers[worker].running = pick.map(|pick| pick.task.0);
        let preempted_at = &self.preempted_at;
        let me = &mut self.workers[worker];
        let since = |task: u32| preempted_at[task as usize];
        let head = me.preempted.front().copied();
        let at_front = me.front.is_some_and(|f| head.is_none_or(|head| since(f) <= since(head)));
        let oldest = if at_front { me.front } else { head };
        let is_old = |t| now.saturating_sub(since(t)) > self.max_age;
        let aged = oldest.is_some_and(is_old);
        let gave_way = me.yields > me.new.len() + self.shared.len();
        let was_out_of_turn = std::mem::take(&mut me.out_of_turn);
        if was_out_of_turn {
            let ran = me.old_began.map_or(0, |began| now.saturating_sub(began));
            me.new_until = now + 9 * ran;
        }
        let its_turn = aged && now >= me.new_until;
        if oldest.is_some() && !was_out_of_turn && (its_turn || gave_way) {
            me.out_of_turn = true;
            me.old_began = Some(now).filter(|_| !gave_way);
            me.yields = 0;
            let task = if at_front { me.front.take() } else { me.preempted.pop_front() };
            if aged || at_front {
                me.resume(task, at_front, now);
            }
            return same(task, Class::Preempted, pick);
        }
        me.dispatches += 1;
        let shared_first = std::mem::take(&mut me.shared_next) || me.dispatches.is_multiple_of(31);
        let from_shared = !self.shared.is_empty() && (shared_first || me.new.is_empty());
        let queue = if from_shared { &mut self.shared } else { &mut me.new };
        let expected = queue.pop_front();
        if expected.is_some() {
            me.from_shared = from_shared;
        }
        if expected.is_some() || me.preempted.is_empty() && me.front.is_none() {
            return same(expected, Class::Fresh, pick);
        }
        if self.workers.iter().any(|w| !w.new.is_empty()) {
            return self.steal(worker, |w| &mut w.new, Class::Fresh, pick);
        }
        let me = &mut self.workers[worker];
        let at_front = me.front.is_some();
        let task = me.front.take().or_else(|| me.preempted.pop_front());
        me.resume(task, at_front, now);
        same(task, Class::Preempted, pick)
    }

    /// Is `pick` right for `balance`? If so, do the same.
    pub fn balance(&mut self, worker: usize, now: Time, pick: Option<Pick>) -> Result<(), String> {
        self.workers[worker].running = pick.map(|pick| pick.task.0);
        let other = |&(i, _): &(usize, &Worker)| i != worker;
        let others = || self.workers.iter().enumerate().filter(other);
        if others().any(|(_, w)| !w.new.is_empty()) {
            self.steal(worker, |w| &mut w.new, Class::Fresh, pick)
        } else if others().any(|(_, w)| !w.preempted.is_empty() || w.front.is_some()) {
            self.workers[worker].resume(pick.map(|pick| pick.task.0), false, now);
            self.steal_preempted(worker, pick)
        } else {
            same(None, Class::Fresh, pick)
        }
    }

    /// Is `pick` right for `glance`? If so, do the same.
    pub fn glance(&mut self, worker: usize, now: Time, pick: Option<Pick>) -> Result<(), String> {
        if self.workers.len() <= 2 {
            return self.balance(worker, now, pick);
        }
        self.workers[worker].running = pick.map(|pick| pick.task.0);
        match pick.map(|pick| pick.class) {
            None => Ok(()),
            Some(Class::Fresh) => self.steal(worker, |w| &mut w.new, Class::Fresh, pick),
            Some(Class::Preempted) => {
                self.workers[worker].resume(pick.map(|pick| pick.task.0), false, now);
                self.steal_preempted(worker, pick)
            }
        }
    }

    /// As [`steal`](Self::steal), or the front of one whose queue is empty.
    fn steal_preempted(&mut self, worker: usize, pick: Option<Pick>) -> Result<(), String> {
        let task = pick.map(|pick| pick.task.0);
        let is_it = |&(v, w): &(usize, &Worker)| {
            v != worker && w.preempted.is_empty() && w.front.is_some() && w.front == task
        };
        if let Some((victim, _)) = self.workers.iter().enumerate().find(is_it) {
            return same(self.workers[victim].front.take(), Class::Preempted, pick);
        }
        self.steal(worker, |w| &mut w.preempted, Class::Preempted, pick)
    }

    /// The pick must be the oldest of some other worker; move the older half of that queue.
    fn steal(
        &mut self,
        worker: usize,
        queue: fn(&mut Worker) -> &mut Queue,
        class: Class,
        pick: Option<Pick>,
    ) -> Result<(), String> {
        let task = pick.ok_or("found nothing to steal")?.task.0;
        let victim = (0..self.workers.len())
            .find(|&v| v != worker && queue(&mut self.workers[v]).front() == Some(&task))
            .ok_or(format!("stole {task}, which is not the oldest of any other worker"))?;
        let victim = queue(&mut self.workers[victim]);
        let half = victim.len().div_ceil(2);
        let mut taken: Queue = victim.drain(..half).collect();
        let oldest = taken.pop_front();
        queue(&mut self.workers[worker]).extend(taken);
        same(oldest, class, pick)
    }

    /// Has the other worker that was watched last, or the next, two tasks that may be moved?
    fn watches_two(&self, worker: usize) -> bool {
        let have = |w: &Worker| if self.rule == "ws" { w.new.len() } else { w.preempted.len() };
        let has_two = |other: usize| other != worker && have(&self.workers[other]) >= 2;
        let watched = &self.workers[worker].watched;
        if has_two(watched.get()) {
            return true;
        }
        let count = self.workers.len();
        let mut next = (watched.get() + 1) % count;
        if next == worker {
            next = (next + 1) % count;
        }
        watched.set(next);
        has_two(next)
    }

    pub fn preempt_at(&self, worker: usize, run: &Running, timer: Option<Time>) -> Option<Time> {
        if self.rule == "fifo" {
            return None;
        }
        let end = run.since + self.quantum?;
        let me = &self.workers[worker];
        let new_waits = !self.shared.is_empty() || !me.new.is_empty();
        let mut reasons = vec![];
        reasons.extend(new_waits.then_some(end));
        reasons.extend(timer.map(|timer| timer.max(end)));
        let preempted_waits = !me.preempted.is_empty() || me.front.is_some();
        if preempted_waits {
            reasons.push(match run.class {
                Class::Fresh => end,
                Class::Preempted => run.since + self.long,
            });
        }
        if self.rule != "rr" && !new_waits && !preempted_waits && self.watches_two(worker) {
            reasons.push(end.max(me.looks_at.unwrap_or(0)));
        }
        reasons.into_iter().min()
    }
}

fn same(expected: Option<u32>, class: Class, pick: Option<Pick>) -> Result<(), String> {
    let expected = expected.map(|task| Pick { task: Task(task), class });
    if pick == expected { Ok(()) } else { Err(format!("picked {pick:?}, expected {expected:?}")) }
}
