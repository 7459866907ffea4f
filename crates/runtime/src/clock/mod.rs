#![doc = include_str!("README.md")]

mod delegated;
mod duty;
pub(crate) mod lookers;
mod posix;
mod price;
pub(crate) mod rescue;
mod sleep;
mod timer_core;
mod timer_thread;

use crate::config::Clock;
use crate::platform;
use crate::preempt::{self, Stage, probe};
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicU64, Ordering::*};
use posix::PosixTimer;
use quaver_sched::clock::is_due;
use timer_core::TimerCore;
use timer_thread::TimerThread;

pub(crate) use delegated::ticks;
pub(crate) use duty::shares;
pub(crate) use posix::try_posix_timer;
pub(crate) use price::{paces, price, taxes};
pub(crate) use sleep::Sleep;

/// Confines the calling clock's thread to the CPUs that it was given, or to those that no pinned
/// worker has. A clock that shares a worker's CPU takes the worker's time, two context switches for
/// each decision.
fn leave_workers_alone(rt: &Inner) {
    let cpus = &rt.config.clock_cpus;
    if !cpus.is_empty()
        && let Err(e) = sys::pin_to_cpus(cpus)
    {
        let cpus = platform::format_cpu_list(cpus);
        let error = std::io::Error::from_raw_os_error(e);
        eprintln!("quaver: cannot confine the clock to CPU {cpus}: {error}");
    }
}

/// When makers of work look for a thread that is due again. They write it all the time.
#[repr(align(128))]
pub(crate) struct NextLook {
    at: AtomicU64,
}

impl NextLook {
    pub(crate) const fn new() -> NextLook {
        NextLook { at: AtomicU64::new(0) }
    }
}

/// The clock of a runtime.
#[expect(clippy::large_enum_variant, reason = "there is one in each runtime, in its place")]
pub(crate) enum Running {
    /// No quantum: nothing is ever preempted.
    Off,
    Posix(PosixTimer),
    Thread(TimerThread),
    Core(TimerCore),
    /// The workers' own CPUs.
    Delegated,
}

impl Running {
    /// The clock for `kind`, not yet started.
    pub(crate) fn new(kind: Clock, quantum: Option<Ticks>) -> Running {
        let Some(quantum) = quantum else { return Running::Off };
        match kind {
            Clock::TimerCore => Running::Core(TimerCore::new()),
            Clock::TimerThread => Running::Thread(TimerThread::new(quantum)),
            Clock::DelegatedTimer => Running::Delegated,
            Clock::PosixTimer | Clock::Auto => Running::Posix(PosixTimer::new(quantum)),
        }
    }

    /// The body of the clock's own kernel thread, if it has one.
    pub(crate) fn thread(&self) -> Option<fn(&'static Inner)> {
        match self {
            Running::Off | Running::Posix(_) | Running::Delegated => None,
            Running::Thread(_) => Some(timer_thread::run),
            Running::Core(_) => Some(timer_core::run),
        }
    }

    /// The POSIX timer of a new carrier, or -1.
    pub(crate) fn carrier_timer(&self, tid: i32, signal: i32) -> i32 {
        match self {
            // A delegated one may be refused.
            Running::Posix(_) | Running::Delegated => PosixTimer::for_carrier(tid, signal),
            _ => -1,
        }
    }

    /// The slot's carrier has begun to run a thread.
    #[inline(always)]
    pub(crate) fn dispatched(&self, slot: &Slot) {
        if slot.rt().probes() {
            probe::dispatched(slot);
        }
        match self {
            Running::Off | Running::Core(_) | Running::Delegated => {}
            Running::Posix(c) => c.dispatched(slot),
            Running::Thread(c) => c.look_at(slot),
        }
    }

    /// A thread was queued behind the one that the slot's carrier has begun to run, and nobody was
    /// told: [`dispatched`](Running::dispatched) comes next.
    #[inline(always)]
    pub(crate) fn queued_behind(&self) {
        if let Running::Thread(_) = self {
            Sleep::publish();
        }
    }

    /// The slot's running thread, on whose carrier this is called with the gate closed, has made
    /// something runnable and keeps running: until the gate opens, if it must give way at once
    /// (`true`).
    #[inline]
    pub(crate) fn work_here(&self, slot: &Slot) -> bool {
        preempt::assert_disabled();
        if let Running::Off = self {
            return false;
        }
        let rt = slot.rt();
        if rt.grants_quantum && !rt.probes() && self.serves_a_quantum(slot) {
            return false;
        }
        let Some((_, due)) = slot.policy_due() else { return false };
        if is_due(due, slot.run_since(), 0) {
            // No signal is needed, so nothing has to be paid for, nor put off.
            slot.flag_running();
            return true;
        }
        self.tell_probes(slot);
        match self {
            Running::Off | Running::Core(_) | Running::Delegated => {}
            Running::Posix(c) => c.due_here(slot, slot.not_before().max(due)),
            Running::Thread(c) => {
                Sleep::publish();
                c.look_at(slot);
            }
        }
        false
    }

