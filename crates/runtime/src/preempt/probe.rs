//! Notification by a word that probes in instrumented code look at.
//!
//! ```text
//!   whoever brings work                       the running thread, at a probe
//!   -------------------------------           -------------------------------------------
//!   "asked", word = 1 in its                  word set: counts down; below 0 it looks
//!   control block                             at the clock (`on_probe`)
//!   a timer, two quanta late:                   not due yet            counts for 3/4 of the time
//!   the signal, where no probe                  due                    switches
//!   was met                                     nobody waits           word = 0
//! ```
//!
//! While the word is set each probe counts, which takes up to a fifth of a loop's time. So what is
//! due in more than ten interruptions ([`FAR`]), or cannot be paid for before, is left to the
//! clock: its thread sets the word then, a worker's own timer sends the signal.
//!
//! No kernel is involved, and the thread stops where it called a function, so nothing but the
//! registers that live must be kept. A word set for a thread that has been switched out meanwhile
//! does no harm: its next probe finds that nobody waits. Looks are not paid for, preemptions at
//! probes are, with a part of what one by a signal costs ([`price`]).
//!
//! A probe in a section of the runtime or in a region of the user leaves the flag that its end
//! looks at, as a signal does.
//!
//! (Aspen, section 2.2, by Concord's probes; there a core keeps time. Here threads time
//! themselves.)
//!
//! Of a best-effort application that [shares its cores](crate::share) the word is set at each
//! dispatch and at each look, whatever the notification is: a look also answers the bells of the
//! core. Regions keep no bell waiting.

use super::extension;
use super::notify::{Notifier, Stage};
use super::signal::Signals;
use crate::arch::probe::{PASSES, WORD};
use crate::arch::{fence, segment};
use crate::clock::lookers;
use crate::runtime::Inner;
use crate::thread::control::{Uthread, deferred};
use crate::thread::raw;
use crate::tsc;
use crate::uintr::Receiver;
use crate::worker::carrier::Carrier;
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use quaver_sched::Why;
use std::time::Duration;

/// Sets words; the signal is the second stage.
pub(crate) struct Probes;

impl Notifier for Probes {
    fn register(&self, rt: &Inner) -> Receiver {
        Signals.register(rt)
    }

    fn notify(&self, rt: &Inner, slot: &Slot, stage: Stage) -> bool {
        match stage {
            Stage::First => arm_running(slot),
            Stage::Backstop => Signals.notify(rt, slot, Stage::First),
        }
    }
}

/// How a thread finds out how often to look at the clock: after three quarters of the time that is
/// left, since the probes to come may be slower than those that were met. Kept from one dispatch to
/// the next, for the thread goes on where it was.
///
/// Written by the thread and by the carrier that dispatches it, but for `asked`.
pub(crate) struct Pacing {
    /// How many probes are met between two looks, by the last count.
    rate: AtomicU32,
    /// When the last look or dispatch was, and how many probes were to be met before the next.
    looked_at: AtomicU64,
    awaited: AtomicU32,
    /// No look before this time needs more than the clock, unless somebody has asked since; 0: each
    /// does.
    due: AtomicU64,
    asked: AtomicBool,
    /// When somebody asked.
    asked_at: AtomicU64,
}

/// Between two looks at the clock, at least. A look takes a twentieth of it.
const LOOK: Duration = Duration::from_micros(1);
/// The same at most, in looks.
const APART: u64 = 16;
/// Probes in the least time between two looks, however quickly they are met: those to come may be a
/// hundred times slower.
const MOST: u64 = 256;
/// For a thread of which nothing has been counted yet.
const FIRST: u32 = 16;

/// What is further off than so many interruptions is told by the clock.
pub(crate) const FAR: tsc::Ticks = 10;

/// What a preemption at a probe is taken to cost where one by a signal takes `price`. It takes some
/// 0.3 µs itself; but while somebody waits the looks take time too, caches are colder afterwards,
/// and near saturation every preemption makes long threads late.
pub(crate) fn price(price: tsc::Ticks) -> tsc::Ticks {
    (price / 4).max(least())
}

/// How a look came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// As many probes were met as the last look had said.
    Counted,
    /// Somebody asked, or the thread goes on after a switch.
    Asked,
}

impl Pacing {
    pub(crate) const fn new() -> Pacing {
        Pacing {
            rate: AtomicU32::new(FIRST),
            looked_at: AtomicU64::new(0),
            awaited: AtomicU32::new(1),
            due: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            asked_at: AtomicU64::new(0),
        }
    }

    /// Another thread begins in the same place.
    pub(crate) fn begin(&self) {
        self.rate.store(self.rate.load(Relaxed).min(FIRST), Relaxed);
    }

