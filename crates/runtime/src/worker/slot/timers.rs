//! The slot's timers, of which a thread has one at most.

use super::Slot;
use crate::thread::control::Uthread;
use crate::tsc::{NEVER, Ticks};
use core::sync::atomic::Ordering::Relaxed;
use quaver_sched::TimerRoom;

/// Timers that a pick fires at most.
const MOST_EXPIRIES: usize = 16;

impl Slot {
    /// Wakes threads whose timers have expired, a few: the lock spins, and nothing is preempted
    /// meanwhile. While there are more, `next_timer` stays in the past, so the next pick goes on.
    #[cold]
    pub(crate) fn fire_timers(&self, now: Ticks) {
        let rt = self.rt();
        let mut heap = self.timers.lock();
        for task in core::iter::from_fn(|| heap.pop_expired(now)).take(MOST_EXPIRIES) {
            self.stats.timers_fired.add(1);
            crate::thread::raw::unpark_from(rt, Some(self), rt.table.get(task.0));
        }
        self.next_timer.store(heap.peek().unwrap_or(NEVER), Relaxed);
    }

    /// Wakes threads whose timers have expired, for any worker: this one is not running. From
    /// anywhere; who takes a timer out of the heap has it.
    pub(crate) fn fire_timers_for_others(&self, now: Ticks) {
        let rt = self.rt();
        while now >= self.next_timer.load(Relaxed) {
            let mut heap = self.timers.lock();
            let expired = heap.pop_expired(now);
            self.next_timer.store(heap.peek().unwrap_or(NEVER), Relaxed);
            drop(heap);
            let Some(task) = expired else { return };
            rt.stats.timers_fired.add_shared(1, true);
            crate::thread::raw::unpark_from(rt, None, rt.table.get(task.0));
        }
    }

    /// Sets a thread's timer. A thread has one at most, in one slot. The error is how many timers
    /// to make room for first: nothing may be allocated here, because the allocator's lock may be
    /// held by a preempted thread.
    pub(crate) fn set_timer(&self, t: &Uthread, at: Ticks) -> Result<(), usize> {
        let mut heap = self.timers.lock();
        if let Some(room) = heap.room_wanted() {
            return Err(room);
        }
        heap.insert(t.task(), at);
        self.next_timer.store(heap.peek().unwrap_or(NEVER), Relaxed);
        Ok(())
    }

    /// Gives the timers more room; returns what is to be freed. From any thread.
    pub(crate) fn give_room(&self, room: TimerRoom) -> TimerRoom {
        self.timers.lock().exchange_room(room)
    }

    /// Cancels a thread's timer if it is still set here.
    pub(crate) fn cancel_timer(&self, t: &Uthread) {
        let mut heap = self.timers.lock();
        if heap.cancel(t.task()) {
            self.next_timer.store(heap.peek().unwrap_or(NEVER), Relaxed);
        }
    }
}
