//! Notification by a word that probes in instrumented code look at.
//!
//! ```text
//!   whoever brings work                       the running thread, at a probe
//!   -------------------------------           -------------------------------------------
//!   passes = 0, word = 1 in its               word set: counts down; below 0 it looks
//!   control block                             at the clock (`on_probe`)
//!   a timer, two quanta late:                   nobody waits           word = 0
//!   the signal, where no probe                  not due yet            passes for about 1 us
//!   was met                                     due                    switches
//! ```
//!
//! No kernel is involved, and the thread stops where it called a function, so nothing but the
//! registers that live must be kept. A word set for a thread that has been switched out meanwhile
//! does no harm: its next probe finds that nobody waits. Nothing is paid for it: a look costs some
//! 20 ns.
//!
//! A probe in a section of the runtime or in a region of the user leaves the flag that its end
//! looks at, as a signal does.
//!
//! (Aspen, section 2.2, by Concord's probes; there a core keeps time. Here threads time
//! themselves.)

use super::notify::{Notifier, Stage};
use super::signal::Signals;
use crate::arch::probe::{PASSES, WORD};
use crate::arch::segment;
use crate::runtime::Inner;
use crate::thread::control::Uthread;
use crate::thread::raw;
use crate::tsc;
use crate::worker::carrier::Carrier;
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use quaver_sched::Why;
use std::time::Duration;

/// Sets words; the signal is the second stage.
pub(crate) struct Probes;

impl Notifier for Probes {
    fn register(&self, rt: &Inner) {
        Signals.register(rt);
    }

    fn notify(&self, rt: &Inner, slot: &Slot, stage: Stage) -> bool {
        match stage {
            Stage::First => arm_running(slot),
            Stage::Backstop => Signals.notify(rt, slot, Stage::First),
        }
    }
}

/// How a slot's threads find out how often to look at the clock: about once in [`LOOK`].
pub(crate) struct Pacing {
    passes: AtomicU32,
    looked_at: AtomicU64,
}

/// Between two looks at the clock.
const LOOK: Duration = Duration::from_micros(1);
/// However quickly probes are met.
const MOST_PASSES: u32 = 1 << 16;

impl Pacing {
    pub(crate) const fn new() -> Pacing {
        Pacing { passes: AtomicU32::new(0), looked_at: AtomicU64::new(0) }
    }

    /// A look at `now`, too early by `left`: how many probes to let pass before the next.
    fn after(&self, now: tsc::Ticks, left: tsc::Ticks) -> i32 {
        let look = tsc::from_duration(LOOK).max(1);
        let took = now.saturating_sub(self.looked_at.swap(now, Relaxed)).max(1);
        let passes = u64::from(self.passes.load(Relaxed)) + 1;
        // As many as would have taken `look`, but no more than twice as many as last time.
        let passes = (passes * look / took).min(2 * passes).min(MOST_PASSES.into());
        self.passes.store(passes.saturating_sub(1) as u32, Relaxed);
        // The last look is on time.
        (passes * left.min(look) / look).saturating_sub(1) as i32
    }
}

fn word(tp: usize) -> &'static AtomicU8 {
    // SAFETY: a reserved byte of a control block, which stays while its runtime does.
    unsafe { &*((tp + WORD) as *const AtomicU8) }
}

fn passes(tp: usize) -> &'static AtomicI32 {
    // SAFETY: as above.
    unsafe { &*((tp + PASSES) as *const AtomicI32) }
}

/// The next probe of `t` looks at the clock. From anywhere. `false`: it has no words.
#[inline]
pub(crate) fn arm(t: &Uthread) -> bool {
    let tp = t.fs.get();
    if tp != 0 {
        passes(tp).store(0, Relaxed);
        word(tp).store(1, Release);
    }
    tp != 0
}

/// The same for the thread that runs on `slot`, if one does.
#[inline]
pub(crate) fn arm_running(slot: &Slot) -> bool {
    slot.running().is_some_and(|(_, running)| arm(slot.rt().table.get(running.task.0)))
}

/// A probe was met while the word was set. Called by the entries on the thread's own stack, with
/// what lives there saved.
pub(crate) extern "C" fn on_probe() {
    word(segment::fs_base()).store(0, Relaxed);
    let Some(t) = raw::current() else { return };
    if t.no_preempt.get() != 0 || t.regions.get() != 0 {
        t.deferred.set(true);
        return;
    }
    t.preempt_disable();
    // SAFETY: `t` is the calling thread, preemption is disabled.
    unsafe { look(t) };
    t.preempt_enable();
}

/// Is it time? Then the thread gives way.
///
/// # Safety
///
/// `t` is the calling thread, with preemption disabled.
unsafe fn look(t: &'static Uthread) {
    // SAFETY: preemption is disabled, and the reference is dropped before the switch.
    let Some(slot) = (unsafe { Carrier::here() }).slot() else { return };
    let (rt, now) = (slot.rt(), tsc::now());
    slot.met_probe();
    // Whatever was asked, here it is answered.
    slot.request.over();
    let due = slot.policy_due().map(|(_, due)| due);
    if let Some(due) = due.filter(|&due| due > now + rt.timer_slop) {
        let tp = t.fs.get();
        passes(tp).store(slot.pacing.after(now, due - now), Relaxed);
        word(tp).store(1, Relaxed);
    }
    let is_due = due.is_some_and(|due| due <= now + rt.timer_slop);
    if (is_due || rt.stopping.load(Relaxed))
        // SAFETY: the caller's contract.
        && unsafe { scheduler::leave_if_work(t, Why::Preempted) }
    {
        slot.stats.preempt_useful.add_shared(1, true);
        slot.stats.preempt_at_probe.add_shared(1, true);
    }
}
