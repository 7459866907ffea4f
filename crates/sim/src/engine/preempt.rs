//! A worker is interrupted: when, by a notification that takes its time, and what comes of it.

use quaver_sched::clock::{due, is_due};
use quaver_sched::{Place, Task, Why};

use super::Engine;
use super::signals::RECEIVES;
use crate::calendar::NEVER;
use crate::costs::Timer;

impl Engine<'_> {
    /// The clock asks when the worker must stop what it runs.
    pub(super) fn ask(&mut self, worker: usize) {
        match self.rules.mechanism.timer {
            Timer::None => return,
            Timer::Thread => return self.tell_clock_of(worker),
            Timer::Core | Timer::Worker => {}
        }
        let me = &self.workers[worker];
        let turn = me.turn;
        let Some(mut running) = me.running else { return };
        running.since = turn;
        if me.notified != NEVER {
            if me.notified_run != me.run && me.due > me.notified {
                // Another notification is under way; ask again when it has come.
                self.workers[worker].due = me.notified;
            }
            return;
        }
        // Not before it has run at all, so that there is always progress.
        let least = self.now.max(running.since + 1).max(self.affordable_at(worker));
        let at = if self.rules.skip {
            due(&*self.policy, worker, &running, None, least)
        } else {
            // On a grid, whatever runs: as by a periodic timer.
            self.rules.quantum.map(|quantum| ((self.now / quantum + 1) * quantum).max(least))
        };
        let at = match (at, self.rules.quantum) {
            (Some(at), Some(quantum)) if self.rules.once_a_quantum => {
                Some(turn + (at - turn).div_ceil(quantum) * quantum)
            }
            (at, _) => at,
        };
        let due = at.map_or(NEVER, |at| self.tick_after(worker, at));
        if is_due(due, self.now, 0) {
            self.send(worker);
        } else {
            self.workers[worker].due = due;
        }
        self.schedule(worker);
    }

    /// With a ticking timer, the next tick; workers' ticks are spread evenly.
    fn tick_after(&self, worker: usize, at: u64) -> u64 {
        let Some(tick) = self.rules.tick else { return at };
        let phase = worker as u64 * tick / self.workers.len() as u64;
        (at - phase.min(at)).div_ceil(tick) * tick + phase
    }

    pub(super) fn send(&mut self, worker: usize) {
        self.books.counts.sent += 1;
        let sent = match self.rules.mechanism.timer {
            Timer::Core => {
                let send = self.rules.mechanism.send + self.wait_for_lock(1);
                self.core.occupy(self.now, send + self.rules.mechanism.scan)
            }
            Timer::Thread => self.now + self.rules.mechanism.send,
            Timer::Worker | Timer::None => self.now,
        };
        let notified = sent + self.rules.mechanism.deliver.sample(&mut self.random);
        let me = &mut self.workers[worker];
        me.notified = notified;
        me.notified_run = me.run;
        me.due = NEVER;
        if notified <= self.now {
            // It is handled as an event of its own, after what happens now.
            me.notified = self.now;
        }
    }

    /// What an interruption costs the running thread. A tick's cost is in the running times
    /// already.
    fn received(&mut self) -> u64 {
        if self.rules.tick.is_some() {
            0
        } else {
            self.rules.mechanism.receive.sample(&mut self.random) + self.wait_for_lock(RECEIVES)
        }
    }

    pub(super) fn interrupt(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        if me.stopped > self.now {
            // Nobody receives anything while the CPU is taken away.
            me.notified = me.stopped;
            self.schedule(worker);
            return;
        }
        let receive = self.received();
        let me = &mut self.workers[worker];
        me.notified = NEVER;
        if let Some(tax) = self.rules.tax {
            let ran = me.running.map_or(0, |_| self.now.saturating_sub(me.turn));
            me.account = tax.charge(me.account, ran);
        }
        let Some(running) = me.running else {
            self.books.counts.stale += 1;
            self.schedule(worker);
            return;
        };
        if me.notified_run != me.run || self.now < running.since {
            self.books.counts.stale += 1;
            self.lose(worker, receive);
            self.ask(worker);
            self.schedule(worker);
            return;
        }
        if self.rules.dispatcher {
            if self.queued == 0 {
                self.go_on(worker, receive);
                return;
            }
            let task = self.leave(worker, true);
            self.books.counts.preemptions += 1;
            self.workers[worker].stalled = self.now + receive + self.rules.system.preempt_switch;
            self.workers[worker].overhead += receive + self.rules.system.preempt_switch;
            // The worker gets the oldest; the stopped one goes behind.
            self.hand_over(worker);
            self.policy.task_enqueue(Place::Local(worker), Task(task), Why::Preempted, self.now);
            self.queued += 1;
            return;
        }
        let Some((pick, stolen)) = self.pick(worker) else {
            self.go_on(worker, receive);
            return;
        };
        let task = self.leave(worker, true);
        self.books.counts.preemptions += 1;
        self.enter(worker, pick, stolen, receive + self.rules.system.preempt_switch);
        self.make_runnable(Place::Local(worker), task, Why::Preempted);
    }

    /// There is nothing else to run.
    fn go_on(&mut self, worker: usize, receive: u64) {
        self.books.counts.useless += 1;
        self.lose(worker, receive);
        self.ask(worker);
        self.schedule(worker);
    }

    /// The running thread loses time.
    pub(super) fn lose(&mut self, worker: usize, time: u64) {
        let me = &mut self.workers[worker];
        me.lost += time;
        me.end = me.end.saturating_add(time);
        me.overhead += time;
    }
}
