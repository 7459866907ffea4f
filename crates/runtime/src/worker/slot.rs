//! A worker slot: queues' identity, timers, thread pool, and the words that clocks read.

mod account;
mod calls;
mod due;
mod lost;
mod polls;
mod timers;

use crate::clock::rescue::LastLook;
use crate::lateness;
use crate::os::turns;
use crate::park::SpinLock;
use crate::park::shim::Futex;
use crate::preempt::{Request, probe};
use crate::reactor::bell;
use crate::runtime::Inner;
use crate::stats::Counters;
use crate::thread::control::{Uthread, deferred};
use crate::thread::raw;
use crate::thread::table::LocalPool;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::carrier::Carrier;
use crate::worker::descheduled::UNSEEN;
use crate::worker::patience::WorkerPatience;
use calls::Calls;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence,
};
use lost::Lost;
use polls::Polls;
use quaver_sched::clock::Pace;
use quaver_sched::{Class, Pick, Policy, Running, Task, TimerHeap, Why};

/// The lowest bit of a `run` word: the thread had been preempted before. The rest is the dispatch
/// time.
const RUN_PREEMPTED: u64 = 1;

/// As the time for which a timer is set: it has fired into a section, or into another handler, and
/// has left a flag for its end. A time long past.
pub(crate) const FLAGGED: Ticks = 1;

/// Switches in a row at which the time is not read.
const UNREAD: u32 = 7;

/// One worker.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// The run generation: dispatch time and class of the running thread, 0 when none runs.
    pub(crate) run: AtomicU64,
    /// The running thread's handle; meaningful while `run` is not 0.
    pub(crate) run_task: AtomicU32,
    /// When the earliest timer of this slot expires.
    pub(crate) next_timer: AtomicU64,
    /// When the slot's carrier asks for files that have become ready; earlier when it has nothing
    /// else to run.
    polls: Polls,
    /// POSIX timer clock: when the carrier's timer will fire; [`FLAGGED`]; or NEVER when it is off.
    pub(crate) armed: AtomicU64,

    /// The generation that a forced request was made in: until it is over, the running thread is
    /// due.
    #[cfg(feature = "inspect")]
    pub(crate) forced: AtomicU64,
    /// The request under way.
    pub(crate) request: Request,
    /// The generation in which the request under way is a rescue: only a thread that blocks heeds
    /// it.
    pub(crate) rescue: AtomicU64,
    /// What the threads that look for those that block know, each its own.
    pub(crate) seen: [LastLook; 2],
    calls: Calls,
    /// What pays for preemptions ([`account`]), and when the worker went on after it had nothing to
    /// do. Written by the slot's carrier only.
    account: AtomicU64,
    rested_at: AtomicU64,
    /// The last generation in which it was interrupted.
    charged_run: AtomicU64,
    /// When this worker tells the others' clocks again that work waits. Used by the slot's carrier
    /// only.
    tells_at: AtomicU64,
    /// When the kernel is asked again whether a carrier that comes back may run here.
    lets_back_at: AtomicU64,
    /// When a thread has outlived its quantum last, and how much later this worker's timer is set
    /// meanwhile (see [`Pace`]). Written by the slot's carrier only.
    pub(crate) long_at: AtomicU64,
    pub(crate) later: AtomicU64,
    lost: Lost,
    /// The last time that is known, and how many dispatches there have been since it was read. Used
    /// by the slot's carrier only.
    known_at: AtomicU64,
    unread: AtomicU32,
    /// Since when the running thread is due and not told, because somebody [looks for
    /// work](crate::clock::lookers); 0: it is not. The clock's thread only.
    pub(crate) left_since: AtomicU64,
    /// No further request before this time; 0: none of this dispatch was put off.
    pub(crate) retry_at: AtomicU64,
    /// How long the next request of this dispatch is put off if it comes at a bad moment.
    pub(crate) retry_delay: AtomicU64,
    /// The generation of the last dispatch in which a request was put off, and when that was for
    /// the first time.
    put_off_run: AtomicU64,
    put_off_since: AtomicU64,
    /// How late preemptions came that were put off.
    pub(crate) lateness: lateness::Counts,
    /// The kernel thread that has the slot, and its state.
    pub(crate) tid: AtomicI32,
    pub(crate) carrier: AtomicPtr<Carrier>,
    /// The carrier's number for the monitor.
    pub(crate) seen_as: AtomicU32,
    /// Its POSIX timer.
    pub(crate) timer: AtomicI32,
    /// It can be reached by a user interrupt.
    pub(crate) interruptible: AtomicBool,
    /// The kernel thread, this slot's carrier, to which its route for ticks leads, or 0. Used by
    /// the carrier only.
    pub(crate) ticks_for: AtomicI32,
    /// Where the carrier sleeps for lack of work, and how long it looks for some before.
    pub(crate) bed: Futex,
    pub(crate) patience: WorkerPatience,

    pub(crate) id: usize,
    /// The CPU to run on, if workers are pinned.
    pub(crate) cpu: Option<usize>,
    rt: &'static Inner,
    policy: &'static dyn Policy,
    pub(crate) timers: SpinLock<TimerHeap>,
    pool: UnsafeCell<LocalPool>,
    pub(crate) stats: Counters,
}

