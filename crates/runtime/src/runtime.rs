//! A runtime: its parts and its start.

mod handle;
mod shutdown;
mod threads;

pub use handle::{Handle, NoRuntime};
pub use shutdown::{Leftover, ShutDown};

use crate::arch::segment;
use crate::clock::{self, NextLook, rescue::Rescue};
use crate::config::{BuildError, Config, Resume};
use crate::idle::Idle;
use crate::lateness::Lateness;
use crate::os::fork;
use crate::policy::PolicyChoice;
use crate::reactor::{self, REACTOR, Watch};
use crate::share::Share;
use crate::stats::{Counters, Stats};
use crate::thread::table::Table;
use crate::thread::{self, JoinHandle, run_time};
use crate::tsc::{self, Ticks};
use crate::uintr::{self, KernelInterface};
use crate::worker::descheduled::Descheduled;
use crate::worker::room::Room;
use crate::worker::slot::Slot;
use crate::worker::spare::Spares;
use crate::{debugger, interpose, kernel_thread, monitor, panics, park, preempt, sys, tls};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use quaver_sched::clock::Pace;
use quaver_sched::{Policy, Tax, TimerHeap, TimerTable, probe_quantum_for, quantum_for};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A request that was not taken for so many microseconds is taken for lost.
const LOST_AFTER: u64 = 50_000;
/// See [`Inner::look_every`]; for each worker.
const LOOK_EVERY: Duration = Duration::from_micros(1);

/// Everything that carriers, clocks and handles share. Leaked at the start: stale handles and late
/// wake-ups must find something. What is large (stacks, TLS) is given back at shutdown.
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) table: Table,
    pub(crate) policy: &'static dyn Policy,
    /// `policy.accounts()`, or somebody wants to know how long each thread has run.
    pub(crate) accounts: bool,
    /// There is one worker.
    pub(crate) alone: bool,
    /// `policy.grants_quantum()`.
    pub(crate) grants_quantum: bool,
    /// `policy.central()`: what a worker makes runnable may be for another one.
    pub(crate) central: bool,
    slots: OnceLock<Box<[Slot]>>,
    pub(crate) timer_table: Arc<TimerTable>,
    pub(crate) clock: clock::Running,
    /// Where the clock comes seldom or never, for threads that block.
    pub(crate) rescue: [Option<Rescue>; 2],
    /// Who tries to take a slot in a page fault.
    pub(crate) fault_turn: Mutex<()>,
    /// Which workers have lost their CPU, if somebody can tell.
    pub(crate) descheduled: Option<Descheduled>,
    /// Listens for files while all workers are busy.
    pub(crate) watch: Watch,
    /// What preemptions may cost; `None`: whatever they do.
    pub(crate) tax: Option<Tax>,
    /// The same for those at probes.
    pub(crate) probe_tax: Option<Tax>,
    /// The policy's shortest quantum, and what an interruption takes, where there are any.
    pub(crate) quantum: Option<Ticks>,
    pub(crate) price: Option<Ticks>,
    /// How much later a clock looks while its looks are in vain.
    pub(crate) pace: Option<Pace>,
    /// The same of a worker's timer, where that is the second notification.
    pub(crate) backstop_pace: Option<Pace>,
    pub(crate) idle: Idle,
    /// Its cores are shared with other applications.
    pub(crate) share: Option<Share>,
    pub(crate) spares: Spares,
    pub(crate) room: Room,
    /// Counters of everything that is not done by a slot's carrier.
    pub(crate) stats: Counters,
    pub(crate) pid: i32,
    /// Of the thread that has built the runtime, and of the carriers.
    signal_mask: libc::sigset_t,
    /// Carriers and service threads leave as soon as they can.
    pub(crate) stopping: AtomicBool,
    /// Nothing runs any more.
    stopped: AtomicBool,
    /// Kernel threads that have not ended.
    alive: AtomicUsize,
    /// Carriers that have given their slot away and not come back: in a system call or a
    /// `block_in_place` closure.
    pub(crate) away: AtomicUsize,

    pub(crate) idle_spin: Ticks,
    /// How often a worker that dispatches asks for files.
    pub(crate) poll_every: Ticks,
    /// When to ask again after a request was put off by an address: the first time, and at most.
    pub(crate) retry: Ticks,
    pub(crate) max_retry: Ticks,
    /// For how long a preemption is put off because the thread is in a library; `Ticks::MAX`: as
    /// long as it takes.
    pub(crate) max_deferral: Ticks,
    /// For how long a preemption is put off because the thread holds a mutex; 0: it is not.
    pub(crate) mutex_extension: Ticks,
    /// Threads that are preempted there none the less.
    pub(crate) in_library: preempt::InLibrary,
    /// When to ask again after one was put off by a region, which takes it itself at its end.
    pub(crate) region_retry: Ticks,
    /// After this time others take a signal or a timer for lost. They cannot know whether the
    /// carrier has only lost its CPU: if it has, each new signal is another frame on the stack of
    /// the thread that it runs.
    pub(crate) lost_after: Ticks,
    /// What carries user interrupts, if workers are told by them.
    pub(crate) user_interrupts: Option<&'static dyn KernelInterface>,
    /// How often delegated timers interrupt, if they keep time.
    pub(crate) delegated: Option<Duration>,
    /// A request that was not taken after this time goes on to its second stage; 0: there is none.
    pub(crate) second_stage: Ticks,
    /// How much later than a probe should have been met the signal follows; 0: there are none.
    pub(crate) backstop: Ticks,
    /// What is due later after a dispatch is left to the clock.
    pub(crate) far: Ticks,
    /// How often a worker that makes threads runnable tells the clocks of the others; see
    /// [`Policy::preempt_at`].
    pub(crate) tell_every: Ticks,
    /// How often makers of work, all together, look for a thread that is due, where each has a
    /// quantum to itself: a look reads words of all workers, which these write all the time.
    pub(crate) look_every: Ticks,
    pub(crate) next_look: NextLook,
    /// A preemption is not worth waiting for if it is due within this time.
    pub(crate) timer_slop: Ticks,
}