    /// [`work_here`](Running::work_here), where the running thread has a quantum to itself: sees to
    /// it that the clock looks when that is over. `false`: the policy must be asked.
    #[inline(always)]
    fn serves_a_quantum(&self, slot: &Slot) -> bool {
        match self {
            Running::Off | Running::Core(_) | Running::Delegated => true,
            Running::Posix(c) => c.is_in_time(slot),
            Running::Thread(c) => {
                Sleep::publish();
                c.look_at(slot);
                true
            }
        }
    }

    /// Something is there for the worker of `slot`, or will be when a timer expires; the caller has
    /// fenced since.
    #[inline]
    pub(crate) fn work_on(&self, slot: &Slot) {
        self.tell_probes(slot);
        match self {
            Running::Off | Running::Core(_) | Running::Delegated => {}
            Running::Posix(c) => c.look_at(slot),
            Running::Thread(c) => c.look_at(slot),
        }
    }

    /// Something became runnable that no idle worker will take; the caller has fenced since.
    #[inline]
    pub(crate) fn work_somewhere(&self, rt: &Inner) {
        let told = self.tell_busy(rt);
        match self {
            Running::Off | Running::Core(_) | Running::Delegated => {}
            // Where a request may go unnoticed the clock must know of it, for its second stage.
            _ if told && rt.second_stage == 0 => {}
            Running::Posix(c) => c.work_somewhere(rt),
            Running::Thread(c) => c.look_at_all(rt),
        }
    }

    /// If something waits for the slot's worker, its thread times itself from its next probe on.
    #[inline(always)]
    pub(crate) fn tell_probes(&self, slot: &Slot) {
        if slot.rt().probes() && slot.near_due().is_some() {
            probe::arm_running(slot);
        }
    }

    /// A request for the slot was put off until `at`.
    pub(crate) fn arm(&self, slot: &Slot, at: Ticks, now: Ticks) {
        match self {
            Running::Off | Running::Core(_) | Running::Delegated => {}
            Running::Posix(c) => c.arm(slot, at, now),
            Running::Thread(c) => c.sleep.nudge(),
        }
    }

    /// The same for a worker's own timer, where it has one: a clock's thread finds `retry_at` by
    /// itself.
    pub(crate) fn arm_own_timer(&self, slot: &Slot, at: Ticks, now: Ticks) {
        if let Running::Posix(c) = self {
            c.arm(slot, at, now);
        }
    }

    /// Is this clock to look at a busy worker until `soon`, because others wait there?
    pub(crate) fn will_look(&self, slot: &Slot, now: Ticks, soon: Ticks) -> bool {
        match self {
            Running::Off => false,
            Running::Posix(_) => {
                let armed = slot.armed.load(Relaxed);
                (now..=soon).contains(&armed)
            }
            Running::Thread(_) | Running::Core(_) | Running::Delegated => {
                slot.policy_due().is_some_and(|(_, due)| due <= soon)
            }
        }
    }

    /// Has the worker a timer of its own, which will not fire?
    pub(crate) fn own_timer_is_off(&self, slot: &Slot) -> bool {
        matches!(self, Running::Posix(_)) && slot.armed.load(Relaxed) == tsc::NEVER
    }

    /// A request was judged before the running thread's quantum was over: one is due at its end,
    /// but not before the thread has got somewhere.
    pub(crate) fn arm_for_run(&self, slot: &Slot, due: Ticks, now: Ticks) {
        match self {
            Running::Posix(c) => c.arm_for_run(slot, due, now),
            _ => self.arm(slot, due, now),
        }
    }

    /// Wakes the clock's thread, to stop.
    pub(crate) fn wake(&self) {
        if let Running::Thread(c) = self {
            c.sleep.nudge();
        }
    }

    /// Work has arrived. If some worker's thread has had its quantum already, or must give way to
    /// it, whoever brought the work interrupts it at once: waking a timer thread that sends the
    /// same signal, or setting a timer that has expired already, would cost both time and another
    /// interruption. `true` if a request was sent. It is sent to one: another one that stopped
    /// would find the work taken. If nobody can be told yet, threads time themselves from now on
    /// where there are probes.
    ///
    /// Who comes too soon after a look that found nobody leaves it to the clock: a look reads what
    /// all workers write.
    fn tell_busy(&self, rt: &Inner) -> bool {
        let sends = matches!(self, Running::Posix(_) | Running::Thread(_));
        let begun = tsc::now();
        if !sends && !rt.probes() || begun < rt.next_look.at.load(Relaxed) {
            return false;
        }
        let overdue = |slot: &Slot| {
            // The clock sends what a thread may have missed.
            let Some((run, due, stage @ Stage::First)) = slot.told() else { return false };
            let now = tsc::now();
            is_due(due, now, 0) && preempt::send(rt, slot, run, now, stage)
        };
        let sent = sends && rt.any_slot(overdue);
        if !sent {
            if rt.probes() {
                rt.slots().iter().for_each(|slot| self.tell_probes(slot));
            }
            rt.next_look.at.store(begun + rt.look_every, Relaxed);
        }
        sent
    }
}
