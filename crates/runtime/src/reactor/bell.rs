//! Bells: the system calls by which a network stack says that frames are to be sent, put off until
//! several are.
//!
//! Whoever has put a frame where the kernel finds it *puts off* telling the kernel, if other
//! threads are about to run on the same worker: they may have something to send, too. Then
//!
//! * the worker tells it when it polls (every 20 µs at most), before it goes on with a thread that
//!   was preempted, and before it sleeps;
//! * the watcher tells it when a thread runs for long;
//! * the stack does itself when it is about to.
//!
//! Without preemption the next thread may run for ever, so nothing is put off.
//!
//! A bell is a bit of [`DUE`]. Who takes the bit makes the call: it is put back by nobody, so a
//! frame that comes after the bit was taken needs its own.

use crate::preempt;
use crate::sys::syscall6;
use crate::thread::raw;
use crate::worker::carrier::Carrier;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};
use std::os::fd::{AsRawFd, OwnedFd};

/// Bells in a process.
const MOST: usize = u32::BITS as usize;
/// How often the kernel is asked in vain.
const TRIES: u32 = 16;
/// No bell has this place.
const FREE: i32 = -1;
/// A bell will have it.
const TAKEN: i32 = -2;

struct BellPlace {
    file: AtomicI32,
    /// How many are at it.
    ringing: AtomicU32,
}

static PLACES: [BellPlace; MOST] =
    [const { BellPlace { file: AtomicI32::new(FREE), ringing: AtomicU32::new(0) } }; MOST];

/// Places that are taken.
static BELLS: AtomicU32 = AtomicU32::new(0);

/// Those that somebody has put off.
static DUE: AtomicU32 = AtomicU32::new(0);

/// May one be put off?
#[inline(always)]
pub(super) fn exists() -> bool {
    BELLS.load(Relaxed) != 0
}

/// Is one due?
#[inline(always)]
pub(crate) fn is_due() -> bool {
    DUE.load(Relaxed) != 0
}

/// Rings those that are due. Takes no lock, allocates nothing. Preemption is disabled, or the
/// caller is a kernel thread: who waits for the end of a bell spins.
#[cold]
pub(crate) fn ring_all() {
    preempt::assert_disabled();
    let mut due = DUE.swap(0, AcqRel);
    while due != 0 {
        let place = &PLACES[due.trailing_zeros() as usize];
        due &= due - 1;
        place.ringing.fetch_add(1, SeqCst);
        let file = place.file.load(SeqCst);
        if file >= 0 {
            ring(file);
        }
        place.ringing.fetch_sub(1, Release);
    }
}

fn ring(file: i32) {
    for _ in 0..TRIES {
        let flags = libc::MSG_DONTWAIT as u64;
        // SAFETY: no memory is involved.
        let r = unsafe { syscall6(libc::SYS_sendto, [file as u64, 0, 0, flags, 0, 0]) };
        // It has done its share, or is busy. Other errors are the stack's to find.
        let again = [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS].map(|e| -i64::from(e));
        if !again.contains(&r) {
            return;
        }
    }
}

/// In the child of a fork: the parent rings.
///
/// # Safety
///
/// There is no other thread.
pub(super) unsafe fn forget_all() {
    DUE.store(0, Relaxed);
    BELLS.store(0, Relaxed);
    for place in &PLACES {
        place.file.store(FREE, Relaxed);
        place.ringing.store(0, Relaxed);
    }
}

/// A file of the kernel's that sends what a stack has put into a ring that both share, when it is
/// asked to by an empty `sendto`: an AF_XDP socket. With it a [`stack`](crate::net::stack) can
/// leave the asking to its worker, which asks once for the frames of several threads.
#[derive(Debug)]
pub struct Bell {
    file: OwnedFd,
    /// `None`: all are taken, and this one is never put off.
    place: Option<usize>,
}

impl Bell {
    /// The bell of this file. One that is beyond the 32 of a process [never](Self::put_off) works.
    pub fn new(file: OwnedFd) -> Bell {
        let free =
            |place: &BellPlace| place.file.compare_exchange(FREE, TAKEN, AcqRel, Relaxed).is_ok();
        let place = PLACES.iter().position(free);
        if let Some(place) = place {
            PLACES[place].file.store(file.as_raw_fd(), SeqCst);
            BELLS.fetch_add(1, Relaxed);
        }
        Bell { file, place }
    }