    /// Forgets what was asked, and sees what was brought before.
    #[inline(always)]
    fn answer(&self) {
        if self.asked.load(Relaxed) {
            self.asked.swap(false, Acquire);
        }
    }

    /// Whether the thread has not looked since it was dispatched at `since`.
    pub(crate) fn lacks_probes(&self, since: tsc::Ticks) -> bool {
        self.looked_at.load(Relaxed) <= since
    }

    /// The thread stops at `now`, where `left` probes were still to be met before the next look.
    fn stops(&self, now: tsc::Ticks, left: i32, look: tsc::Ticks) {
        let took = now.saturating_sub(self.looked_at.load(Relaxed));
        let met = i64::from(self.awaited.load(Relaxed)) - 1 - i64::from(left);
        if took >= look && met >= 0 {
            self.counted(met as u64, took, look);
        }
    }

    /// So many probes were met in the time that it `took`. Rates change from loop to loop, and a
    /// look that comes late costs more than one that comes early: who meets few is believed at
    /// once, who meets many by and by.
    #[inline(always)]
    fn counted(&self, met: u64, took: tsc::Ticks, look: tsc::Ticks) -> u64 {
        let before = u64::from(self.rate.load(Relaxed));
        let rate = (met * look / took).clamp(1, before + before / 4 + 1).min(MOST);
        self.rate.store(rate as u32, Relaxed);
        rate
    }

