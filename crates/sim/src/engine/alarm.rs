//! Each worker's own timer, which is set only while something waits, as the runtime's clock
//! `posix-timer` sets it: what is decided is `quaver_sched::clock`.
//!
//! The timer knows nothing of dispatches. It is left alone where it is set early enough for the
//! next thread, so it expires for one that may have given way since: a *stale* look, which costs
//! the thread that runs now some time and sets the timer for the rest of its quantum, if something
//! waits by then.

use quaver_sched::clock::{Alarm, is_due};

use super::Engine;
use crate::calendar::NEVER;

/// What is due so soon is due now.
const SLOP: u64 = 500;
/// How late a timer may be before it is taken for lost: by its own worker, and by others.
const LOST: u64 = 1_000_000;
const LOST_TO_OTHERS: u64 = 50_000_000;

/// A worker's timer.
#[derive(Clone, Debug)]
pub(super) struct OwnTimer {
    /// What it is set for; [`NEVER`] while it is off.
    armed: u64,
    /// When it rings, which is later.
    pub(super) rings: u64,
    /// How much later it is set than what is due, while no thread outlives its quantum.
    pub(super) later: u64,
}

impl Default for OwnTimer {
    fn default() -> Self {
        OwnTimer { armed: NEVER, rings: NEVER, later: 0 }
    }
}

impl OwnTimer {
    /// The worker is interrupted in another way. If the timer has expired too, nobody need wait
    /// for what it says.
    pub(super) fn expires_with_a_signal(&mut self, now: u64) {
        if is_due(self.armed, now, SLOP) {
            self.is_off();
        }
    }

    fn is_off(&mut self) {
        (self.armed, self.rings) = (NEVER, NEVER);
    }

    fn looks_at(&self, due: u64) -> u64 {
        due.saturating_add(self.later)
    }
}

impl Engine<'_> {
    /// The worker has begun to run a thread. If its timer has to be set for that, that takes `cost`
    /// of its time.
    pub(super) fn dispatched(&mut self, worker: usize, cost: u64) {
        let Some(alarm) = self.rules.alarm else { return };
        let me = &self.workers[worker];
        let earliest = me.alarm.looks_at(alarm.earliest(me.turn, self.affordable_at(worker)));
        // In time for whatever the policy would say: it is left alone.
        if Alarm::misses(me.alarm.armed, earliest, self.now, LOST)
            && self.set_if_waiting(worker, LOST)
        {
            self.lose(worker, cost);
        }
    }

    /// Something waits that no idle worker takes: who brought it sets one timer that is off, or set
    /// too late.
    pub(super) fn tell_alarms(&mut self) {
        let set = (0..self.workers.len()).find(|&w| self.set_if_waiting(w, LOST_TO_OTHERS));
        if let Some(worker) = set {
            self.schedule(worker);
        }
    }

    fn set_if_waiting(&mut self, worker: usize, lost_after: u64) -> bool {
        let Some(due) = self.due(worker) else { return false };
        let timer = &self.workers[worker].alarm;
        let needed = Alarm::misses(timer.armed, timer.looks_at(due), self.now, lost_after);
        if needed {
            self.set_alarm(worker, due);
        }
        needed
    }

    fn set_alarm(&mut self, worker: usize, due: u64) {
        let Some(alarm) = self.rules.alarm else { return };
        let late = self.rules.mechanism.late.sample(&mut self.random);
        self.books.counts.sent += 1;
        let me = &mut self.workers[worker].alarm;
        me.armed = me.looks_at(alarm.at(due, self.now));
        me.rings = me.armed.max(self.now).saturating_add(late);
    }

    /// The timer has expired, and the worker looks whether its thread must stop.
    pub(super) fn ring(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        if me.stopped > self.now {
            // Nobody receives anything while the CPU is taken away.
            me.alarm.rings = me.stopped;
            self.schedule(worker);
            return;
        }
        me.alarm.is_off();
        // Before it is paid for, for it may be the one that can be.
        let due = self.due(worker);
        self.charge(worker);
        let running = self.workers[worker].running;
        if due.is_some_and(|due| is_due(due, self.now, SLOP))
            && running.is_some_and(|running| running.since <= self.now)
        {
            self.preempt(worker);
            return;
        }
        self.look_in_vain(worker);
        if let Some(pace) = self.rules.pace.filter(|_| running.is_some()) {
            let me = &mut self.workers[worker];
            me.alarm.later = pace.in_vain(me.alarm.later, me.long_at, self.now);
        }
        if let Some(due) = due {
            self.set_alarm(worker, due.max(self.affordable_at(worker)));
        }
        self.schedule(worker);
    }
}
