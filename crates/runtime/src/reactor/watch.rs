//! The watcher: a kernel thread that listens for files while all workers are busy for long.
//!
//! It does not sleep in the epoll instance, which would hand it the listener's wake-ups: it waits
//! for the instance to become readable, and takes events as a worker would. While threads are short
//! it looks seldom ([`Pace`]), more so where clocks look anyway: who is stopped polls. While nobody
//! waits for files, or no worker is busy, it does not look at all.
//!
//! It also rings the [bells](bell) that workers have put off and do not come to.

use super::{REACTOR, bell};
use crate::clock::Sleep;
use crate::os::turns;
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use quaver_sched::clock::Pace;
use std::time::Duration;

/// Without a quantum, a thread that has run for so long runs long. And bells wait no longer while
/// it listens.
const LONG: Duration = Duration::from_millis(1);
/// Looks that find nothing to watch before it sleeps until there is.
const LINGER: u32 = 32;
/// It listens no longer than this without a look at the workers.
const PATIENCE: Duration = Duration::from_millis(100);

/// Its bed, and whether it exists.
pub(crate) struct Watch {
    sleep: Sleep,
    /// A thread that has run for so long runs long; 0: it can be of no use.
    quantum: Ticks,
    wanted: AtomicBool,
    started: AtomicBool,
    tid: AtomicI32,
}

impl Watch {
    pub(crate) fn new(quantum: Option<Ticks>, workers: usize) -> Watch {
        // The only worker of a runtime without preemption hears of arrivals when it can run them.
        let quantum = match quantum {
            None if workers == 1 => 0,
            None => tsc::from_duration(LONG),
            Some(quantum) => quantum.max(1),
        };
        Watch {
            sleep: Sleep::new(),
            quantum,
            wanted: AtomicBool::new(false),
            started: AtomicBool::new(false),
            tid: AtomicI32::new(0),
        }
    }

    /// A thread waits for a file, and is counted; or a bell is due.
    pub(super) fn is_wanted(&self, rt: &Inner) {
        if self.quantum == 0 {
        } else if self.wanted.load(Relaxed) {
            Sleep::publish();
            self.sleep.wants(|| Some(0));
        } else if !self.wanted.swap(true, AcqRel) {
            rt.spares.wake_keeper();
        }
    }

    /// A worker has begun to run a thread after it had nothing to do; the caller has fenced since.
    #[inline]
    pub(crate) fn worker_is_busy(&self) {
        self.sleep.wants(|| Some(0));
    }

    /// Must it be started? Asked by the keeper of the spares.
    pub(crate) fn is_to_start(&self) -> bool {
        self.wanted.load(Acquire) && !self.started.swap(true, AcqRel)
    }

    /// It could not be started: the keeper asks again.
    pub(crate) fn has_not_started(&self) {
        self.started.store(false, Release);
    }

    /// Wakes it, to stop.
    pub(crate) fn wake(&self, rt: &Inner) {
        self.sleep.nudge();
        let tid = self.tid.load(SeqCst);
        if tid != 0 {
            let _ = sys::tgkill(rt.pid, tid, rt.config.signal);
        }
    }
}

/// What a look at the workers has found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outlook {
    /// Nobody waits for a file, or no worker is busy.
    Nothing,
    /// A worker listens, or one has polled within the last quantum, or all will poll before one of
    /// their threads could be interrupted for an arrival; until that time.
    Short(Ticks),
    /// No thread has been long lately, and a clock looks at each busy worker soon, because others
    /// wait there, too: if threads run for long, it stops them, and that worker polls.
    Watched,
    /// A thread may be interrupted, and nobody has asked for files for a quantum.
    Long,
}

/// Looks at the workers at `now`. `calm`: no thread has been long lately.
fn look(rt: &Inner, calm: bool, now: Ticks) -> Outlook {
    if !REACTOR.is_awaited() {
        return Outlook::Nothing;
    }
    // While threads are short a dispatch seems to have begun a little earlier than it has.
    let busy = || rt.slots().iter().filter(|slot| slot.run_since() != 0);
    let over = |since: Ticks| since + rt.watch.quantum;
    let first = busy().map(|slot| slot.affordable_at().max(over(slot.run_since()))).min();
    let Some(first) = first else { return Outlook::Nothing };
    let polled = rt.slots().iter().map(Slot::polled_at).max().unwrap_or(0);
    let at = first.max(over(polled));
    let soon = now + tsc::from_duration(Pace::MOST);
    if calm && busy().all(|slot| rt.clock.will_look(slot, now, soon)) {
        Outlook::Watched
    } else if at <= now && !REACTOR.has_listener() {
        Outlook::Long
    } else {
        Outlook::Short(at)
    }
}

