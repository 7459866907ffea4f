//! Workers that sleep because another application has their core, or nobody.
//!
//! By a futex, a core's way to another application's worker is two system calls: one wakes that
//! one, and one sleeps. With the [module](super::device) it is one, so [`Common::rests`] leaves the
//! waking to [`Common::wait`].

use super::device::{Device, Wake};
use super::layout::Seat;
use super::watch::EVERY;
use super::{AcqRel, Acquire, Common, Relaxed, SeqCst, fence};
use crate::futex;
use rustix::io::Errno;
use rustix::thread::gettid;
use std::cell::Cell;
use std::sync::atomic::Ordering::Release;
use std::time::{Duration, Instant};

/// What this application's worker owes to the one that has its core: nothing, a wake-up, or one
/// that is left to `wait`.
pub(super) const NOTHING: u8 = 0;
pub(super) const OWED: u8 = 1;
const LATER: u8 = 2;

thread_local! {
    /// The calling kernel thread's number, and the process in which that was found out: a forked
    /// child has a copy.
    static TID: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

impl Common {
    pub(super) fn seat(&self, member: usize, core: usize) -> &Seat {
        &self.head().seats[member][core]
    }

    fn tid(&self) -> u32 {
        let (process, tid) = TID.get();
        if process == self.process {
            return tid;
        }
        let tid = gettid().as_raw_nonzero().get() as u32;
        TID.set((self.process, tid));
        tid
    }

    /// Wakes the worker of `member` on this core, which has it now.
    pub(super) fn wake(&self, member: usize, core: usize) {
        self.wake_as(self.seat(member, core), Wake::Instead);
    }

    fn wake_as(&self, seat: &Seat, how: Wake) {
        let tid = self.call(seat);
        let woken = |device: &Device| tid != 0 && device.wake(tid, how);
        if !self.device.as_ref().is_some_and(woken) {
            futex::wake(&seat.word);
        }
    }

    /// Says to a worker that it is woken; who rests there, 0: nobody.
    fn call(&self, seat: &Seat) -> u32 {
        seat.word.store(1, Release);
        if self.device.is_none() {
            return 0;
        }
        // Of this fence and that in `wait` one is first: either this finds who rests, or that one
        // finds what was done before it is woken.
        fence(SeqCst);
        seat.tid.load(Relaxed)
    }

    /// Who has this core from this application's worker and was not woken, and is to be now.
    fn owed(&self, core: usize) -> Option<&Seat> {
        let owes = &self.owes[core];
        if owes.load(Relaxed) == NOTHING || owes.swap(NOTHING, AcqRel) == NOTHING {
            return None;
        }
        let other = self.now(core).member.filter(|&member| member != self.me);
        other.map(|member| self.seat(member, core))
    }

    /// Wakes who has this core from this application's worker.
    pub(super) fn wake_owed(&self, core: usize) {
        if let Some(seat) = self.owed(core) {
            self.wake_as(seat, Wake::Instead);
        }
    }

    /// The same, or leaves it to `wait` if that can do it by the way. Whoever came here before and
    /// not to `wait` may not come there this time either.
    pub(super) fn pay_later(&self, core: usize) {
        let later =
            |_: &Device| self.owes[core].compare_exchange(OWED, LATER, AcqRel, Relaxed).is_ok();
        if !self.device.as_ref().is_some_and(later) {
            self.wake_owed(core);
        }
    }

    /// Whether this application's worker on this core sleeps, or is about to.
    pub(super) fn is_asleep(&self, core: usize) -> bool {
        self.seat(self.me, core).word.load(Acquire) == 0
    }

    /// Ends the sleep of this application's worker on this core, or its next one.
    pub fn rouse(&self, core: usize) {
        self.wake_as(self.seat(self.me, core), Wake::Aside);
    }

    /// The worker of this core sleeps until it is given a task, `asleep` says no, or `limit` is
    /// over. `asleep` is asked when a [`rouse`](Self::rouse) would be heard. Blocks the calling
    /// kernel thread.
    pub fn wait(&self, core: usize, asleep: impl Fn() -> bool, limit: Option<Duration>) {
        let seat = self.seat(self.me, core);
        let until = limit.map(|limit| Instant::now() + limit);
        let mut device = self.device.as_ref();
        loop {
            seat.tid.store(device.map_or(0, |_| self.tid()), Relaxed);
            seat.word.store(0, Release);
            // The core's word and `asleep` are read after the seat is empty; who changes them fills
            // it afterwards.
            fence(SeqCst);
            if self.is_given(core) || !asleep() {
                break;
            }
            if self.is_aside(self.me) {
                drop(self.lock());
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let nap = left.map_or(EVERY, |left| left.min(EVERY));
            let slept = match device {
                Some(device) => self.rest(device, core, nap),
                None => {
                    self.wake_owed(core);
                    let limited = left.is_some() || !self.is_watched();
                    futex::wait(&seat.word, 0, limited.then_some(nap))
                }
            };
            if device.is_some() && !matches!(slept, Ok(()) | Err(Errno::TIME | Errno::INTR)) {
                // The kernel does not let it rest there, on this CPU.
                device = None;
                continue;
            }
            if self.is_asleep(core) && slept != Err(Errno::INTR) && !self.is_watched() {
                self.look_at_owner(core);
            }
        }
        self.wake_owed(core);
    }

    /// Rests in the module; where the core is owed to somebody, the same call hands it over.
    fn rest(&self, device: &Device, core: usize, nap: Duration) -> Result<(), Errno> {
        let cpu = self.head().cpus[core].load(Relaxed);
        if let Some(next) = self.owed(core) {
            let tid = self.call(next);
            let handed = if tid == 0 { Err(Errno::SRCH) } else { device.rest(tid, cpu, nap) };
            if matches!(handed, Ok(()) | Err(Errno::TIME | Errno::INTR)) {
                return handed;
            }
            futex::wake(&next.word);
        }
        device.rest(0, cpu, nap)
    }
}