/// The runtime that runs or ran last.
pub(crate) static LATEST: AtomicPtr<Inner> = AtomicPtr::new(core::ptr::null_mut());
/// Is there one that has not been shut down?
static OCCUPIED: AtomicBool = AtomicBool::new(false);

impl Inner {
    /// Are threads told at probes, before they are told by a signal?
    #[inline(always)]
    pub(crate) fn probes(&self) -> bool {
        self.backstop != 0
    }

    /// The runtime that runs or ran last in this process.
    #[inline]
    pub(crate) fn latest() -> Option<&'static Inner> {
        // SAFETY: null or leaked.
        unsafe { LATEST.load(Acquire).as_ref() }
    }

    /// The running runtime.
    pub(crate) fn running() -> Option<&'static Inner> {
        Self::latest().filter(|rt| !rt.stopping.load(Acquire))
    }

    #[inline(always)]
    pub(crate) fn slots(&self) -> &[Slot] {
        self.slots.get().map_or(&[], |s| s)
    }

    /// Does `what` to one slot after the other until it says `true`; those whose carriers are known
    /// to have lost their CPUs come last, and may be met twice.
    pub(crate) fn any_slot(&self, mut what: impl FnMut(&Slot) -> bool) -> bool {
        let on_cpu =
            |all: &Descheduled| self.slots().iter().any(|slot| all.is_on_cpu(slot) && what(slot));
        let away = self.descheduled.as_ref().filter(|all| all.any_away());
        away.is_some_and(on_cpu) || self.slots().iter().any(what)
    }

    /// In the child of a fork: there is no runtime, and the parent's has ended, for whoever still
    /// has a handle.
    pub(crate) fn forget() {
        if let Some(rt) = Self::latest() {
            rt.stopping.store(true, SeqCst);
            rt.stopped.store(true, SeqCst);
            rt.alive.store(0, SeqCst);
            rt.share.iter().for_each(Share::forked);
        }
        LATEST.store(core::ptr::null_mut(), Release);
        OCCUPIED.store(false, Release);
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.load(Acquire)
    }

    /// Has it stopped, and have all its kernel threads ended? Then no user thread's code runs.
    pub(crate) fn is_gone(&self) -> bool {
        self.has_stopped() && self.alive.load(Acquire) == 0
    }

    /// One of the runtime's kernel threads ends.
    pub(crate) fn thread_gone(&self) {
        self.alive.fetch_sub(1, AcqRel);
    }

    pub(crate) fn stats(&self) -> Stats {
        let sum = Stats::sum(self.slots().iter().map(|s| &s.stats).chain([&self.stats]));
        Stats { blocked_now: (self.away.load(Relaxed) + self.room.count()) as u64, ..sum }
    }

    pub(crate) fn lateness(&self) -> Lateness {
        Lateness::sum(self.slots().iter().map(|s| &s.lateness))
    }

    /// Threads that exist: running, waiting, or ended and not yet joined. Exact when nothing runs.
    pub(crate) fn in_use(&self) -> usize {
        let pools: isize = self.slots().iter().map(Slot::pool_balance).sum();
        (pools + self.table.balance()).max(0) as usize
    }
}

