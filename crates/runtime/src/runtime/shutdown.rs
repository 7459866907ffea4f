//! The end of a runtime.

use super::{Inner, OCCUPIED, Runtime};
use crate::clock::rescue::Rescue;
use crate::preempt::{self, Stage};
use crate::reactor::REACTOR;
use crate::share::Share;
use crate::worker::descheduled::Descheduled;
use crate::{park, thread, tsc};
use core::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// What a shutdown left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// User threads that had not ended, or had ended and were still to be joined. They never run
    /// again; their stacks stay allocated.
    pub threads: usize,
    /// Kernel threads that did not stop, because a system call or a non-preemptible region holds
    /// them.
    pub kernel_threads: usize,
}

/// How long a shutdown waits for threads inside libraries, and then for carriers.
const PATIENCE: Duration = Duration::from_secs(2);

impl Runtime {
    /// Stops the runtime. User threads that have not ended are stopped wherever they are and never
    /// run again: like the threads of a process whose `main` returns, they are not unwound. Waits
    /// for those inside the C library, whose locks they would keep, to leave it, and for running
    /// ones to be interrupted, two seconds at most each.
    ///
    /// A lock that such a thread owns stays locked. One that it waits for does not: the locks of
    /// this crate and of `std` pass over it when they wake somebody. `parking_lot`'s do not,
    /// because they keep lists of their own.
    ///
    /// On a user thread of the runtime itself this does not return: the caller is stopped like all
    /// others. The same holds for dropping the runtime there.
    pub fn shutdown(self) -> Leftover {
        let leftover = Self::stop(self.inner);
        core::mem::forget(self);
        leftover
    }

    fn stop(rt: &'static Inner) -> Leftover {
        if rt.has_stopped() {
            // In the child of a fork.
            return Leftover { threads: rt.in_use(), kernel_threads: 0 };
        }
        if thread::raw::current().is_some() {
            // A kernel thread must do it: this one is going to be stopped.
            let stopper = std::thread::spawn(move || Self::stop(rt));
            loop {
                thread::yield_now();
                assert!(!stopper.is_finished() || rt.has_stopped(), "the runtime was not stopped");
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while !rt.in_library.is_left() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        // However long that took: nobody may be left without having been interrupted.
        let deadline = Instant::now() + PATIENCE;
        rt.stopping.store(true, SeqCst);
        park::runtime_stops();
        rt.spares.wake_keeper();
        // Carriers that are away come back when their calls return; nobody waits for that.
        for round in 0.. {
            if rt.alive.load(Acquire) <= rt.away.load(Acquire) || Instant::now() >= deadline {
                break;
            }
            rt.idle.wake_all(rt);
            if rt.share.as_ref().is_some_and(Share::fills_cores) {
                REACTOR.call_listener();
            }
            rt.clock.wake();
            rt.rescue.iter().flatten().for_each(Rescue::wake);
            rt.descheduled.iter().for_each(Descheduled::wake);
            rt.spares.wake_all();
            rt.room.wake(rt);
            rt.watch.wake(rt);
            // Interrupt what runs: the handler lets go of any thread while the runtime stops.
            for slot in rt.slots() {
                if let Some((run, _)) = slot.running() {
                    // A thread may have set a flag aside for long. But each signal to one that has
                    // lost its CPU is a frame on its stack.
                    if round % 64 == 0 {
                        slot.request.over();
                    }
                    preempt::send(rt, slot, run, tsc::now(), Stage::First);
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        rt.stopped.store(true, SeqCst);
        thread::wake_owners();
        preempt::install_overflow_report(core::ptr::null());
        // Kernel threads that wait for a user thread's end must learn that it will not come.
        for h in 0..rt.table.high() {
            let t = rt.table.get(h);
            if t.life.is_joined()
                && let Some(w @ park::Waiter::Kernel(_)) = t.joiner()
            {
                park::unpark(w);
            }
        }
        let leftover = Leftover { threads: rt.in_use(), kernel_threads: rt.alive.load(Acquire) };
        if leftover == (Leftover { threads: 0, kernel_threads: 0 }) {
            // SAFETY: no thread is in use and nothing of the runtime runs.
            unsafe { rt.table.release() };
        }
        rt.share.iter().for_each(Share::leave);
        OCCUPIED.store(false, Release);
        leftover
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        Self::stop(self.inner);
    }
}

/// A runtime was asked for something after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quaver runtime has been shut down")]
pub struct ShutDown;
