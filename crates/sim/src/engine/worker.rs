//! A worker enters, runs and leaves threads.

use quaver_sched::{Account, Pick, Running};

use super::alarm::OwnTimer;
use super::messages::WAKEUP;
use super::rules::Rules;
use super::{Engine, SOURCES};
use crate::calendar::NEVER;
use crate::job::Kind;
use crate::timeline::Span;

#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) running: Option<Running>,
    /// Since when its thread has been running: before the request it serves if it has served others
    /// since.
    pub(super) turn: u64,
    /// Which dispatch this is; a notification is meant for one.
    pub(super) run: u64,
    /// From when the worker was busy with it.
    entered: u64,
    /// What interruptions have taken since the dispatch.
    pub(super) lost: u64,
    pub(super) end: u64,
    /// When the clock must act.
    pub(super) due: u64,
    /// When a notification arrives.
    pub(super) notified: u64,
    pub(super) notified_run: u64,
    pub(super) alarm: OwnTimer,
    /// When a thread here has outlived its quantum last.
    pub(super) long_at: u64,
    /// When what the dispatcher gives it arrives.
    pub(super) assigned: u64,
    /// Until then its CPU is taken away.
    pub(super) stopped: u64,
    /// Before that it begins nothing.
    pub(super) stalled: u64,
    best_effort_last: bool,
    pub(super) idle_since: u64,
    pub(super) busy: u64,
    pub(super) best_effort: u64,
    pub(super) overhead: u64,
    /// What pays for interruptions.
    pub(super) account: Account,
    /// The last turn in which it was interrupted.
    pub(super) charged: u64,
    /// When it went on after it had nothing to do.
    pub(super) rested_at: u64,
    /// Its place in the list of idle workers, if it is in it.
    pub(super) idle: Option<usize>,
}

impl Default for Worker {
    fn default() -> Self {
        Worker {
            running: None,
            turn: 0,
            run: 0,
            entered: 0,
            lost: 0,
            end: NEVER,
            due: NEVER,
            notified: NEVER,
            notified_run: 0,
            alarm: OwnTimer::default(),
            long_at: 0,
            assigned: NEVER,
            stopped: 0,
            stalled: 0,
            best_effort_last: false,
            idle_since: 0,
            busy: 0,
            best_effort: 0,
            overhead: 0,
            account: Account::default(),
            charged: NEVER,
            rested_at: 0,
            idle: None,
        }
    }
}

impl Worker {
    fn next(&self) -> u64 {
        self.end.min(self.due).min(self.notified).min(self.alarm.rings).min(self.assigned)
    }

    /// How long the running thread has run.
    pub(super) fn ran(&self, now: u64) -> u64 {
        let since = self.running.map_or(now, |running| running.since);
        now.saturating_sub(since).saturating_sub(self.lost)
    }
}