    /// The calling user thread's worker asks soon, whatever the thread does now: `true`. That is
    /// within two quanta, and within a millisecond more where no thread has run for long lately.
    /// `false`: the caller has to ask. It has to if no other thread waits for the worker, if there
    /// is no preemption, and on kernel threads.
    ///
    /// Does not block. What is to be sent must be in the ring before.
    pub fn put_off(&self) -> bool {
        let (Some(place), Some(t)) = (self.place, raw::current()) else { return false };
        t.preempt_disable();
        // SAFETY: preemption is disabled until the reference has been used.
        let slot = unsafe { Carrier::here() }.slot();
        // There is a pace if there is a quantum.
        let is_put_off =
            slot.is_some_and(|slot| slot.rt().pace.is_some() && slot.policy().has_work(slot.id));
        // Once for those of a run: the watcher stays awake for a while.
        if let Some(slot) = slot
            && is_put_off
            && DUE.fetch_or(1 << place, AcqRel) == 0
        {
            slot.rt().watch.is_wanted(slot.rt());
        }
        t.preempt_enable();
        is_put_off
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let Some(place) = self.place.map(|place| &PLACES[place]) else { return };
        // In a child of fork it may belong to nobody, or to a later bell.
        let mine = self.file.as_raw_fd();
        if place.file.compare_exchange(mine, TAKEN, SeqCst, Relaxed).is_err() {
            return;
        }
        while place.ringing.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        BELLS.fetch_sub(1, Relaxed);
        place.file.store(FREE, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use core::sync::atomic::{AtomicBool, AtomicU64};
    use std::os::unix::net::UnixDatagram;
    use std::time::{Duration, Instant};

    /// An empty datagram comes when the bell is rung.
    fn bell() -> (Bell, UnixDatagram) {
        let (file, other) = UnixDatagram::pair().unwrap();
        other.set_nonblocking(true).unwrap();
        (Bell::new(file.into()), other)
    }

    fn has_rung(other: &UnixDatagram) -> bool {
        other.recv(&mut [0]).is_ok()
    }

    fn on_one_worker(quantum: Option<Duration>, f: impl FnOnce() + Send) {
        crate::__private::test(Builder::new().workers(1).quantum(quantum), f);
    }

    const QUANTUM: Option<Duration> = Some(Duration::from_micros(100));

    #[test]
    fn who_is_alone_rings_it() {
        let (bell, _other) = bell();
        assert!(!bell.put_off(), "a kernel thread");
        on_one_worker(QUANTUM, || assert!(!bell.put_off(), "nobody waits"));
        on_one_worker(None, || {
            let waits = crate::spawn(|| {});
            assert!(!bell.put_off(), "it may wait for ever");
            waits.join().unwrap();
        });
    }

    #[test]
    fn it_is_rung_for_several() {
        // Nobody is preempted, so they run in turn.
        on_one_worker(Some(Duration::from_secs(10)), || {
            let (bell, other) = bell();
            let bell = std::sync::Arc::new(bell);
            let put_off = || {
                let bell = bell.clone();
                move || bell.put_off()
            };
            // Each but the last has somebody behind it.
            let threads: Vec<_> = (0..4).map(|_| crate::spawn(put_off())).collect();
            assert!(bell.put_off());
            let all: Vec<bool> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            assert!(all[0], "{all:?}");
            while !has_rung(&other) {
                crate::yield_now();
            }
        });
    }

    #[test]
    fn one_who_computes_keeps_nobody_waiting() {
        for _ in 0..20 {
            on_one_worker(QUANTUM, || {
                let (bell, other) = bell();
                let waits = crate::spawn(|| {});
                // Otherwise the other was quicker.
                if bell.put_off() {
                    // It waits for no file, and nothing else does after a quantum.
                    let end = Instant::now() + Duration::from_secs(20);
                    while !has_rung(&other) {
                        assert!(Instant::now() < end, "nobody has rung");
                    }
                }
                waits.join().unwrap();
            });
        }
    }

    #[test]
    fn it_does_not_wait_for_a_preemption() {
        const BELLS: u64 = 100;
        // Preemptions are to take a hundredth of the time: some milliseconds lie between them.
        let preemptions_meanwhile = || {
            let rt = Builder::new().workers(1).quantum(QUANTUM).tax(1);
            let n = AtomicU64::new(u64::MAX);
            crate::__private::test(rt, || {
                let (bell, other) = bell();
                let end = std::sync::Arc::new(AtomicBool::new(false));
                let ends = end.clone();
                let waits = crate::spawn(move || {
                    while !ends.load(Relaxed) {
                        crate::yield_now();
                    }
                });
                let preemptions = || crate::Handle::current().unwrap().stats().preempt_useful;
                let before = preemptions();
                for _ in 0..BELLS {
                    while !bell.put_off() {
                        crate::yield_now();
                    }
                    while !has_rung(&other) {}
                }
                n.store(preemptions() - before, Relaxed);
                end.store(true, Relaxed);
                waits.join().unwrap();
            });
            n.into_inner()
        };
        // Beside other programs the watcher may be late.
        assert!((0..10).any(|_| preemptions_meanwhile() < BELLS / 2));
    }

    #[test]
    fn its_place_is_given_back() {
        // Other tests have none meanwhile.
        on_one_worker(None, || {
            let all: Vec<_> = (0..MOST + 1).map(|_| bell()).collect();
            assert!(all.iter().any(|(bell, _)| bell.place.is_none()));
            drop(all);
            assert!(bell().0.place.is_some());
        });
    }
}
