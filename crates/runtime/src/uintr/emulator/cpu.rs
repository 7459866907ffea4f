//! The state that the processor and the kernel keep for a kernel thread, and what the instructions
//! do to it. Every word is atomic: senders are other threads, and the handlers interrupt anything.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Bits of [`Upid::status`] (xUI, Table 1).
const ON: u32 = 1;
const SN: u32 = 2;

/// A user posted-interrupt descriptor. Where hardware has the number of a local APIC, this has that
/// of a kernel thread: the emulated processor goes where the thread goes.
pub(super) struct Upid {
    status: AtomicU32,
    destination: AtomicI32,
    requests: AtomicU64,
}

impl Upid {
    const fn new() -> Upid {
        Upid {
            status: AtomicU32::new(0),
            destination: AtomicI32::new(0),
            requests: AtomicU64::new(0),
        }
    }

    /// What SENDUIPI does: posts `vector`, then returns the thread to notify, if that is needed.
    pub(super) fn post(&self, vector: u32) -> Option<i32> {
        self.requests.fetch_or(1 << vector, AcqRel);
        let status = self.status.fetch_update(AcqRel, Acquire, |s| (s & SN == 0).then_some(s | ON));
        match status {
            Ok(before) if before & ON == 0 => Some(self.destination.load(Acquire)),
            _ => None,
        }
    }

    /// Notification processing: ON is cleared before the requests are taken, so that a sender that
    /// comes between notifies again.
    fn take(&self) -> u64 {
        self.status.fetch_and(!ON, AcqRel);
        self.requests.swap(0, AcqRel)
    }

    /// Senders post without a notification.
    pub(super) fn suppress(&self, suppressed: bool) {
        if suppressed {
            self.status.fetch_or(SN, AcqRel);
        } else {
            self.status.fetch_and(!SN, AcqRel);
        }
    }
}

/// What UINV is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vector {
    /// The one by which notifications come.
    Notification,
    /// That of the local timer.
    Timer,
}

/// One emulated processor, with the kernel thread that is on it.
pub(super) struct Cpu {
    /// The kernel thread, or 0: free.
    pub(super) tid: AtomicI32,
    pub(super) handler: AtomicUsize,
    pub(super) upid: Upid,
    /// UIF.
    flag: AtomicBool,
    /// UIRR.
    requests: AtomicU64,
    /// UINV is the timer's vector.
    timed: AtomicBool,
    /// The POSIX timer that stands for the local one, or -1.
    pub(super) timer: AtomicI32,
}

impl Cpu {
    pub(super) const fn new() -> Cpu {
        Cpu {
            tid: AtomicI32::new(0),
            handler: AtomicUsize::new(0),
            upid: Upid::new(),
            flag: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            timed: AtomicBool::new(false),
            timer: AtomicI32::new(-1),
        }
    }

    /// Takes a free one for the calling kernel thread `tid`.
    pub(super) fn claim(&self, tid: i32, handler: usize) -> bool {
        if self.tid.compare_exchange(0, -1, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.flag.store(false, Relaxed);
        self.requests.store(0, Relaxed);
        self.timed.store(false, Relaxed);
        self.upid.take();
        self.upid.suppress(false);
        self.upid.destination.store(tid, Release);
        self.handler.store(handler, Relaxed);
        self.tid.store(tid, Release);
        true
    }

    /// The calling thread leaves it. Who still sends to it notifies nobody.
    pub(super) fn release(&self) {
        self.flag.store(false, Relaxed);
        self.upid.suppress(true);
        self.tid.store(0, Release);
    }

    /// UIF.
    pub(super) fn flag(&self) -> bool {
        self.flag.load(Relaxed)
    }

    pub(super) fn set_flag(&self, flag: bool) {
        self.flag.store(flag, Relaxed);
    }

    /// UINV is `vector` from now on.
    pub(super) fn recognise(&self, vector: Vector) {
        self.timed.store(vector == Vector::Timer, Release);
    }

    /// An interrupt has come. `false`: it is the kernel's.
    pub(super) fn interrupted_by(&self, vector: Vector) -> bool {
        let ours = (vector == Vector::Timer) == self.timed.load(Acquire);
        if ours {
            self.requests.fetch_or(self.upid.take(), AcqRel);
        }
        ours
    }

    /// The user interrupt to deliver now, the highest first. UIF is cleared.
    pub(super) fn deliver(&self) -> Option<u64> {
        let requests = self.requests.load(Acquire);
        if requests == 0 || !self.flag() {
            return None;
        }
        let vector = u64::from(63 - requests.leading_zeros());
        self.requests.fetch_and(!(1 << vector), AcqRel);
        self.set_flag(false);
        Some(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu() -> Cpu {
        let cpu = Cpu::new();
        assert!(cpu.claim(7, 1000) && !cpu.claim(8, 1000));
        cpu
    }

    #[test]
    fn two_sends_are_one_notification_and_one_interrupt_for_each_vector() {
        let cpu = cpu();
        assert_eq!(cpu.upid.post(3), Some(7));
        assert_eq!((cpu.upid.post(3), cpu.upid.post(5)), (None, None));
        assert!(cpu.interrupted_by(Vector::Notification));
        assert_eq!(cpu.deliver(), None, "UIF is 0");
        cpu.set_flag(true);
        assert_eq!((cpu.deliver(), cpu.flag()), (Some(5), false));
        assert_eq!(cpu.deliver(), None, "UIF is 0 in the handler");
        cpu.set_flag(true);
        assert_eq!(cpu.deliver(), Some(3));
        cpu.set_flag(true);
        assert_eq!(cpu.deliver(), None);
        assert_eq!(cpu.upid.post(3), Some(7), "ON was cleared");
    }

    #[test]
    fn a_delegated_timer_needs_a_posted_vector_each_time() {
        let cpu = cpu();
        cpu.set_flag(true);
        cpu.recognise(Vector::Timer);
        cpu.upid.suppress(true);
        assert!(cpu.interrupted_by(Vector::Timer));
        assert_eq!(cpu.deliver(), None, "nothing was posted");
        assert_eq!(cpu.upid.post(1), None, "SN keeps the notification back");
        assert!(cpu.interrupted_by(Vector::Timer) && !cpu.interrupted_by(Vector::Notification));
        assert_eq!(cpu.deliver(), Some(1));
        cpu.set_flag(true);
        assert!(cpu.interrupted_by(Vector::Timer));
        assert_eq!(cpu.deliver(), None, "it must be posted again");
    }

    #[test]
    fn who_has_gone_is_not_notified() {
        let cpu = cpu();
        cpu.upid.post(0);
        cpu.release();
        assert_eq!(cpu.upid.post(0), None);
        assert!(cpu.claim(9, 1000));
        cpu.set_flag(true);
        assert!(cpu.interrupted_by(Vector::Notification));
        assert_eq!(cpu.deliver(), None, "what was meant for another");
        assert_eq!(cpu.upid.post(0), Some(9));
    }
}
