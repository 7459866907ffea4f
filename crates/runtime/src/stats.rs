//! Counters.

use crate::preempt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One counter with one usual writer.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds without a locked instruction. Only the slot's carrier, with preemption disabled, may
    /// use it.
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        preempt::assert_disabled();
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds; `shared` says that others may be adding too.
    #[inline(always)]
    pub(crate) fn add_shared(&self, n: u64, shared: bool) {
        if shared {
            self.0.fetch_add(n, Relaxed);
        } else {
            self.add(n);
        }
    }

    /// What was added did not happen after all. Others may be adding.
    pub(crate) fn take_back(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of one slot, or of everything that is done outside slots.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) const fn new() -> Counters {
                Counters { $($name: Counter::new(),)* }
            }
        }

        /// What a runtime has done since it started: sums over all workers. Values of different
        /// counters are read one after the other and may be a little out of step while the runtime
        /// works.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Counters>) -> Stats {
                let mut s = Stats::default();
                for c in all {
                    $(s.$name = s.$name.wrapping_add(c.$name.get());)*
                }
                s
            }

            /// What happened between `earlier` and this.
            #[must_use]
            pub fn since(&self, earlier: &Stats) -> Stats {
                let blocked_now = self.blocked_now;
                let counts = Stats { $($name: self.$name.wrapping_sub(earlier.$name),)* };
                Stats { blocked_now, ..counts }
            }

            /// Names and values, in the order of their declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// User threads created.
    spawned,
    /// User threads that have ended.
    completed,
    /// Dispatches: how often a worker began to run a user thread.
    switches,
    /// Times that a worker took work from another.
    steals,
    /// Times that an idle worker went to sleep in the kernel.
    sleeps,
    /// Timers that expired: sleeps and timed waits that ended by time.
    timers_fired,
    /// User threads that were woken because a file was ready.
    file_wakes,
    /// Times that the watcher listened for files, because all workers were busy for long.
    file_watches,
    /// Slots given to a spare kernel thread because a user thread blocked in the kernel.
    handovers,
    /// Those among them that were taken from a kernel thread asleep in a page fault
    /// ([`Builder::fault_look`](crate::Builder::fault_look)).
    fault_handovers,
    /// User threads that waited where the kernel had taken the worker's CPU, and were given to
    /// others ([`Builder::monitor`](crate::Builder::monitor)).
    taken_over,
    /// Threads that are blocked in the kernel without a worker at this moment, or wait to be. Not a
    /// count of what happened: in a difference it is the later value.
    blocked_now,
    /// Times that a thread blocked when [`Builder::max_blocking`](crate::Builder::max_blocking)
    /// kernel threads were blocked already, or the system lent no more, and had to wait outside the
    /// kernel.
    blocking_limit_reached,
    /// What was sent for preemption requests: user interrupts, words that probes look at, signals
    /// (also those that follow where one of the former was not taken in time), or expiries of armed
    /// POSIX timers. Ticks of delegated timers are not counted.
    preempt_sent,
    /// Preemption requests that reached a worker running a user thread.
    preempt_received,
    /// Requests put off: inside a non-preemptible region or in code that may hold a lock of the C
    /// library.
    preempt_deferred,
    /// Requests dropped: meant for a dispatch that was over, or nothing waited any more.
    preempt_stale,
    /// Preemptions that led to a switch.
    preempt_useful,
    /// Those of them that were taken at a probe in instrumented code.
    preempt_at_probe,
    /// Threads that gave way without a request, at a call on a file: after their quantum, or
    /// because others waited when they had got their next request without waiting for it.
    preempt_at_call,
    /// Bells of other applications that share the worker's core and were answered at a probe.
    bells_answered,
    /// Threads that went on on another worker than the one that they were preempted on. Those are
    /// not counted whose preemption had been put off to the end of a region.
    preempt_migrated,
    /// User interrupts that reached a worker.
    preempt_by_user_interrupt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences() {
        let (a, b) = (Counters::new(), Counters::new());
        a.switches.add(3);
        b.switches.add_shared(4, true);
        b.steals.add_shared(1, false);
        let s = Stats::sum([&a, &b].into_iter());
        assert_eq!((s.switches, s.steals), (7, 1));
        a.switches.add(1);
        assert_eq!(Stats::sum([&a, &b].into_iter()).since(&s).switches, 1);
        assert!(s.iter().any(|x| x == ("switches", 7)));
    }
}
