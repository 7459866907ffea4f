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
            Timer::Alarm => return self.dispatched(worker, 0),
            Timer::Core | Timer::Worker => {}
        }
        let me = &self.workers[worker];
        let turn = me.turn;
        let Some(mut running) = me.running else { return };
        // A thread that goes on with another request has begun its turn before.
        let begins = std::mem::replace(&mut running.since, turn);
        if me.notified != NEVER {
            if me.notified_run != me.run && me.due > me.notified {
                // Another notification is under way; ask again when it has come.
                self.workers[worker].due = me.notified;
            }
            return;
        }
        // Not before it has run at all, so that there is always progress.
        let least = self.now.max(turn + 1).max(self.affordable_at(worker));
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
        let mut due = at.map_or(NEVER, |at| self.tick_after(worker, at));
        if self.rules.mechanism.timer == Timer::Worker {
            // It is in time at once, for what has not begun yet.
            due = due.max(begins + 1);
        }
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
            Timer::Thread | Timer::Alarm => self.now + self.rules.mechanism.send,
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

    /// What an interruption costs the running thread, or one in vain. A tick's cost is in the
    /// running times already.
    pub(super) fn received(&mut self, in_vain: bool) -> u64 {
        if self.rules.tick.is_some() {
            return 0;
        }
        let mechanism = &self.rules.mechanism;
        let cost = if in_vain { mechanism.in_vain() } else { &mechanism.receive };
        cost.sample(&mut self.random) + self.wait_for_lock(RECEIVES)
    }

    /// The worker was interrupted, and pays for it.
    pub(super) fn charge(&mut self, worker: usize) {
        if let Some(tax) = self.rules.tax {
            let me = &mut self.workers[worker];
            let ran = me.running.map_or(0, |_| self.now.saturating_sub(me.turn));
            me.account = tax.charge(me.account, ran);
            me.charged = me.turn;
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
        me.notified = NEVER;
        me.alarm.expires_with_a_signal(self.now);
        self.charge(worker);
        let me = &self.workers[worker];
        let meant = me.notified_run == me.run;
        if meant && me.running.is_some_and(|running| running.since <= self.now) {
            self.preempt(worker);
        } else {
            self.look_in_vain(worker);
            self.ask(worker);
            self.schedule(worker);
        }
    }

    /// The running thread gives way, if there is anything to give way to.
    pub(super) fn preempt(&mut self, worker: usize) {
        if self.rules.dispatcher {
            if self.queued == 0 {
                self.go_on(worker);
                return;
            }
            let receive = self.received(false);
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
            self.go_on(worker);
            return;
        };
        let receive = self.received(false);
        let task = self.leave(worker, true);
        self.books.counts.preemptions += 1;
        self.enter(worker, pick, stolen, receive + self.rules.system.preempt_switch);
        self.make_runnable(Place::Local(worker), task, Why::Preempted);
    }

    /// An interruption was not meant for what runs, or found nothing due.
    pub(super) fn look_in_vain(&mut self, worker: usize) {
        self.books.counts.stale += 1;
        let look = self.received(true);
        if self.workers[worker].running.is_some() {
            self.lose(worker, look);
        }
    }

    /// There is nothing else to run.
    fn go_on(&mut self, worker: usize) {
        self.books.counts.useless += 1;
        let look = self.received(true);
        self.lose(worker, look);
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