/// Somebody holds a lock of the scheduler for too long: the system has taken its CPU.
fn let_holder_run(tries: u32) {
    if tries < 64 {
        sys::sched_yield();
    } else {
        // It may have a lower real-time priority than this thread.
        park::shim::os_nap();
    }
}

/// A running set of workers on which user threads run.
///
/// There is one at most in a process. Dropping it shuts it down; see
/// [`shutdown`](Runtime::shutdown).
#[derive(Debug)]
pub struct Runtime {
    inner: &'static Inner,
}

impl core::fmt::Debug for Inner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Runtime")
            .field("config", &self.config)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    pub(crate) fn start(config: Config, share: Option<Share>) -> Result<Runtime, BuildError> {
        if thread::raw::current().is_some() {
            return Err(BuildError::OnUserThread);
        }
        if !thread::raw::attached() && segment::is_in_use() {
            return Err(BuildError::OtherRuntime);
        }
        if quaver_rsb::has_shadow_stack() {
            return Err(BuildError::ShadowStack);
        }
        let tls = match config.tls {
            crate::Tls::Private => Some(tls::layout()?),
            crate::Tls::Shared => {
                tls::shared::prepare()?;
                None
            }
        };
        if OCCUPIED.swap(true, AcqRel) {
            return Err(BuildError::AlreadyRunning);
        }
        Self::start_exclusively(config, share, tls).inspect_err(|_| OCCUPIED.store(false, Release))
    }

    fn start_exclusively(
        mut config: Config,
        share: Option<Share>,
        tls: Option<&'static tls::Layout>,
    ) -> Result<Runtime, BuildError> {
        tsc::init();
        quaver_rsb::prepare();
        quaver_sched::set_relax(let_holder_run);
        segment::init();
        interpose::link();
        debugger::link();
        panics::install();
        preempt::refresh();
        fork::watch()
            .map_err(|error| BuildError::Os { what: "install a handler for forks", error })?;
        park::set_workers(config.workers);
        let mark = tls.map_or_else(tls::shared::mark_below_tp, tls::Layout::mark_below_tp);
        preempt::install(config.signal, config.resume == Resume::Sigreturn, mark).map_err(
            |error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => BuildError::SignalInUse(config.signal),
                _ => BuildError::Os { what: "install the preemption signal's handler", error },
            },
        )?;
        if config.clock == crate::Clock::PosixTimer && config.policy.quantum().is_some() {
            clock::try_posix_timer(config.signal).map_err(|error| BuildError::Os {
                what: "create a POSIX timer (see ulimit -i)",
                error,
            })?;
        }
        let user_interrupts = config.user_interrupts.and_then(uintr::chosen);
        let by_posix_timer = config.clock == crate::Clock::PosixTimer;
        if user_interrupts.is_none() && config.clock == crate::Clock::DelegatedTimer {
            config.clock = crate::Clock::PosixTimer;
        }
        let table = Table::new(config.max_threads, config.stack_size, tls)
            .map_err(|error| BuildError::Os { what: "reserve the thread table", error })?;
        let us = |n| tsc::from_duration(Duration::from_micros(n));
        let price = config
            .policy
            .quantum()
            .map(|_| clock::price(config.clock, config.clock_shares, config.signal))
            .map(|by_signal| match user_interrupts {
                Some(interface) => preempt::user_interrupt::price(interface.provider(), by_signal),
                None => by_signal,
            });
        if let (true, Some(price)) = (config.auto_quantum, price) {
            let suited = if config.probes { probe_quantum_for } else { quantum_for };
            let quantum = suited(tsc::to_duration(price));
            config.policy = config.policy.rescaled(quantum);
        }
        let quantum = config.policy.quantum().map(tsc::from_duration);
        let policy: &'static dyn Policy = match share.as_ref().and_then(Share::policy) {
            Some((common, ..)) => common,
            None => Box::leak(config.policy.build(config.workers, config.max_threads)),
        };
        let [tax, probe_tax] = clock::taxes(&config, price);
        // A signal that takes longer than a quantum to arrive finds each thread late.
        let two_quanta = quantum.map_or(0, |q| q.max(price.unwrap_or(0)).saturating_mul(2));
        let [pace, backstop_pace] = clock::paces(&config, quantum, price);
        let far =
            price.filter(|_| config.probes).map(|price| price.saturating_mul(preempt::probe::FAR));
        let faults = config.fault_look.filter(|_| user_interrupts.is_none());
        let monitor = config.monitor.then(monitor::find).flatten();
        let descheduled = monitor.and_then(Descheduled::new);
        let inner: &'static Inner = Box::leak(Box::new(Inner {
            table,
            policy,
            accounts: policy.accounts() || run_time::is_counted(),
            alone: config.workers == 1,
            grants_quantum: policy.grants_quantum(),
            central: policy.central(),
            slots: OnceLock::new(),
            timer_table: Arc::new(TimerTable::new(config.max_threads)),
            clock: clock::Running::new(config.clock, quantum),
            fault_turn: Mutex::new(()),
            descheduled,
            rescue: Rescue::for_all(config.clock, config.policy.quantum(), faults),
            watch: Watch::new(quantum, config.workers),
            signal_mask: kernel_thread::signal_mask(),
            tax,
            probe_tax,
            quantum,
            price,
            pace,
            backstop_pace,
            idle: Idle::new(),
            share,
            spares: Spares::new(config.max_blocking.max(1), config.workers),
            room: Room::new(),
            stats: Counters::new(),
            pid: std::process::id() as i32,
            stopping: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            alive: AtomicUsize::new(0),
            away: AtomicUsize::new(0),
            idle_spin: tsc::from_duration(config.idle_spin),
            poll_every: tsc::from_duration(reactor::POLL),
            retry: us(5),
            max_retry: us(160),
            in_library: preempt::InLibrary::new(),
            max_deferral: config.max_deferral.map_or(Ticks::MAX, tsc::from_duration),
            mutex_extension: tsc::from_duration(config.mutex_extension),
            region_retry: us(50),
            lost_after: us(LOST_AFTER),
            user_interrupts,
            delegated: clock::ticks(config.clock, config.policy.quantum()),
            second_stage: if config.probes || user_interrupts.is_some() && !by_posix_timer {
                // Before it is taken for lost, or there would be no second stage.
                two_quanta.min(us(LOST_AFTER / 2))
            } else {
                0
            },
            backstop: if config.probes { two_quanta } else { 0 },
            far: far.unwrap_or(tsc::NEVER),
            look_every: match policy.grants_quantum() {
                true => tsc::from_duration(LOOK_EVERY) * config.workers as Ticks,
                false => 0,
            },
            next_look: NextLook::new(),
            tell_every: quantum.map_or(Ticks::MAX, |quantum| quantum.saturating_mul(16)),
            timer_slop: us(1) / 2,
            config,
        }));
        let slots: Box<[Slot]> = (0..inner.config.workers)
            .map(|i| {
                let timers = TimerHeap::new(i as u32, inner.timer_table.clone());
                Slot::new(i, inner.config.cpus.get(i).copied(), inner, policy, timers)
            })
            .collect();
        let _ = inner.slots.set(slots);
        preempt::extension::set(inner);
        preempt::install_overflow_report(&inner.table);
        LATEST.store(core::ptr::from_ref(inner).cast_mut(), Release);
        park::runtime_starts();
        REACTOR.runtime_starts();
        let rt = Runtime { inner };
        match inner.start_all() {
            Ok(()) => Ok(rt),
            // Dropping `rt` stops what has been started.
            Err(error) => Err(BuildError::Os { what: "start a kernel thread", error }),
        }
    }

    /// Runs `f` on a user thread and returns what it returns. Other threads that `f` has started
    /// and not joined go on in the background until [`shutdown`](Runtime::shutdown).
    ///
    /// Blocks the calling kernel thread.
    ///
    /// # Panics
    ///
    /// Carries a panic of `f` on.
    #[track_caller]
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        // SAFETY: joined before this function returns, so borrows in `f` and `T` outlive the
        // thread.
        let handle = unsafe { thread::spawn_unchecked(self.inner, f, Some("main".into())) };
        match handle.and_then(|h| h.join_or_error().map_err(std::io::Error::other)) {
            Ok(Ok(value)) => value,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(e) => panic!("cannot run on the quaver runtime: {e}"),
        }
    }

    /// Starts a user thread; see [`quaver::spawn`](crate::spawn).
    ///
    /// # Panics
    ///
    /// If no thread can be made.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle().spawn(f)
    }

    /// A handle for other kernel threads.
    pub fn handle(&self) -> Handle {
        Handle { inner: self.inner }
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Is there a [monitor](crate::Builder::monitor) that says which workers have lost their CPU?
    pub fn is_monitored(&self) -> bool {
        self.inner.descheduled.is_some()
    }

    /// How late preemptions came, so far, that had to be put off.
    pub fn lateness(&self) -> Lateness {
        self.inner.lateness()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.inner.config.workers
    }

    /// The clock in use.
    pub fn clock(&self) -> crate::Clock {
        self.inner.config.clock
    }

    /// The notification in use.
    pub fn notification(&self) -> crate::Notification {
        match self.inner.user_interrupts.map(KernelInterface::provider) {
            _ if self.inner.config.probes => crate::Notification::Probe,
            Some(uintr::Provider::Emulator) => crate::Notification::EmulatedUserInterrupt,
            Some(_) => crate::Notification::UserInterrupt,
            None => crate::Notification::Signal,
        }
    }

    /// What an interruption costs a worker on this machine with this clock, as measured when the
    /// runtime was built: the quantum `auto` and [`Builder::tax`](crate::Builder::tax) go by it.
    /// `None`: nothing is ever preempted.
    pub fn preemption_price(&self) -> Option<Duration> {
        self.inner.price.map(tsc::to_duration)
    }

    /// The policy in use.
    pub fn policy(&self) -> crate::ActivePolicy {
        match &self.inner.config.policy {
            PolicyChoice::BuiltIn(spec) => crate::ActivePolicy::BuiltIn(spec.clone()),
            PolicyChoice::Custom(_) => crate::ActivePolicy::Custom(self.inner.policy.name()),
        }
    }
}
