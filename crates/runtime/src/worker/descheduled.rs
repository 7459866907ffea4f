//! Workers whose kernel thread has lost its CPU. (Scheduler activations, seen from outside; Skyloft
//! section 6.)
//!
//! ```text
//!  kernel program, at a switch              thread quaver-monitor
//!  -----------------------------------      --------------------------------------------------
//!  carrier with a slot leaves the CPU:      sleeps until the bell rings
//!    state = preempted or asleep            silences the bell, then looks at each slot's carrier
//!    rings the bell                           asleep, others wait: takes the slot, if it can
//!  carrier comes back:                        away: what waits in its queue goes to others
//!    state = on CPU                                 (Policy::worker_lost), and timers that expire
//! ```
//!
//! The running thread of such a worker stays with it: its registers are in the kernel. A slot is
//! taken only in a page fault, by the rules of [`fault`]. All else works whatever the states say,
//! since tasks and timers are taken under their queues' own rules, while their worker may run: a
//! state that is old, or wrong, moves work without need and nothing more.
//!
//! Races:
//!
//! * The bell is silenced before the states are read, so what happens later rings again.
//! * A task is in no queue for an instant. The thread is a maker of work then: it wakes sleepers,
//!   or tells the clock, after it has queued the task anew ([`idle`](crate::idle)).
//! * The carrier may have lost its CPU while it held a lock that the thread wants. Such locks yield
//!   and nap, until it is back; then there is nothing to be done any more.
//! * Who gives way to a thread of its own process rings no bell: that is another worker, or a
//!   thread that runs for microseconds.
//! * The thread may sleep on the CPU that is taken. It and a sleeping clock, which the others need
//!   to be interrupted, have a rank ([`Watcher`](crate::kernel_thread::ThreadPurpose)).
//!
//! While a carrier sleeps in a fault the thread looks again by itself, less and less often: there
//! was no spare, or others came later.

use crate::clock::rescue;
use crate::monitor::Monitor;
use crate::os::turns;
use crate::preempt::fault::{self, Attempt};
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::os::fd::AsRawFd;
use std::time::Duration;

const ON_CPU: u32 = 0;
const ASLEEP: u32 = 2;

/// No word of the monitor's.
pub(crate) const UNSEEN: u32 = u32::MAX;

/// Between two looks at a carrier asleep: the first time, and at most.
const AGAIN: Duration = Duration::from_micros(250);
const AGAIN_AT_MOST: Duration = Duration::from_millis(50);

/// A runtime's monitor.
pub(crate) struct Descheduled {
    monitor: &'static dyn Monitor,
    /// Whose bits are set are carriers' numbers.
    numbers: Box<[AtomicU64]>,
    /// The monitor's, where programs choose no descriptors.
    bell: i32,
    /// Readable: the thread must end.
    stop: i32,
}

