#![doc = include_str!("README.md")]

pub(crate) mod bell;
mod epoll;
mod file;
pub(crate) mod heard;
mod source;
mod wait;
mod waits;
mod watch;

pub(crate) use epoll::Events;
pub use heard::{Made, Seen};
pub(crate) use source::{Direction, FileSource};
pub use wait::{FileWait, Wanted};
pub(crate) use wait::{MOST, serve, unserve, wait_anywhere, wait_foreign};
pub(crate) use watch::{Watch, run as watch};

use crate::idle::Workers;
use crate::park::{self, SpinLock, Waiter};
use crate::preempt;
use crate::runtime::Inner;
use crate::sys;
use crate::thread::raw;
use crate::tsc;
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};
use file::{ANY, FileKind};
use quaver_sched::{Place, Why};
use std::time::Duration;
use waits::Waits;

/// How often a worker that dispatches takes events.
pub(crate) const POLL: Duration = Duration::from_micros(20);

/// Waiters that are woken under one hold of a file's lock.
const AT_ONCE: usize = 8;

/// The data of the wake file's events: no descriptor.
const WAKE: u64 = u64::MAX;

/// No worker.
const NOBODY: u32 = 0;
/// No worker, but a thread of its own.
const SERVICE: u32 = u32::MAX;

/// The reactor of the process.
pub(crate) struct Reactor {
    /// The epoll instance; negative: there is none yet.
    epoll: AtomicI32,
    /// An eventfd among its files.
    wake: AtomicI32,
    creating: SpinLock<()>,
    /// Threads that wait for files.
    waits: Waits,
    /// The worker that sleeps in the instance, and one more.
    listener: AtomicU32,
}

pub(crate) static REACTOR: Reactor = Reactor {
    epoll: AtomicI32::new(-1),
    wake: AtomicI32::new(-1),
    creating: SpinLock::new(()),
    waits: Waits::new(),
    listener: AtomicU32::new(NOBODY),
};

impl Reactor {
    /// The epoll instance, if there is one.
    #[inline]
    fn instance(&self) -> Option<i32> {
        let epoll = self.epoll.load(Acquire);
        (epoll >= 0).then_some(epoll)
    }

    /// The epoll instance, made if there is none. The error is the errno.
    fn instance_or_new(&self) -> Result<i32, i32> {
        match self.instance() {
            Some(epoll) => Ok(epoll),
            None => self.create(),
        }
    }

    #[cold]
    fn create(&self) -> Result<i32, i32> {
        let _creating = self.creating.lock();
        if let Some(epoll) = self.instance() {
            return Ok(epoll);
        }
        let epoll = epoll::out_of_the_way(epoll::create()?);
        let wake = sys::eventfd().inspect_err(|_| sys::close(epoll))?;
        let wake = epoll::out_of_the_way(wake);
        // Level-triggered: another worker may see it, too, and it is still there for the listener.
        let add = (libc::EPOLL_CTL_ADD, wake, libc::EPOLLIN as u32);
        if let Err(e) = epoll::control(epoll, add, WAKE) {
            sys::close(wake);
            sys::close(epoll);
            return Err(e);
        }
        self.wake.store(wake, Relaxed);
        self.epoll.store(epoll, SeqCst);
        Ok(epoll)
    }

