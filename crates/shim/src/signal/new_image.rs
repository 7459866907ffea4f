//! What the image that takes this one's place by `exec` inherits: what is blocked, and what is
//! pending.
//!
//! Of both the kernel does not know. While it tries to replace the image, the courier takes nothing
//! from it, and it has what is in the queues and blocked, for the kernel thread that calls it: that
//! survives, with what is pending for it. The new image's first kernel thread finds it there
//! ([`take_inherited`]).

use super::{bit, courier, deliver, managed, mask, queue, send, with_kernel_mask};
use crate::exec::in_place;
use crate::state::Thread;
use crate::sys::{self, call};
use core::sync::atomic::Ordering::*;
use std::time::Duration;

/// Runs `f`, which replaces the image, or returns, and then all is as it was.
pub(crate) fn replace<R>(me: &'static Thread, f: impl FnOnce() -> R) -> R {
    let is_managed = managed().is_some() && !super::in_child_of_vfork();
    let _held = is_managed.then(|| {
        loop {
            let held = courier::hold();
            if !deliver::is_due(me) {
                break held;
            }
            // A handler may be left by a jump.
            drop(held);
            deliver::deliver_here(me);
        }
    });
    in_place(|| {
        let lend = || {
            let _lent = is_managed.then(|| Lent::all(me));
            f()
        };
        // SAFETY: what the thread blocks.
        unsafe { with_kernel_mask(mask::for_exec(me), lend) }
    })
}

/// Signals that the kernel has for the calling kernel thread, and which are in the queues
/// nevertheless: nobody takes any from there meanwhile.
struct Lent {
    set: u64,
    count: usize,
    _locked: queue::Locked,
}

impl Lent {
    /// Those for `me` and for the process that `me` blocks, and its kernel thread, too.
    fn all(me: &Thread) -> Lent {
        let locked = queue::locked();
        let mut lent = Lent { set: 0, count: 0, _locked: locked };
        let blocked = me.signals.mask.load(Relaxed);
        let (process, thread) = (super::process() as usize, sys::kernel_tid() as usize);
        for pending in [&me.signals.pending, &queue::PROCESS] {
            pending.each(&lent._locked, |info| {
                let signal = info.si_signo;
                let a = [process, thread, signal as usize, &raw const *info as usize, 0, 0];
                // SAFETY: complete; to itself a thread may send anything.
                let sent = blocked & bit(signal) != 0
                    && unsafe { call(libc::SYS_rt_tgsigqueueinfo, a) } == 0;
                lent.set |= if sent { bit(signal) } else { 0 };
                lent.count += usize::from(sent);
            });
        }
        lent
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // The kernel gives what is for the kernel thread first, and afterwards what has come for
        // the process, which is left to the courier.
        for _ in 0..self.count {
            courier::wait_for_kernels(self.set, Some(Duration::ZERO));
        }
    }
}

/// Takes what is pending for the calling kernel thread, the process's first, since another image:
/// signals of `blocked`. They become the process's, because nobody knows whether they were.
pub(crate) fn take_inherited(blocked: u64) {
    while let Some(info) = courier::wait_for_kernels(blocked, Some(Duration::ZERO)) {
        send::to_process(&info);
    }
}
