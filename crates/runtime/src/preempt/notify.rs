//! How a worker is told that it is to be preempted: one file for each notification.
//!
//! A request ([`request`](super::request)) goes through stages. The first is as cheap as the
//! notification can make it. One that may go unnoticed (a word that probes look at; a user
//! interrupt, which does not end a system call) has a second one, a signal, for when the first was
//! not taken in time.

use super::probe::Probes;
use super::signal::Signals;
use super::user_interrupt::UserInterrupts;
use crate::runtime::Inner;
use crate::tsc::Ticks;
use crate::uintr::Receiver;
use crate::worker::slot::Slot;

/// How urgently a worker is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// A request begins.
    First,
    /// The first was not taken in time, or would not be.
    Backstop,
}

/// Tells workers. Called from anywhere: a kernel thread, a handler, behind a gate; it neither
/// waits nor allocates.
pub(crate) trait Notifier: Sync {
    /// The calling kernel thread becomes a carrier of `rt`, and can be told once that has
    /// [begun](Notifier::begins).
    fn register(&self, rt: &Inner) -> Receiver;

    /// The calling kernel thread is a carrier of `rt`: `gs` says so.
    fn begins(&self, _rt: &Inner, _receiver: Receiver) {}

    /// It ceases to be one.
    fn ends(&self, _rt: &Inner, _receiver: Receiver) {}

    /// The calling kernel thread, which is no carrier, is going to tell workers often.
    fn attach(&self, _rt: &Inner) {}

    /// The calling carrier, which is `receiver`, has taken `slot`.
    fn takes(&self, _rt: &Inner, _slot: &Slot, _receiver: Receiver) {}

    /// Tells the carrier of `slot`, whose request is under way. `false`: it has none, or cannot be
    /// told.
    fn notify(&self, rt: &Inner, slot: &Slot, stage: Stage) -> bool;
}

/// What `rt` uses.
fn notifier(rt: &Inner) -> &'static dyn Notifier {
    if rt.probes() {
        &Probes
    } else if rt.user_interrupts.is_some() {
        &UserInterrupts
    } else {
        &Signals
    }
}

/// See [`Notifier::register`].
pub(crate) fn register(rt: &Inner) -> Receiver {
    notifier(rt).register(rt)
}

/// See [`Notifier::begins`].
pub(crate) fn begins(rt: &Inner, receiver: Receiver) {
    notifier(rt).begins(rt, receiver);
}

/// See [`Notifier::ends`].
pub(crate) fn ends(rt: &Inner, receiver: Receiver) {
    notifier(rt).ends(rt, receiver);
}

/// See [`Notifier::attach`].
pub(crate) fn attach(rt: &Inner) {
    notifier(rt).attach(rt);
}

/// See [`Notifier::takes`].
pub(crate) fn takes(rt: &Inner, slot: &Slot, receiver: Receiver) {
    notifier(rt).takes(rt, slot, receiver);
}

/// Sends a request to preempt the dispatch `run` of `slot`, which begins with `stage`. At most one
/// is under way; one that was not taken in time goes on to its second stage. `true` if sent.
pub(crate) fn send(rt: &Inner, slot: &Slot, run: u64, now: Ticks, stage: Stage) -> bool {
    if !slot.request.begin(run, now, rt.lost_after, stage == Stage::Backstop) {
        // The second costs more, perhaps more than can be paid for yet.
        if rt.second_stage != 0
            && slot.affordable_at() <= now
            && slot.request.is_late(now, rt.second_stage)
        {
            tell(rt, slot, Stage::Backstop);
        }
        return false;
    }
    let sent = tell(rt, slot, stage);
    if !sent {
        slot.request.over();
    }
    sent
}

/// Notifies, and counts it: before it arrives, lest more seem to be received than were sent.
fn tell(rt: &Inner, slot: &Slot, stage: Stage) -> bool {
    slot.stats.preempt_sent.add_shared(1, true);
    let sent = notifier(rt).notify(rt, slot, stage);
    if !sent {
        slot.stats.preempt_sent.take_back(1);
    }
    sent
}