    /// Is there a thread that waits for a file?
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.waits.are_any()
    }

    /// Is there one that an event has made runnable, and that has not run since?
    pub(crate) fn has_told_somebody(&self) -> bool {
        self.waits.have_been_told()
    }

    /// Does a worker sleep where files are heard?
    pub(crate) fn has_listener(&self) -> bool {
        self.listener.load(SeqCst) != NOBODY
    }

    /// Files may be in use, and nobody listens.
    pub(crate) fn lacks_listener(&self) -> bool {
        self.instance().is_some() && !self.has_listener()
    }

    /// Worker `id` is about to fall asleep: may it be the listener?
    pub(crate) fn begin_listening(&self, id: usize) -> bool {
        self.instance().is_some()
            && self.listener.compare_exchange(NOBODY, id as u32 + 1, SeqCst, Relaxed).is_ok()
    }

    /// The listener sleeps, until something happens or it is called.
    pub(crate) fn listen(&self, time: Option<Duration>) -> Events {
        let mut events = Events::new();
        if let Some(epoll) = self.instance() {
            // Interrupted: the worker looks around and sleeps again.
            let _ = epoll::wait(epoll, &mut events, time);
            if events.iter().any(|(data, _)| data == WAKE) {
                // By nobody else, or a call for the next listener could be lost.
                epoll::clear(self.wake.load(Relaxed));
            }
        }
        events
    }

    /// Wakes the listener.
    pub(crate) fn call_listener(&self) {
        sys::signal_eventfd(self.wake.load(Relaxed));
    }

    /// The listener is awake.
    pub(crate) fn end_listening(&self) {
        self.listener.store(NOBODY, SeqCst);
    }

    /// No worker listens from now on: a thread of its own [serves](Self::serve).
    pub(crate) fn reserve_listener(&self) -> std::io::Result<()> {
        self.instance_or_new().map_err(std::io::Error::from_raw_os_error)?;
        self.listener.store(SERVICE, SeqCst);
        Ok(())
    }

    /// Listens until the runtime stops.
    pub(crate) fn serve(&self, rt: &Inner) {
        while !rt.stopping.load(Acquire) {
            let events = self.listen(Some(Duration::from_millis(100)));
            self.deliver(rt, None, &events);
        }
        self.end_listening();
    }

    /// Takes what has happened, and wakes who waits for it. `slot`: the caller is its carrier, with
    /// preemption disabled, and about to look for work; `None`: it is none of the carriers'. `true`
    /// if somebody was woken.
    pub(crate) fn poll(&self, rt: &Inner, slot: Option<&Slot>) -> bool {
        let Some(epoll) = self.instance() else { return false };
        let mut woken = false;
        // Bounded: workers have other things to do.
        for _ in 0..4 {
            let mut events = Events::new();
            if epoll::take(epoll, &mut events).is_err() {
                break;
            }
            woken |= self.deliver(rt, slot, &events);
            if !events.is_full() {
                break;
            }
        }
        woken
    }

    /// Wakes who waits for `events`. As for [`poll`](Reactor::poll).
    pub(crate) fn deliver(&self, rt: &Inner, slot: Option<&Slot>, events: &Events) -> bool {
        let mut woken = 0;
        let mut told = 0;
        for (data, bits) in events.iter() {
            if data != WAKE {
                told += self.happened(data as i32, bits, |waiter| {
                    woken += u64::from(wake(rt, slot, waiter));
                });
            }
        }
        self.waits.tell(told);
        let Some(slot) = slot else {
            rt.stats.file_wakes.add_shared(woken, true);
            return woken != 0;
        };
        if woken != 0 {
            slot.stats.file_wakes.add(woken);
            rt.clock.queued_behind();
            // One of them runs here.
            if rt.is_plenty() {
                rt.idle.wake_one(rt);
            }
        }
        woken != 0
    }

    /// Takes those out of the list of file `fd` that wait for `bits`, to be woken; how many, which
    /// the caller [tells](Waits::tell).
    fn happened(&self, fd: i32, bits: u32, mut wake: impl FnMut(Waiter)) -> u64 {
        let Some(file) = file::known(fd) else { return 0 };
        let (reads, writes) = (wait::READS | ANY, wait::WRITES | ANY);
        let mut told = 0;
        let mut counted = false;
        loop {
            let mut waiters = [None; AT_ONCE];
            let mut n = 0;
            let mut state = file.state.lock();
            if !counted {
                // Before it is counted: who sees the count relies on it.
                if bits & wait::SPECIAL != 0 {
                    file.special.store(true, Relaxed);
                }
                if bits & reads != 0 {
                    file.reads.fetch_add(1, Release);
                }
                if bits & writes != 0 {
                    file.writes.fetch_add(1, Release);
                }
                counted = true;
            }
            while n < AT_ONCE
                && let Some(waiter) = wait::pop_matching(&mut state.waiters, bits)
            {
                waiters[n] = Some(waiter);
                n += 1;
            }
            if n < AT_ONCE && state.kind == FileKind::Foreign && !state.waiters.is_empty() {
                // One-shot: it says no more until it is armed for those who are left.
                if let Some(epoll) = self.instance() {
                    let _ = wait::arm(epoll, &state, fd);
                }
            }
            let quiet = state.unlock();
            told += n as u64;
            waiters.iter().flatten().copied().for_each(&mut wake);
            drop(quiet);
            if n < AT_ONCE {
                return told;
            }
        }
    }

    /// A runtime starts. The threads of those before never run again, wherever they wait.
    pub(crate) fn runtime_starts(&self) {
        self.waits.forget_all();
    }

    /// The epoll instance is the parent's.
    ///
    /// # Safety
    ///
    /// There is no other thread.
    pub(crate) unsafe fn in_child(&self) {
        for fd in [&self.epoll, &self.wake] {
            let fd = fd.swap(-1, SeqCst);
            if fd >= 0 {
                sys::close(fd);
            }
        }
        self.waits.forget_all();
        self.listener.store(NOBODY, SeqCst);
        // SAFETY: the caller's contract.
        unsafe {
            bell::forget_all();
            file::forget_all();
        }
    }
}

/// A stack in user space says that `bits` have happened to a descriptor, or an instance of epoll
/// has such news. From any thread: those that it takes out of a list at once are woken before it
/// can be preempted.
pub(crate) fn announce(fd: i32, bits: u32) {
    REACTOR.waits.tell(REACTOR.happened(fd, bits, park::unpark));
}

/// Makes a thread that has left its list runnable, with preemption disabled. `slot` as for
/// [`Reactor::poll`]: it queues the thread for itself, and wakes nobody for what it may run at once.
fn wake(rt: &Inner, slot: Option<&Slot>, waiter: Waiter) -> bool {
    preempt::assert_disabled();
    let Waiter::User { handle, .. } = waiter else {
        park::unpark(waiter);
        return true;
    };
    let t = rt.table.get_checked(handle).filter(|_| !waiter.is_abandoned());
    let Some(t) = t.filter(|t| raw::give_token(t)) else { return false };
    match slot {
        Some(slot) => {
            let place = Place::Local(slot.id);
            rt.policy.task_enqueue(place, t.task(), Why::Woken, tsc::now());
        }
        None => scheduler::make_runnable(rt, None, t, Why::Woken, false),
    }
    true
}
