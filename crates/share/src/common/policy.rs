//! A common queue as a host's policy.

use super::{Common, Relaxed, ticks};
use quaver_sched::{Attributes, Pick, Place, Policy, Running, Task, Time, Why};
use std::time::Duration;

/// How often a worker beside which nothing waits is asked whether others have brought something:
/// they cannot set its clock.
const LOOK: Duration = Duration::from_micros(500);

impl Policy for Common {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn task_init(&self, task: Task, attributes: &Attributes, now: Time) {
        if let Some(_section) = self.enter() {
            self.begin(self.global(task), attributes, now);
        }
    }

    fn task_terminate(&self, task: Task, now: Time) {
        if let Some(_section) = self.enter() {
            self.end(self.global(task), now);
        }
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time) {
        if let Some(section) = self.enter() {
            self.ready(place, self.global(task), why, now);
            self.fill(&section);
        }
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        self.next(worker, false, now)
    }

    fn task_stopped(&self, _worker: usize, task: Task, ran: Time) {
        if let Some(_section) = self.enter() {
            self.stopped(self.global(task), ran);
        }
    }

    fn accounts(&self) -> bool {
        self.policy.accounts()
    }

    fn heeds_priority(&self) -> bool {
        self.policy.heeds_priority()
    }

    fn set_priority(&self, task: Task, priority: u8) {
        if let Some(_section) = self.enter() {
            let task = self.global(task);
            let word = &self.entry(task).attributes;
            let others = word.load(Relaxed) & !(0xff << 16);
            self.set(word, others | u32::from(priority) << 16);
            self.policy.set_priority(task, priority);
        }
    }

    fn central(&self) -> bool {
        self.policy.central()
    }

    fn balance(&self, worker: usize, now: Time) -> Option<Pick> {
        self.next(worker, true, now)
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        if (self.is_away(worker) || self.is_given(worker)) && !self.has_left() {
            // The application was stopped meanwhile: another one has the core, or another task.
            return Some(running.since);
        }
        let task = self.global(running.task);
        let section = self.enter()?;
        let due = self.policy.preempt_at(worker, &Running { task, ..*running }, timer);
        drop(section);
        due.or_else(|| {
            self.spec().quantum()?;
            let per_us = u64::from(self.head().ticks_per_us.load(Relaxed));
            let look = LOOK.as_micros() as u64 * per_us;
            let ran = ticks().saturating_sub(running.since);
            Some(running.since + (ran / look + 1) * look)
        })
    }

    /// Others' work does not count before the worker is given it.
    fn has_work(&self, worker: usize) -> bool {
        !self.has_left() && self.is_given(worker)
    }

    fn waiting(&self) -> usize {
        self.enter().map_or(0, |_section| self.policy.waiting())
    }
}
