//! A thread that keeps time for all workers, as the runtime's clock `timer-thread` does: what it
//! decides is `quaver_sched::clock`.

use quaver_sched::Running;
use quaver_sched::clock::{Nap, Watch, due, is_due, quantum};

use super::rules::Rules;
use super::{CLOCK, Engine};
use crate::calendar::NEVER;

/// What the thread knows of itself.
pub(super) struct Clock {
    watch: Watch,
    nap: Nap,
}

impl Clock {
    pub(super) fn new(rules: &Rules) -> Self {
        let watch = Watch::new(rules.quantum.unwrap_or(NEVER), 0);
        let watch = match rules.pace {
            Some(pace) => watch.paced(pace),
            None => watch,
        };
        // Nothing has run yet.
        Clock { watch, nap: Nap::Long(None) }
    }

    /// Is the thread asleep for longer than until then, although it should look?
    fn oversleeps(&self, due: u64) -> bool {
        match self.nap {
            Nap::Long(until) => until.is_none_or(|until| due < until),
            Nap::Until(until) => due.saturating_add(self.watch.slack()) < until,
        }
    }
}

impl Engine<'_> {
    /// Something waits that no idle worker takes, and no worker was interrupted for it: the thread
    /// is woken if it would miss what is due.
    pub(super) fn tell_clock(&mut self) {
        let due = (0..self.workers.len()).filter_map(|worker| self.due(worker)).min();
        if let Some(first) = due {
            self.wake_clock_for(first);
        }
    }

    /// A worker has begun to run a thread.
    pub(super) fn tell_clock_of(&mut self, worker: usize) {
        if matches!(self.clock.nap, Nap::Long(_))
            && let Some(due) = self.due(worker)
        {
            self.wake_clock_for(due);
        }
    }

    fn wake_clock_for(&mut self, due: u64) {
        if self.clock.oversleeps(due) {
            // It is awake as soon as it can be, and is not woken again before that.
            self.clock.nap = Nap::Until(self.now);
            let at = self.now + self.rules.mechanism.late.sample(&mut self.random);
            self.calendar.set(CLOCK, at);
        }
    }

    /// What runs on the worker, since its turn began.
    fn running(&self, worker: usize) -> Option<Running> {
        let me = &self.workers[worker];
        Some(Running { since: me.turn, ..me.running? })
    }

    /// When the policy wants the worker's thread to stop, as things are.
    pub(super) fn due(&self, worker: usize) -> Option<u64> {
        let running = self.running(worker)?;
        // Not before it has run at all, so that there is always progress.
        let least = (running.since + 1).max(self.affordable_at(worker));
        due(&*self.policy, worker, &running, None, least)
    }

    /// When the next interruption of the worker can be paid for.
    pub(super) fn affordable_at(&self, worker: usize) -> u64 {
        self.rules.tax.map_or(0, |tax| {
            let me = &self.workers[worker];
            tax.earliest(me.account, me.turn)
        })
    }

    fn is_notified(&self, worker: usize) -> bool {
        self.workers[worker].notified != NEVER
    }

    /// Something waits that no idle worker takes. Who brought it interrupts a worker whose thread
    /// has had its quantum already. `true`: one is interrupted.
    pub(super) fn interrupt_overdue(&mut self) -> bool {
        let overdue = |worker: &usize| {
            !self.is_notified(*worker)
                && self.due(*worker).is_some_and(|due| is_due(due, self.now, 0))
        };
        let found = (0..self.workers.len()).find(overdue);
        if let Some(worker) = found {
            self.send(worker);
            self.schedule(worker);
        }
        found.is_some()
    }

    /// The thread `task` stops running on the worker; clocks look on time again if it has outlived
    /// its quantum.
    pub(super) fn stops(&mut self, worker: usize, task: u32, preempted: bool) {
        let Some(pace) = self.rules.pace else { return };
        let again = std::mem::replace(&mut self.jobs[task].outlived, preempted) && preempted;
        let me = &mut self.workers[worker];
        if pace.is_long(self.now.saturating_sub(me.turn)) || again {
            (me.long_at, me.alarm.later) = (self.now, 0);
            if let Some(tax) = self.rules.tax.filter(|_| !preempted && me.charged != me.turn) {
                me.account = tax.earn(me.account, self.now.saturating_sub(me.turn));
            }
        }
    }

    /// The thread is awake: it sends what is due and sleeps until something will be.
    pub(super) fn look(&mut self) {
        let mut look = self.clock.watch.look(self.now);
        for worker in 0..self.workers.len() {
            look.stopped_long(self.workers[worker].long_at);
            let Some(running) = self.running(worker) else { continue };
            let quantum = quantum(&*self.policy, worker, &running);
            if look.worker(self.now, self.due(worker), quantum) && !self.is_notified(worker) {
                self.send(worker);
                self.schedule(worker);
            }
        }
        self.clock.nap = self.clock.watch.plan(&look, self.now);
        let (Nap::Until(until) | Nap::Long(Some(until))) = self.clock.nap else {
            self.calendar.set(CLOCK, NEVER);
            return;
        };
        // Time goes on, whatever it says.
        let until = until.max(self.now + 1);
        let late = self.rules.mechanism.late.sample(&mut self.random);
        self.calendar.set(CLOCK, until.saturating_add(late));
    }
}
