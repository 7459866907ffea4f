//! Going to sleep without missing work.
//!
//! ```text
//!  worker W                                        anybody who makes work
//!  -----------------------------------------       --------------------------------------
//!  1 bed = asleep; sleepers += 1                   a  put the task in a queue
//!  2 full fence                                    b  full fence
//!  3 look again: queues, timers, stop flag         c  if nobody is looking and somebody
//!      found: undo 1 and run it                          sleeps: asleep -> woken, count it
//!  4 sleep while bed == asleep                           as looking, woken -> awake, wake it
//! ```
//!
//! Of the two fences one is first in the total order: either W sees the task in step 3, or the
//! maker sees W in step c.
//!
//! Before step 1 a worker *looks* for a while ([`Workers::spin`]): all the time at what is its own
//! or shared, now and then at the queues of others. While one looks, makers wake nobody: the looker
//! will find the task. Whoever was counted as looking and stops doing so has the makers' trust to
//! honour: if it takes a task and more is there than it can take, it wakes the next sleeper, and if
//! nobody sleeps it tells the clock, because a busy worker must be interrupted then
//! ([`Workers::all_busy`]). So one wake-up leads to the next, and a burst wakes as many workers as
//! it needs. A woken worker is counted as looking by the one who wakes it, before it is awake.
//!
//! One of those that sleep may be the *listener*: it sleeps where the kernel tells of files
//! ([`reactor`](crate::reactor)) instead of in step 4's futex, so waking it is another call. It is
//! woken for other work only if nobody else sleeps. Work that it hears of is taken when it is awake
//! and counted as looking, as in the case of a timer. A worker that falls asleep without listening,
//! while nobody listens, looks for that, too, in step 3: files may have come into use since step 1.
//!
//! The protocol knows workers only through [`Workers`], so that loom can run it (`models`).

use crate::park::shim::{AtomicUsize, Futex, fence, os_yield};
use core::sync::atomic::Ordering::*;
use std::time::Duration;

/// What the protocol must know of the workers.
pub(crate) trait Workers {
    /// How many there are.
    fn count(&self) -> usize;
    /// Where a worker sleeps; the word is the protocol's.
    fn bed(&self, worker: usize) -> &Futex;
    /// The worker sleeps while its bed's word is `expected`; may return early.
    fn lie(&self, worker: usize, expected: u32, limit: Option<Duration>) {
        self.bed(worker).wait(expected, limit);
    }
    /// Ends the sleep of a worker whose bed's word was changed.
    fn rouse(&self, worker: usize) {
        self.bed(worker).wake();
    }
    /// Is there something for this worker to do: work, an expired timer, the end?
    fn ready(&self, worker: usize) -> bool;
    /// May this worker run something now? Others are not woken to look for work.
    fn may_work(&self, _worker: usize) -> bool {
        true
    }
    /// Looks for a while; `true` as soon as [`ready`](Workers::ready) is.
    fn spin(&self, worker: usize) -> bool;
    /// How long the worker may sleep, `None`: until it is woken. Called once for each sleep.
    fn sleep_limit(&self, worker: usize) -> Option<Duration>;
    /// What the listener has heard of.
    type Heard;
    /// May this worker be the listener? `true` to one at most, until it has
    /// [ended](Workers::end_listening).
    fn begin_listening(&self, worker: usize) -> bool;
    /// There should be a listener, and there is none.
    fn lacks_listener(&self) -> bool;
    /// The listener sleeps, until something happens, it is [called](Workers::call_listener), or the
    /// time is over. A call that comes before is not lost.
    fn listen(&self, worker: usize, limit: Option<Duration>) -> Self::Heard;
    /// Wakes the listener.
    fn call_listener(&self);
    /// The listener sleeps no more.
    fn end_listening(&self);
    /// Makes work of what was heard, on this worker, which is counted as looking.
    fn heard(&self, worker: usize, heard: Self::Heard);
    /// Is there more to do than one worker can take at once?
    fn is_plenty(&self) -> bool;
    /// Work waits, and no worker sleeps or looks.
    fn all_busy(&self);
}

/// Words of a bed: awake, asleep, being woken by somebody who has not finished yet, and asleep as
/// the listener.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const WOKEN: u32 = 2;
const LISTENING: u32 = 3;

/// Who sleeps and who looks. On cache lines of its own: workers write it whenever they run out of
/// work, and what lies around it is read all the time.
#[repr(align(128))]
pub(crate) struct Idle {
    sleepers: AtomicUsize,
    /// Workers that look for work, and those that have been woken to do so.
    looking: AtomicUsize,
}

impl Idle {
    pub(crate) fn new() -> Idle {
        Idle { sleepers: AtomicUsize::new(0), looking: AtomicUsize::new(0) }
    }