impl Descheduled {
    /// `None`: no descriptor is left for it.
    pub(crate) fn new(monitor: &'static dyn Monitor) -> Option<Descheduled> {
        let numbers = (0..monitor.states().len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let out_of_the_way = |fd| sys::duplicate(fd, sys::OUT_OF_THE_WAY).ok();
        let stop = sys::eventfd().ok()?;
        let bell = out_of_the_way(monitor.bell().as_raw_fd())?;
        Some(Descheduled { monitor, numbers, bell, stop })
    }

    /// A number for a carrier that begins; [`UNSEEN`]: there are none left.
    pub(crate) fn enter(&self) -> u32 {
        let most = self.monitor.states().len() as u32;
        for (at, word) in self.numbers.iter().enumerate() {
            let mut bits = word.load(Relaxed);
            while bits != u64::MAX {
                let bit = bits.trailing_ones();
                let number = at as u32 * 64 + bit;
                if number >= most {
                    return UNSEEN;
                }
                match word.compare_exchange(bits, bits | 1 << bit, AcqRel, Relaxed) {
                    Ok(_) => return number,
                    Err(now) => bits = now,
                }
            }
        }
        UNSEEN
    }

    /// The carrier ends.
    pub(crate) fn leave(&self, number: u32) {
        if number != UNSEEN {
            self.numbers[number as usize / 64].fetch_and(!(1 << (number % 64)), AcqRel);
        }
    }

    /// Wakes the thread, to stop.
    pub(crate) fn wake(&self) {
        sys::signal_eventfd(self.stop);
    }

    /// Has any worker lost its CPU?
    pub(crate) fn any_away(&self) -> bool {
        self.monitor.away().load(Acquire) > 0
    }

    pub(crate) fn is_on_cpu(&self, slot: &Slot) -> bool {
        self.state_of(slot) == ON_CPU
    }

    fn state_of(&self, slot: &Slot) -> u32 {
        let word = self.monitor.states().get(slot.seen_as.load(Relaxed) as usize);
        word.map_or(ON_CPU, |word| word.load(Relaxed))
    }

    /// Until the bell rings, or the time is over: whether it has rung. `None`: somebody has closed
    /// the descriptors.
    fn wait(&self, limit: Option<Duration>) -> Option<bool> {
        let file = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut files = [file(self.bell), file(self.stop)];
        let waited = sys::poll_all(&mut files, limit).is_ok();
        let closed = files.iter().any(|file| file.revents & libc::POLLNVAL != 0);
        (!closed).then_some(waited && files[0].revents != 0)
    }
}

/// When the thread looks again by itself.
#[derive(Default)]
struct Next {
    /// A timer of a worker that is away expires.
    timer: Option<Ticks>,
    /// A carrier sleeps in a fault with its slot.
    asleep: bool,
}

/// Does what can be done for workers that are away.
fn pass(rt: &Inner, all: &Descheduled) -> Next {
    let mut next = Next::default();
    all.monitor.silence();
    if !all.any_away() {
        return next;
    }
    for slot in rt.slots() {
        let state = all.state_of(slot);
        if state == ON_CPU {
            continue;
        }
        let run = slot.run.load(Acquire);
        if state == ASLEEP && run != 0 && rt.user_interrupts.is_none() {
            if rescue::is_wanted(rt, slot) && fault::take_slot(rt, slot, run) == Attempt::Taken {
                continue;
            }
            next.asleep = true;
        }
        if rt.alone {
            continue;
        }
        take_over(rt, slot);
        let timer = Some(slot.next_timer.load(Relaxed)).filter(|&timer| timer != NEVER);
        next.timer = next.timer.into_iter().chain(timer).min();
    }
    next
}

/// What waits at `slot` goes to others.
fn take_over(rt: &Inner, slot: &Slot) {
    let now = tsc::now();
    let moved = rt.policy.worker_lost(slot.id, now);
    rt.stats.taken_over.add_shared(moved as u64, true);
    for _ in 0..moved {
        if !rt.idle.wake_one(rt) {
            rt.clock.work_somewhere(rt);
            break;
        }
    }
    slot.fire_timers_for_others(now);
}

/// The thread.
pub(crate) fn run(rt: &'static Inner) {
    let Some(all) = &rt.descheduled else { return };
    sys::set_minimal_timer_slack();
    turns::shorten();
    let mut again = AGAIN;
    while !rt.stopping.load(Acquire) {
        let next = pass(rt, all);
        let timer = next.timer.map(|at| tsc::to_duration(at.saturating_sub(tsc::now())));
        let limit = next.asleep.then_some(again).into_iter().chain(timer).min();
        again = match all.wait(limit) {
            Some(true) => AGAIN,
            Some(false) => (again * 2).min(AGAIN_AT_MOST),
            None => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicI64, AtomicU32};
    use std::os::fd::{AsFd, BorrowedFd};

    struct Few(Vec<AtomicU32>, AtomicI64);

    impl Monitor for Few {
        fn states(&self) -> &[AtomicU32] {
            &self.0
        }

        fn away(&self) -> &AtomicI64 {
            &self.1
        }

        fn bell(&self) -> BorrowedFd<'_> {
            static STDIN: std::sync::LazyLock<std::io::Stdin> =
                std::sync::LazyLock::new(std::io::stdin);
            STDIN.as_fd()
        }

        fn silence(&self) {}
    }

    #[test]
    fn each_carrier_has_a_number_of_its_own() {
        let few = Few((0..70).map(|_| AtomicU32::new(0)).collect(), AtomicI64::new(0));
        let all = Descheduled::new(Box::leak(Box::new(few))).unwrap();
        let numbers: Vec<u32> = (0..70).map(|_| all.enter()).collect();
        assert_eq!(numbers, (0..70).collect::<Vec<_>>());
        assert_eq!(all.enter(), UNSEEN);
        all.leave(UNSEEN);
        all.leave(66);
        all.leave(3);
        assert_eq!([all.enter(), all.enter(), all.enter()], [3, 66, UNSEEN]);
    }
}