/// How long it pauses between looks.
struct Gait {
    quantum: Ticks,
    pace: Option<Pace>,
    later: Ticks,
    long_at: Ticks,
}

impl Gait {
    /// Has no thread outlived its quantum lately?
    fn is_calm(&self) -> bool {
        self.later != 0
    }

    /// After a look at `now` that has found this; a thread has outlived its quantum last at
    /// `long_at`.
    fn pause(&mut self, found: Outlook, long_at: Ticks, now: Ticks) -> Ticks {
        self.long_at = self.long_at.max(long_at);
        if let Some(pace) = &self.pace {
            self.later = pace.in_vain(self.later, self.long_at, now);
        }
        let pause = self.quantum + self.later;
        match found {
            // As late as a clock may be.
            Outlook::Watched => pause.max(tsc::from_duration(Pace::MOST)),
            // A bell needs no preemption, so it does not wait until one can be paid for.
            Outlook::Short(at) if !bell::exists() => pause.max(at.saturating_sub(now)),
            _ => pause,
        }
    }
}

/// The kernel thread.
pub(crate) fn run(rt: &'static Inner) {
    let watch = &rt.watch;
    watch.tid.store(sys::gettid(), SeqCst);
    sys::set_minimal_timer_slack();
    turns::shorten();
    let mut gait = Gait { quantum: watch.quantum, pace: rt.pace, later: 0, long_at: 0 };
    // Has the last arrival let a quantum pass?
    let mut is_rare = false;
    let mut quiet = 0;
    while !rt.stopping.load(Relaxed) {
        watch.sleep.begin_to_look();
        if bell::is_due() {
            bell::ring_all();
        }
        let now = tsc::now();
        let found = look(rt, gait.is_calm(), now);
        quiet = if found == Outlook::Nothing { quiet + 1 } else { 0 };
        let long_at = rt.slots().iter().map(|slot| slot.long_at.load(Relaxed)).max();
        let pause = gait.pause(found, long_at.unwrap_or(0), now);
        let listens = match found {
            Outlook::Long => true,
            Outlook::Short(at) => {
                let soon = at <= now + watch.quantum && !REACTOR.has_listener();
                is_rare && !gait.is_calm() && soon && !bell::exists()
            }
            Outlook::Nothing | Outlook::Watched => false,
        };
        // A worker that sleeps is better: it runs at once what it hears of.
        if listens && !rt.idle.wake_to_listen(rt) {
            let came = listen(rt);
            is_rare = came && tsc::now() - now >= watch.quantum;
            if came {
                continue;
            }
        }
        if quiet < LINGER {
            watch.sleep.nap(tsc::to_duration(pause));
        } else if watch.sleep.announce()
            && !rt.stopping.load(Relaxed)
            && !bell::is_due()
            && look(rt, false, tsc::now()) == Outlook::Nothing
        {
            watch.sleep.sleep(u64::MAX, None);
        }
    }
}

/// Waits until a file is ready, and wakes who waits for it: arrivals are work like any other that
/// comes from outside. `false`: nothing came of it.
fn listen(rt: &Inner) -> bool {
    let Some(epoll) = REACTOR.instance() else { return false };
    rt.stats.file_watches.add_shared(1, true);
    let mut file = [libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 }];
    // A bell that is put off meanwhile does not wake it.
    let patience = if bell::exists() { LONG } else { PATIENCE };
    let _ = sys::ppoll(&mut file, Some(patience), rt.config.signal);
    file[0].revents != 0 && !rt.stopping.load(Relaxed) && REACTOR.poll(rt, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_seldom_while_threads_are_short() {
        tsc::init();
        let us = |us| tsc::from_duration(Duration::from_micros(us));
        let (quantum, price) = (us(50), us(10));
        let pace = Some(Pace::new(quantum, price, tsc::from_duration));
        let mut gait = Gait { quantum, pace, later: 0, long_at: 0 };
        let now = us(1_000_000);
        let mut pause = |found, long_at| gait.pause(found, long_at, now);
        // A long one has just been there.
        assert_eq!(pause(Outlook::Short(now), now), quantum);
        assert!(!gait.is_calm());
        gait.long_at = 0;
        let mut pause = |found| (0..10).map(|_| gait.pause(found, 0, now)).max();
        assert_eq!(pause(Outlook::Short(now)), Some(5 * quantum));
        assert!(gait.is_calm());
        let mut pause = |found| gait.pause(found, 0, now);
        assert_eq!(pause(Outlook::Watched), us(1_000));
        assert_eq!(pause(Outlook::Long), 5 * quantum, "nobody is stopped any more");
    }
}