    /// How many look for work, or have been woken to do so.
    pub(crate) fn looking(&self) -> u64 {
        self.looking.load(Relaxed) as u64
    }

    /// Steps b and c: called after a task was made runnable. `true` if some worker will look for
    /// it.
    #[inline]
    pub(crate) fn wake_one(&self, workers: &impl Workers) -> bool {
        fence(SeqCst);
        if self.looking.load(Relaxed) != 0 {
            return true;
        }
        self.sleepers.load(Relaxed) != 0 && self.wake_any(workers)
    }

    #[cold]
    fn wake_any(&self, workers: &impl Workers) -> bool {
        // Files are heard of for as long as somebody else can be woken.
        self.wake_one_of(workers, ASLEEP) || self.wake_one_of(workers, LISTENING)
    }

    fn wake_one_of(&self, workers: &impl Workers, how: u32) -> bool {
        (0..workers.count()).any(|w| {
            workers.bed(w).word().load(Relaxed) == how
                && workers.may_work(w)
                && self.wake(workers, w, how)
        })
    }

    /// Wakes a worker that sleeps without listening, if there is one: when it falls asleep again it
    /// listens.
    pub(crate) fn wake_to_listen(&self, workers: &impl Workers) -> bool {
        fence(SeqCst);
        self.sleepers.load(Relaxed) != 0 && self.wake_one_of(workers, ASLEEP)
    }

    /// Wakes one worker, whose timer has changed. `false` if it was not asleep.
    pub(crate) fn wake_this(&self, workers: &impl Workers, worker: usize) -> bool {
        fence(SeqCst);
        [ASLEEP, LISTENING].into_iter().any(|how| self.wake(workers, worker, how))
    }

    fn wake(&self, workers: &impl Workers, worker: usize, how: u32) -> bool {
        let bed = workers.bed(worker);
        if bed.word().compare_exchange(how, WOKEN, AcqRel, Relaxed).is_err() {
            return false;
        }
        // Counted before it can be awake: until it has looked, nobody else need be woken. Not
        // before it is certain that it is woken: another maker would rely on a worker that never
        // looks.
        self.looking.fetch_add(1, SeqCst);
        self.sleepers.fetch_sub(1, Relaxed);
        bed.word().store(AWAKE, Release);
        if how == LISTENING {
            workers.call_listener()
        } else {
            workers.rouse(worker)
        }
        true
    }

    /// Wakes all, to stop.
    pub(crate) fn wake_all(&self, workers: &impl Workers) {
        while self.wake_any(workers) {}
    }

    /// Looks for work, first spinning, then asleep. Returns when there may be some. The caller has
    /// just found nothing.
    pub(crate) fn wait(&self, workers: &impl Workers, me: usize) {
        self.looking.fetch_add(1, SeqCst);
        while !workers.spin(me) {
            self.sleep(workers, me);
        }
        self.stop_looking(workers);
    }

    /// Steps 1 to 4. The caller is counted as looking, before and after.
    fn sleep(&self, workers: &impl Workers, me: usize) {
        let bed = workers.bed(me);
        let how = if workers.begin_listening(me) { LISTENING } else { ASLEEP };
        bed.word().store(how, SeqCst);
        self.sleepers.fetch_add(1, SeqCst);
        self.looking.fetch_sub(1, SeqCst);
        fence(SeqCst);
        let mut heard = None;
        if workers.ready(me) {
            // Up again.
        } else if how == LISTENING {
            heard = Some(workers.listen(me, workers.sleep_limit(me)));
        } else if !workers.lacks_listener() {
            workers.lie(me, ASLEEP, workers.sleep_limit(me));
        }
        self.get_up(bed, how);
        if how == LISTENING {
            workers.end_listening();
        }
        if let Some(heard) = heard {
            workers.heard(me, heard);
        }
    }

    /// Out of a bed, whoever has woken its worker.
    fn get_up(&self, bed: &Futex, how: u32) {
        loop {
            match bed.word().compare_exchange(how, AWAKE, AcqRel, Acquire) {
                // Nobody has woken it: a timer, a signal, a file, or step 3.
                Ok(_) => {
                    self.sleepers.fetch_sub(1, Relaxed);
                    self.looking.fetch_add(1, SeqCst);
                    return;
                }
                // Somebody has, and has counted it.
                Err(AWAKE) => return,
                // Somebody is about to count it.
                Err(_) => os_yield(),
            }
        }
    }

    /// This worker is about to take what it has found.
    fn stop_looking(&self, workers: &impl Workers) {
        if self.looking.fetch_sub(1, SeqCst) != 1 {
            return;
        }
        // Either a maker sees that nobody is looking, or this side sees its task.
        fence(SeqCst);
        if workers.is_plenty() && !self.wake_one(workers) {
            workers.all_busy();
        }
    }
}

#[cfg(all(test, loom))]
mod models;