    /// A look at `now`, too early by `left`, where `look` is the least time between two: how many
    /// probes to let pass before the next.
    #[inline(always)]
    fn after(&self, cause: Cause, now: tsc::Ticks, left: tsc::Ticks, look: tsc::Ticks) -> i32 {
        let took = now.saturating_sub(self.looked_at.load(Relaxed)).max(1);
        self.looked_at.store(now, Relaxed);
        let rate = u64::from(self.rate.load(Relaxed));
        let rate = match cause {
            Cause::Counted => self.counted(u64::from(self.awaited.load(Relaxed)), took, look),
            Cause::Asked => rate,
        };
        // The last look is on time.
        let span = (left / 4 * 3).clamp(look, APART * look).min(left);
        let awaited = (rate * span / look).max(1);
        self.awaited.store(awaited as u32, Relaxed);
        awaited as i32 - 1
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

/// As a count: somebody asked. A stub may subtract 1 from it, so all below the other are meant.
const ASKED: i32 = i32::MIN / 2;
const ASKED_AT_MOST: i32 = i32::MIN / 4;

/// The next probe of `t` looks at more than the clock. From anywhere. `false`: it has no words.
#[inline]
pub(crate) fn arm(t: &Uthread) -> bool {
    let tp = t.fs.get();
    if tp != 0 {
        // Who asks again is not answered later.
        if !t.pacing.asked.load(Relaxed) {
            t.pacing.asked_at.store(tsc::now(), Relaxed);
        }
        // A stub may overwrite the count with an older one. Then the next look sees this.
        t.pacing.asked.store(true, Release);
        passes(tp).store(ASKED, Relaxed);
        word(tp).store(1, Release);
    }
    tp != 0
}

/// The same for the thread that runs on `slot`, if one does.
#[inline]
pub(crate) fn arm_running(slot: &Slot) -> bool {
    slot.running().is_some_and(|(_, running)| arm(slot.rt().table.get(running.task.0)))
}

/// Does the thread that runs on `slot` look for what waits? If so, when it was asked to last, or 0.
pub(crate) fn told_running(slot: &Slot) -> Option<tsc::Ticks> {
    let (_, running) = slot.running()?;
    let t = slot.rt().table.get(running.task.0);
    let tp = t.fs.get();
    (tp == 0 || word(tp).load(Relaxed) != 0).then(|| t.pacing.asked_at.load(Relaxed))
}

/// The slot's carrier has dispatched a thread. If something waits, it looks at the clock in time,
/// by what has been counted before.
///
/// Who brings work fences, and tells the thread that it finds recorded as running: it sees this
/// dispatch, or the work is seen here.
#[inline]
pub(crate) fn dispatched(slot: &Slot) {
    let rt = slot.rt();
    let t = rt.table.get(slot.run_task.load(Relaxed));
    if t.fs.get() == 0 {
        return;
    }
    t.pacing.answer();
    fence(SeqCst);
    let Some(due) = slot.near_due() else { return };
    if rt.share.is_some() {
        // Bells are looked for from the first probe on.
        arm(t);
        return;
    }
    let now = slot.run_since();
    look_again(t, Cause::Asked, now, due.saturating_sub(now), due);
}

/// The thread `t` stops at `now`, wherever. By the slot's carrier.
#[inline]
pub(crate) fn stops(t: &Uthread, now: tsc::Ticks) {
    let tp = t.fs.get();
    if tp != 0 && word(tp).load(Relaxed) != 0 {
        let left = passes(tp).load(Relaxed);
        if left > ASKED_AT_MOST {
            t.pacing.stops(now, left, least());
        }
    }
}

/// A probe was met while the word was set. Called by the entries on the thread's own stack, with
/// what lives there saved.
pub(crate) extern "C" fn on_probe() {
    let Some(t) = raw::current() else {
        word(segment::fs_base()).store(0, Relaxed);
        return;
    };
    if only_looks(t) {
        return;
    }
    t.pacing.answer();
    // Who brings work after this swap asks again; what was brought before is seen below.
    word(t.fs.get()).swap(0, SeqCst);
    let is_in_region = t.no_preempt.get() != 0 || t.regions.get() != 0;
    t.preempt_disable();
    if is_in_region {
        t.deferred.set(deferred::ASKED);
        // SAFETY: preemption is disabled.
        if let Some(slot) = unsafe { Carrier::here() }.slot()
            && answers_bells(slot)
        {
            look_again(t, Cause::Counted, tsc::now(), least(), 0);
        }
        t.preempt_enable_only();
        return;
    }
    // SAFETY: `t` is the calling thread, preemption is disabled.
    unsafe { look(t) };
    t.preempt_enable();
}

/// Is it too early for what waits, and has nobody asked for more? Most looks end here. They touch
/// nothing but what is the thread's own, so it may be interrupted and moved meanwhile.
#[inline(always)]
fn only_looks(t: &Uthread) -> bool {
    let (tp, due) = (t.fs.get(), t.pacing.due.load(Relaxed));
    if due == 0 || t.pacing.asked.load(Acquire) || passes(tp).load(Relaxed) <= ASKED_AT_MOST {
        return false;
    }
    let (now, look) = (tsc::now(), least());
    // As far off as the clock need not be exact.
    let is_early = now + look / 2 < due;
    if is_early {
        passes(tp).store(t.pacing.after(Cause::Counted, now, due - now, look), Relaxed);
    }
    is_early
}

/// Of a best-effort application that shares its cores: answers the bells that ring. Whether it is
/// one.
fn answers_bells(slot: &Slot) -> bool {
    let rt = slot.rt();
    let Some(share) = rt.share.as_ref().filter(|_| !rt.has_stopped()) else { return false };
    let Some(answered) = share.look(slot.id) else { return false };
    if answered != 0 {
        slot.stats.bells_answered.add_shared(answered as u64, true);
    }
    true
}

/// The least time between two looks.
#[inline(always)]
fn least() -> tsc::Ticks {
    static LEAST: AtomicU64 = AtomicU64::new(0);
    match LEAST.load(Relaxed) {
        0 => {
            LEAST.store(tsc::from_duration(LOOK).max(1), Relaxed);
            LEAST.load(Relaxed)
        }
        least => least,
    }
}

/// The thread must look again in `left`: at the clock alone until `due`.
#[inline]
fn look_again(t: &Uthread, cause: Cause, now: tsc::Ticks, left: tsc::Ticks, due: tsc::Ticks) {
    let tp = t.fs.get();
    t.pacing.due.store(due, Relaxed);
    passes(tp).store(t.pacing.after(cause, now, left, least()), Relaxed);
    word(tp).store(1, Relaxed);
}

/// Is it time? Then the thread gives way.
///
/// # Safety
///
/// `t` is the calling thread, with preemption disabled.
unsafe fn look(t: &'static Uthread) {
    // SAFETY: preemption is disabled, and the reference is dropped before the switch.
    let Some(slot) = (unsafe { Carrier::here() }).slot() else { return };
    let rt = slot.rt();
    let cause = match passes(t.fs.get()).load(Relaxed) {
        ..=ASKED_AT_MOST => Cause::Asked,
        _ => Cause::Counted,
    };
    let looks_on = answers_bells(slot);
    let now = tsc::now();
    if looks_on && !rt.probes() {
        // Told by something else.
        return look_again(t, cause, now, least(), 0);
    }
    // Whatever was asked, here it is answered.
    slot.request.over();
    let mut due = slot.due_at_probe();
    if let (Some((due, _)), Cause::Counted) = (&mut due, cause) {
        *due = lookers::may_take(rt, *due);
    }
    let is_due = due.is_some_and(|(due, _)| due <= now + rt.timer_slop);
    if is_due {
        t.outlived.set(false);
        slot.charge_at_probe(now);
    }
    match due {
        Some((due, true)) if !is_due => {
            // Nobody asks for a bell.
            let (left, until) =
                if looks_on { ((due - now).min(least()), 0) } else { (due - now, due) };
            look_again(t, cause, now, left, until);
        }
        _ if looks_on => look_again(t, cause, now, least(), 0),
        _ => t.pacing.looked_at.store(now, Relaxed),
    }
    if is_due && extension::prolong(slot, t, now) {
        // Each probe looks, until the last mutex is free or the bound is reached.
        arm(t);
        return;
    }
    if (is_due || rt.stopping.load(Relaxed))
        // SAFETY: the caller's contract.
        && unsafe { scheduler::leave_if_work(t, Why::Preempted) }
    {
        slot.stats.preempt_useful.add_shared(1, true);
        slot.stats.preempt_at_probe.add_shared(1, true);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause::*, *};

    const LOOK: tsc::Ticks = 1000;

    /// Looks of a thread that meets a probe every `each` ticks and has `left`: how many it lets
    /// pass, from its dispatch on.
    fn passes(
        pacing: &Pacing,
        now: &mut u64,
        each: u64,
        left: tsc::Ticks,
        looks: usize,
    ) -> Vec<i32> {
        let causes = core::iter::once(Asked).chain(core::iter::repeat(Counted));
        let look = |cause| {
            let passes = pacing.after(cause, *now, left, LOOK);
            *now += each * (passes as u64 + 1);
            passes
        };
        causes.take(looks).map(look).collect()
    }

    #[test]
    fn looks_come_to_be_as_far_apart_as_they_should() {
        let (pacing, mut now) = (Pacing::new(), 1 << 20);
        assert_eq!(passes(&pacing, &mut now, 100, LOOK, 4), [FIRST as i32 - 1, 9, 9, 9]);
        // However quick a loop is.
        assert_eq!(passes(&pacing, &mut now, 1, LOOK, 24)[23], MOST as i32 - 1);
        // The next dispatch goes on so, and another thread does not.
        assert_eq!(passes(&pacing, &mut now, 1, LOOK, 1), [MOST as i32 - 1]);
        pacing.begin();
        assert_eq!(passes(&pacing, &mut now, 5000, LOOK, 3), [FIRST as i32 - 1, 0, 0]);
    }

    #[test]
    fn looks_take_three_quarters_of_what_is_left() {
        let (pacing, mut now) = (Pacing::new(), 1 << 20);
        passes(&pacing, &mut now, 100, LOOK, 8);
        let due = now + 12 * LOOK;
        let mut seen = Vec::new();
        while now < due {
            let passes = pacing.after(Counted, now, due - now, LOOK);
            seen.push(passes);
            now += 100 * (passes as u64 + 1);
        }
        assert_eq!(seen, [89, 21, 7], "and is on time");
        // Where there is much time, or no end to it.
        for left in [100 * LOOK, tsc::Ticks::MAX] {
            assert_eq!(pacing.after(Asked, now, left, LOOK), APART as i32 * 10 - 1);
        }
    }

    /// A count that was too long for what came, so that something else has stopped the thread.
    #[test]
    fn a_thread_that_stops_before_it_looks_has_counted() {
        let (pacing, mut now) = (Pacing::new(), 1 << 20);
        passes(&pacing, &mut now, 100, LOOK, 8);
        let left = pacing.after(Asked, now, 8 * LOOK, LOOK);
        assert_eq!(left, 59);
        pacing.stops(now + LOOK / 2, left - 5, LOOK);
        assert_eq!(pacing.after(Asked, now, LOOK, LOOK), 9, "too short a time to tell");
        let left = pacing.after(Asked, now, 8 * LOOK, LOOK);
        pacing.stops(now + 5 * LOOK, left - 10, LOOK);
        assert_eq!(pacing.after(Asked, now, LOOK, LOOK), 1);
    }

    #[test]
    fn who_asks_often_changes_nothing() {
        let (pacing, mut now) = (Pacing::new(), 1 << 20);
        let rate = *passes(&pacing, &mut now, 100, LOOK, 8).last().unwrap();
        for _ in 0..100 {
            now += 20;
            assert_eq!(pacing.after(Asked, now, LOOK, LOOK), rate);
        }
    }

    #[test]
    fn the_last_look_is_on_time() {
        let (pacing, mut now) = (Pacing::new(), 1 << 20);
        passes(&pacing, &mut now, 100, LOOK, 8);
        assert_eq!(pacing.after(Counted, now, 500, LOOK), 4);
        // Few were awaited, and counted as few.
        assert_eq!(pacing.after(Counted, now + 500, LOOK, LOOK), 9);
        assert_eq!(pacing.after(Asked, now + 1500, 1, LOOK), 0);
    }

    #[test]
    fn a_thread_that_only_was_dispatched_has_met_no_probe() {
        let pacing = Pacing::new();
        pacing.after(Asked, 1000, LOOK, LOOK);
        assert!(pacing.lacks_probes(1000) && !pacing.lacks_probes(999));
        pacing.after(Counted, 1500, LOOK, LOOK);
        assert!(!pacing.lacks_probes(1000) && pacing.lacks_probes(1500));
    }
}
