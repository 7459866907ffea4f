//! Threads become runnable, and idle workers take them.

use quaver_sched::{Concerns, Pick, Place, Task, Why};

use super::Engine;
use crate::costs::Timer;

impl Engine<'_> {
    pub(super) fn make_runnable(&mut self, place: Place, task: u32, why: Why) {
        self.policy.task_enqueue(place, Task(task), why, self.now);
        self.queued += 1;
        self.jobs[task].queue = match place {
            Place::Local(worker) => Some(worker as u32),
            Place::Shared => None,
        };
        if let Some(worker) = self.choose_idle(place) {
            if self.rules.dispatcher {
                self.assign(worker);
            } else {
                self.start_idle(worker);
            }
            return;
        }
        let first = self.queued == 1;
        let timer = self.rules.mechanism.timer;
        match timer {
            Timer::Thread | Timer::Alarm if self.interrupt_overdue() => return,
            Timer::Thread => return self.tell_clock(),
            Timer::Alarm => return self.tell_alarms(),
            Timer::None | Timer::Core | Timer::Worker => {}
        }
        match (self.rules.concerns, place) {
            (Concerns::Place, Place::Local(worker)) => self.ask(worker),
            (Concerns::First, _) if !first => {}
            _ => (0..self.workers.len()).for_each(|worker| self.ask(worker)),
        }
    }

    fn choose_idle(&self, place: Place) -> Option<usize> {
        if let Place::Local(worker) = place {
            let idle = self.workers[worker].idle.is_some();
            if idle || !self.rules.balance {
                return idle.then_some(worker);
            }
        }
        self.idle.last().map(|&worker| worker as usize)
    }

    pub(super) fn add_idle(&mut self, worker: usize) {
        self.workers[worker].idle = Some(self.idle.len());
        self.workers[worker].idle_since = self.now;
        self.idle.push(worker as u32);
    }

    pub(super) fn remove_idle(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        let Some(at) = me.idle.take() else { return };
        if let Some(tax) = self.rules.tax {
            let worked = me.idle_since - me.rested_at;
            me.account = tax.rest(me.account, self.now - me.idle_since, worked);
            me.rested_at = self.now;
        }
        self.idle.swap_remove(at);
        if let Some(&moved) = self.idle.get(at) {
            self.workers[moved as usize].idle = Some(at);
        }
    }

    /// The next task for `worker`, and whether it was another's.
    pub(super) fn pick(&mut self, worker: usize) -> Option<(Pick, bool)> {
        if self.queued == 0 {
            return None;
        }
        let own = self.policy.task_dequeue(worker, self.now).map(|pick| {
            let queue = self.jobs[pick.task.0].queue;
            (pick, queue.is_some_and(|queue| queue != worker as u32))
        });
        let others = || match self.rules.balance {
            true => self.policy.balance(worker, self.now).map(|pick| (pick, true)),
            false => None,
        };
        let pick = own.or_else(others)?;
        self.queued -= 1;
        Some(pick)
    }

    /// An idle worker takes what has become runnable. If it has gone to sleep, it must wake up
    /// first.
    fn start_idle(&mut self, worker: usize) {
        if let Some((pick, stolen)) = self.pick(worker) {
            self.remove_idle(worker);
            let parked = self.now - self.workers[worker].idle_since >= self.rules.system.spin;
            let wake = if parked { self.rules.system.wake.sample(&mut self.random) } else { 0 };
            self.enter(worker, pick, stolen, wake);
        }
    }
}
