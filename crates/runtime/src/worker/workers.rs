//! The workers as [`idle`](crate::idle) knows them.

use crate::idle::Workers;
use crate::park::shim::Futex;
use crate::reactor::{Events, REACTOR};
use crate::runtime::Inner;
use crate::share::Share;
use crate::tsc::{self, NEVER, Ticks};
use core::sync::atomic::Ordering::*;
use std::time::Duration;

/// How often workers without work look, all together, at what waits at others. A look takes lines
/// of the cache away from a worker that runs short threads: looking all the time makes it several
/// times slower. What waits there for longer has a worker that runs something else.
const ELSEWHERE: Duration = Duration::from_micros(1);

impl Inner {
    /// Must `worker` do something else than run what waits?
    fn is_due(&self, worker: usize, now: Ticks) -> bool {
        self.slots()[worker].next_timer.load(Relaxed) <= now || self.stopping.load(Acquire)
    }
}

impl Workers for Inner {
    fn count(&self) -> usize {
        self.slots().len()
    }

    fn bed(&self, worker: usize) -> &Futex {
        &self.slots()[worker].bed
    }

    fn lie(&self, worker: usize, expected: u32, limit: Option<Duration>) {
        self.slots()[worker].asleep(|| match &self.share {
            Some(share) => share.wait(worker, self.bed(worker), expected, limit),
            None => self.bed(worker).wait(expected, limit),
        });
    }

    fn rouse(&self, worker: usize) {
        match &self.share {
            // A forked child has no bells, and nobody to wake.
            Some(share) if !self.has_stopped() => share.wake(worker, self.bed(worker)),
            _ => self.bed(worker).wake(),
        }
    }

    fn ready(&self, worker: usize) -> bool {
        self.policy.has_work(worker) || self.is_due(worker, tsc::now())
    }

    fn may_work(&self, worker: usize) -> bool {
        let away = self.share.as_ref().is_some_and(|share| share.is_away(worker));
        !away || self.stopping.load(Acquire)
    }

    fn spin(&self, worker: usize) -> bool {
        let slot = &self.slots()[worker];
        let mut now = tsc::now();
        let until = slot.patience.until(now);
        let (between, mut elsewhere) = (tsc::from_duration(ELSEWHERE), now);
        loop {
            let looks_elsewhere = now >= elsewhere;
            let found = match looks_elsewhere {
                true => self.policy.has_work(worker),
                false => self.policy.has_work_at_hand(worker),
            } || self.is_due(worker, now)
                || REACTOR.is_awaited() && REACTOR.poll(self, Some(slot));
            now = tsc::now();
            if looks_elsewhere {
                elsewhere = now + between * self.idle.looking();
            }
            if found {
                slot.patience.found(now);
                return true;
            }
            if now >= until || !self.may_work(worker) {
                return false;
            }
            core::hint::spin_loop();
        }
    }

    fn sleep_limit(&self, worker: usize) -> Option<Duration> {
        let slot = &self.slots()[worker];
        slot.stats.sleeps.add(1);
        let timer = slot.next_timer.load(Relaxed);
        if timer != NEVER {
            tsc::catch_up();
        }
        (timer != NEVER).then(|| tsc::to_duration(timer.saturating_sub(tsc::now())))
    }

    type Heard = Events;

    fn begin_listening(&self, worker: usize) -> bool {
        REACTOR.begin_listening(worker)
    }

    fn lacks_listener(&self) -> bool {
        REACTOR.lacks_listener()
    }

    fn listen(&self, worker: usize, limit: Option<Duration>) -> Events {
        self.slots()[worker].asleep(|| REACTOR.listen(limit))
    }

    fn call_listener(&self) {
        REACTOR.call_listener();
    }

    fn end_listening(&self) {
        REACTOR.end_listening();
    }

    fn heard(&self, worker: usize, events: Events) {
        REACTOR.deliver(self, Some(&self.slots()[worker]), &events);
    }

    fn is_plenty(&self) -> bool {
        let filled = self.share.as_ref().is_some_and(Share::fills_cores);
        self.slots().len() > 1 && !filled && self.policy.waiting() > 1
    }

    fn all_busy(&self) {
        self.clock.work_somewhere(self);
    }
}