// SAFETY: everything else is shareable; `pool` is used by the slot's carrier only.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) fn new(
        id: usize,
        cpu: Option<usize>,
        rt: &'static Inner,
        policy: &'static dyn Policy,
        timers: TimerHeap,
    ) -> Slot {
        Slot {
            run: AtomicU64::new(0),
            run_task: AtomicU32::new(0),
            next_timer: AtomicU64::new(NEVER),
            polls: Polls::new(),
            armed: AtomicU64::new(NEVER),
            #[cfg(feature = "inspect")]
            forced: AtomicU64::new(0),
            request: Request::new(),
            rescue: AtomicU64::new(0),
            seen: [const { LastLook::new() }; 2],
            calls: Calls::new(),
            account: AtomicU64::new(0),
            charged_run: AtomicU64::new(0),
            rested_at: AtomicU64::new(tsc::now()),
            tells_at: AtomicU64::new(0),
            lets_back_at: AtomicU64::new(0),
            long_at: AtomicU64::new(0),
            later: AtomicU64::new(0),
            lost: Lost::new(),
            known_at: AtomicU64::new(0),
            unread: AtomicU32::new(0),
            left_since: AtomicU64::new(0),
            retry_at: AtomicU64::new(0),
            retry_delay: AtomicU64::new(rt.retry),
            put_off_run: AtomicU64::new(0),
            put_off_since: AtomicU64::new(0),
            lateness: lateness::Counts::new(),
            tid: AtomicI32::new(0),
            carrier: AtomicPtr::new(core::ptr::null_mut()),
            seen_as: AtomicU32::new(UNSEEN),
            timer: AtomicI32::new(0),
            interruptible: AtomicBool::new(false),
            ticks_for: AtomicI32::new(0),
            bed: Futex::new(0),
            patience: WorkerPatience::new(rt.idle_spin),
            id,
            cpu,
            rt,
            policy,
            timers: SpinLock::new(timers),
            pool: UnsafeCell::new(LocalPool::new()),
            stats: Counters::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn rt(&self) -> &'static Inner {
        self.rt
    }

    #[inline(always)]
    pub(crate) fn policy(&self) -> &dyn Policy {
        self.policy
    }

    /// The slot's thread pool.
    ///
    /// # Safety
    ///
    /// The caller is the slot's carrier with preemption disabled, and keeps no other reference to
    /// the pool.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "exclusive by the contract")]
    pub(crate) unsafe fn pool(&self) -> &mut LocalPool {
        self.assert_ours();
        // SAFETY: by the contract.
        unsafe { &mut *self.pool.get() }
    }

    /// The caller is the slot's carrier, and stays it. Looked at in debug builds only.
    #[inline(always)]
    #[track_caller]
    fn assert_ours(&self) {
        // SAFETY: attached, hence a carrier, on which the caller stays, as `here` looks itself.
        let is_ours = || raw::attached() && unsafe { ptr::eq(Carrier::here().slot.get(), self) };
        debug_assert!(is_ours(), "the slot is not the calling carrier's");
    }

    /// The pool's share of the number of threads in use: a racy look from anywhere.
    pub(crate) fn pool_balance(&self) -> isize {
        // SAFETY: in bounds; a word that its owner may be writing, whose value is exact only at
        // rest.
        unsafe { core::ptr::read_volatile(LocalPool::balance_of(self.pool.get())) }
    }

    /// Records a dispatch.
    #[inline(always)]
    pub(crate) fn start_run(&self, pick: Pick, now: Ticks) {
        let class = match pick.class {
            Class::Fresh => 0,
            Class::Preempted => RUN_PREEMPTED,
        };
        // What was put off was another thread's preemption.
        if self.retry_at.load(Relaxed) != 0 {
            self.retry_at.store(0, Relaxed);
            self.retry_delay.store(self.rt.retry, Relaxed);
        }
        self.run_task.store(pick.task.0, Relaxed);
        self.known_at.store(now, Relaxed);
        self.run.store((now & !RUN_PREEMPTED) | class, Release);
        self.request.new_run();
    }

    /// Records that no thread runs.
    #[inline(always)]
    pub(crate) fn end_run(&self) {
        self.run.store(0, Release);
        self.request.new_run();
    }

    /// The time, for a thread that gives way to another of its own will. While no thread has
    /// outlived its quantum for long, it is read at every eighth switch only: clocks look seldom
    /// then, and a dispatch seems to have begun a little earlier than it has, at the last call at
    /// the earliest. The slot's carrier only.
    #[inline(always)]
    pub(crate) fn time_of_switch(&self) -> Ticks {
        let unread = self.unread.load(Relaxed);
        if self.later.load(Relaxed) == 0 || unread >= UNREAD || self.rt.accounts {
            self.unread.store(0, Relaxed);
            return tsc::now();
        }
        self.unread.store(unread + 1, Relaxed);
        // Another number, for another dispatch.
        self.known_at.load(Relaxed) + RUN_PREEMPTED + 1
    }

    /// Somebody has read the time for another purpose. The slot's carrier only.
    #[inline(always)]
    pub(super) fn time_is(&self, now: Ticks) {
        self.unread.store(0, Relaxed);
        self.known_at.store(now, Relaxed);
    }

    /// The running thread `t` stops at `now`, and for that reason if it goes on. Looks are on time
    /// again if it has outlived its quantum.
    #[inline(always)]
    pub(crate) fn stops(&self, t: &Uthread, why: Option<Why>, now: Ticks) {
        let Some(pace) = &self.rt.pace else { return };
        let preempted = why == Some(Why::Preempted);
        if !preempted && pace.is_long(now.saturating_sub(self.run_since())) {
            self.earn(now);
        }
        // Probes stop threads on time; looks are for those that meet none.
        if self.rt.probes() {
            return probe::stops(t, now);
        }
        let again = t.outlived.replace(preempted);
        let alone = now.saturating_sub(self.could_stop_at());
        if pace.is_long(alone) {
            self.seems_long(alone, Pace::is_long, now);
        } else if again && preempted {
            self.seems_long(alone, Pace::is_over, now);
        }
    }

    /// The running thread `t` is to be told at probes, and has looked at none in this dispatch, nor
    /// when it was stopped by a signal last: looks are on time again where it is. Once may be the
    /// machine's doing, which has kept it from its CPU.
    pub(crate) fn lacks_probes(&self, t: &Uthread) -> bool {
        self.rt.probes()
            && t.outlived.replace(t.pacing.lacks_probes(self.run_since()))
            && t.outlived.get()
    }

    /// The running thread could not be stopped without a signal for `alone`, until `now`. If it is
    /// long since a thread has outlived its quantum, and this one does so by the CPU time that it
    /// has had, looks are on time again.
    #[cold]
    fn seems_long(&self, alone: Ticks, is_long: fn(&Pace, Ticks) -> bool, now: Ticks) {
        let calm = tsc::from_duration(Pace::CALM);
        if now.saturating_sub(self.long_at.load(Relaxed)) > calm / 4
            && let Some(pace) = &self.rt.pace
            && is_long(pace, alone.saturating_sub(self.lost(now)))
        {
            self.saw_long(now);
        }
    }

    #[cold]
    pub(crate) fn saw_long(&self, now: Ticks) {
        self.long_at.store(now, Relaxed);
        self.later.store(0, Relaxed);
    }

    /// The worker's timer has expired at `now`, in vain.
    pub(crate) fn looked_in_vain(&self, now: Ticks) {
        if let Some(pace) = &self.rt.backstop_pace {
            let (later, long_at) = (self.later.load(Relaxed), self.long_at.load(Relaxed));
            self.later.store(pace.in_vain(later, long_at, now), Relaxed);
        }
    }

    /// When the running thread was dispatched; 0 if none runs.
    #[inline(always)]
    pub(crate) fn run_since(&self) -> Ticks {
        self.run.load(Relaxed) & !RUN_PREEMPTED
    }

    /// Had the running thread been preempted before? The slot's carrier only.
    #[inline]
    pub(crate) fn runs_preempted(&self) -> bool {
        self.run.load(Relaxed) & RUN_PREEMPTED != 0
    }

    /// The time, for who is queued here: that of the dispatch is exact enough for queue ages, and
    /// saves reading the clock. The slot's carrier only.
    #[inline(always)]
    pub(crate) fn time_of_queueing(&self) -> Ticks {
        let since = self.run_since();
        if since == 0 { tsc::now() } else { since }
    }

    /// What is running, as the policy wants it, with its generation. May be called by anybody.
    pub(crate) fn running(&self) -> Option<(u64, Running)> {
        let run = self.run.load(Acquire);
        (run != 0).then(|| {
            let class = if run & RUN_PREEMPTED != 0 { Class::Preempted } else { Class::Fresh };
            let task = Task(self.run_task.load(Relaxed));
            (run, Running { task, since: run & !RUN_PREEMPTED, class })
        })
    }

    /// A request for the running thread is put off.
    pub(crate) fn count_put_off(&self, now: Ticks) {
        let run = self.run.load(Relaxed);
        if self.put_off_run.load(Relaxed) != run {
            self.put_off_run.store(run, Relaxed);
            self.put_off_since.store(now, Relaxed);
        }
    }

    /// For how long the preemption of the running thread has been put off, if it has.
    #[inline]
    pub(crate) fn late_by(&self, now: Ticks) -> Option<Ticks> {
        (self.put_off_run.load(Relaxed) == self.run.load(Relaxed))
            .then(|| now.saturating_sub(self.put_off_since.load(Relaxed)))
    }

    /// A preemption has been taken, which had been put off for so long.
    #[inline]
    pub(crate) fn count_useful(&self, late: Option<Ticks>) {
        self.stats.preempt_useful.add_shared(1, true);
        if let Some(late) = late {
            self.lateness.record(late);
        }
    }

    /// The carrier's timer has fired, or what it has left is being seen to. By the slot's carrier,
    /// which then looks what waits: it sees what is brought from now on, or who brings it sees that
    /// the timer is off.
    pub(crate) fn timer_is_off(&self) {
        self.armed.store(NEVER, Relaxed);
        fence(SeqCst);
    }

    /// The section in which the timer has fired is over. By the slot's carrier.
    #[inline]
    pub(crate) fn flag_is_seen(&self) {
        if self.armed.load(Relaxed) == FLAGGED {
            self.timer_is_off();
        }
    }

    /// Leaves a flag on the thread that is recorded as running: it gives way when its section ends.
    /// By the slot's carrier.
    pub(crate) fn flag_running(&self) {
        if let Some((_, running)) = self.running() {
            self.rt.table.get(running.task.0).deferred.set(deferred::ASKED);
        }
    }

    /// Is it time to tell the others' clocks? Then the next time is later. The slot's carrier only.
    #[inline]
    pub(crate) fn tells(&self, now: Ticks) -> bool {
        let is_time = now >= self.tells_at.load(Relaxed);
        if is_time {
            self.tells_at.store(now.saturating_add(self.rt.tell_every), Relaxed);
        }
        is_time
    }

    /// Carriers that are away may have come back and wait for this CPU: the kernel looks, now and
    /// then. The slot's carrier only.
    #[inline]
    pub(crate) fn lets_back(&self) {
        if self.rt.away.load(Relaxed) == 0 {
            return;
        }
        let now = tsc::now();
        if now >= self.lets_back_at.load(Relaxed) {
            self.lets_back_at.store(now + tsc::from_duration(turns::APART), Relaxed);
            turns::look_again();
        }
    }

    /// What to run next, without looking at other workers. The caller is the slot's carrier,
    /// preemption disabled.
    #[inline(always)]
    pub(crate) fn pick(&self, now: Ticks) -> Option<Pick> {
        self.assert_ours();
        if now >= self.next_timer.load(Relaxed) {
            self.fire_timers(now);
        }
        self.poll_if_due(now);
        match self.policy().task_dequeue(self.id, now) {
            None if self.poll(now) => self.policy().task_dequeue(self.id, now),
            // It runs long, so nobody who has sent something should wait for its next stop.
            Some(pick) if bell::is_due() && pick.class == Class::Preempted => {
                bell::ring_all();
                Some(pick)
            }
            pick => pick,
        }
    }
}