impl Engine<'_> {
    pub(super) fn schedule(&mut self, worker: usize) {
        let next = self.workers[worker].next();
        self.calendar.set(SOURCES + worker, next);
    }

    pub(super) fn act(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        if me.end == self.now {
            self.end(worker);
        } else if me.notified == self.now {
            self.interrupt(worker);
        } else if me.alarm.rings == self.now {
            self.ring(worker);
        } else if me.due == self.now {
            me.due = NEVER;
            if !self.rules.skip && me.notified == NEVER {
                self.send(worker);
            } else {
                self.ask(worker);
            }
            self.schedule(worker);
        } else {
            me.assigned = NEVER;
            self.core.pending -= 1;
            self.become_free(worker);
        }
    }

    /// A worker takes its next task or idles; with a dispatcher, only what it was assigned.
    fn become_free(&mut self, worker: usize) {
        match self.pick(worker) {
            Some((pick, stolen)) => self.enter(worker, pick, stolen, 0),
            None => {
                self.add_idle(worker);
                self.schedule(worker);
            }
        }
    }

    /// `before`: what must be done on the worker before the switch.
    pub(super) fn enter(&mut self, worker: usize, pick: Pick, stolen: bool, before: u64) {
        // A mechanism that takes time at every switch changes the signal mask there. Who has
        // received a signal has just taken the lock.
        let masks = self.rules.mechanism.switch > 0 && before == 0;
        let mask = if masks { self.wait_for_lock(1) } else { 0 };
        let Rules { mechanism, system, .. } = &self.rules;
        let cost = before + system.dispatch + system.poll + mechanism.switch + mask;
        let me = &mut self.workers[worker];
        me.run += 1;
        me.due = NEVER;
        self.books.counts.dispatches += 1;
        self.run_task(worker, pick, stolen, cost);
        self.workers[worker].turn = self.workers[worker].running.map_or(self.now, |r| r.since);
        if self.rules.alarm.is_some() {
            // Where something was done before, its price contains this.
            let arm = if before == 0 { self.rules.mechanism.arm } else { 0 };
            self.dispatched(worker, arm);
        } else {
            self.ask(worker);
        }
        self.schedule(worker);
    }

    /// The thread that has just served a request serves this one too.
    fn go_on_with(&mut self, worker: usize, pick: Pick) {
        self.run_task(worker, pick, false, 0);
        self.ask(worker);
        self.schedule(worker);
    }

    /// Was this request taken from the network when the thread that runs was entered, which has
    /// just served another?
    fn came_with(&self, worker: usize, ended: u32, pick: Pick, stolen: bool) -> bool {
        let next = &self.jobs[pick.task.0];
        let requests = next.kind == Kind::Request && self.jobs[ended].kind == Kind::Request;
        self.rules.run_on
            && !stolen
            && requests
            && !next.started
            && next.arrived <= self.workers[worker].turn
    }

    fn run_task(&mut self, worker: usize, pick: Pick, stolen: bool, mut cost: u64) {
        let Pick { task, class } = pick;
        let (system, job) = (&self.rules.system, &mut self.jobs[task.0]);
        let me = &mut self.workers[worker];
        if stolen {
            cost += system.steal;
            self.books.counts.steals += 1;
        }
        let first = !job.started;
        if first && job.kind == Kind::Request {
            cost += system.request;
        }
        if job.is_best_effort() != me.best_effort_last {
            me.best_effort_last = job.is_best_effort();
            cost += system.app_switch;
        }
        if first && matches!(job.kind, Kind::Bench(_)) && job.counted {
            self.books.record_time(WAKEUP, self.now + cost - job.arrived);
        }
        job.started = true;
        job.worker = worker as u32;
        let start = self.now.max(me.stalled);
        let since = start + cost;
        me.running = Some(Running { task, since, class });
        me.entered = start;
        me.lost = 0;
        me.end = since + job.left;
        me.overhead += cost;
    }

    /// Take the running task off the worker's books.
    pub(super) fn leave(&mut self, worker: usize, preempted: bool) -> u32 {
        let me = &mut self.workers[worker];
        let running = me.running.take().expect("a task is running");
        let task = running.task.0;
        self.stops(worker, task, preempted);
        let me = &mut self.workers[worker];
        let ran = self.now.saturating_sub(running.since).saturating_sub(me.lost);
        let job = &mut self.jobs[task];
        job.left -= ran.min(job.left);
        if job.is_best_effort() {
            me.best_effort += ran;
        } else {
            me.busy += ran;
        }
        if let Some(window) = self.options.window
            && self.now > window.from
            && me.entered < window.to
        {
            self.books.timeline.spans.push(Span {
                worker: worker as u32,
                task,
                class: job.class,
                from: me.entered,
                runs: running.since,
                to: self.now,
                preempted,
            });
        }
        me.end = NEVER;
        me.due = NEVER;
        if self.rules.accounts {
            self.policy.task_stopped(worker, running.task, ran);
        }
        task
    }

    /// The running task has run for its time.
    fn end(&mut self, worker: usize) {
        // In the runtime's order: first what is next, then what becomes of the last.
        let next = if self.rules.dispatcher { None } else { self.pick(worker) };
        let task = self.leave(worker, false);
        match next {
            Some((pick, stolen)) if self.came_with(worker, task, pick, stolen) => {
                self.go_on_with(worker, pick);
            }
            Some((pick, stolen)) => self.enter(worker, pick, stolen, 0),
            None => {
                self.add_idle(worker);
                self.schedule(worker);
            }
        }
        self.complete(worker, task);
        if self.rules.dispatcher
            && self.queued > self.core.pending
            && self.workers[worker].idle.is_some()
        {
            self.assign(worker);
        }
    }
}
