//! When the kernel's scheduler lets a carrier run, beside others on its CPU.
//!
//! A carrier has one of three [roles](Role), and they meet on one CPU: a thread blocks in the
//! kernel, a spare gets its worker, and the thread's call ends while that computes. Left to itself
//! the kernel would have each of them wait for the other's slice to end, at a tick, milliseconds
//! later:
//!
//! * A *spare* is woken by who is about to block, and must not run before that has made its call.
//!   As `SCHED_BATCH` it preempts nobody when it wakes.
//! * Who is *away* and comes back has a microsecond to do, and should do so at once. With a shorter
//!   slice than the worker's it preempts it when it wakes, unless it has had more than its share.
//!   Since Linux 6.12; older kernels ignore it. ([EEVDF])
//! * A *worker* is what the user has made of it.
//!
//! Who has had a little more than its share when it comes back is not run at once, and the kernel
//! looks at that again at a tick. So a worker that preempts a thread while somebody is away lets it
//! [look](look_again), at most once in [`APART`].
//!
//! Nobody gets more of the CPU by this. Threads of another policy than the default (`chrt`), and
//! those that a sandbox forbids the calls, stay as they are. Niceness stays.
//!
//! [EEVDF]: https://docs.kernel.org/scheduler/sched-eevdf.html

use crate::sys;
use core::sync::atomic::{AtomicU8, Ordering::*};
use std::time::Duration;

/// The kernel's smallest slice, in ns.
const SHORT: u64 = 100_000;

/// What a carrier is at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Role {
    /// It has a slot.
    Worker,
    /// It makes a system call for a thread, or sleeps in a page fault. In a closure that blocks it
    /// stays a worker: what that starts would inherit the slices.
    Away,
    /// It waits for a slot.
    Spare,
}

/// Not to be changed, or not any more.
const FIXED: u8 = u8::MAX;

/// `struct sched_attr` of `linux/sched/types.h`, its first version.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice, in ns; 0 on kernels before 6.12.
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl SchedAttr {
    /// Of the kernel thread `tid`, 0: the caller.
    fn of(tid: i32) -> Option<SchedAttr> {
        let mut attr = SchedAttr::default();
        let (at, size) = (&raw mut attr as u64, size_of::<SchedAttr>() as u64);
        // SAFETY: the kernel writes a structure of the given size.
        let got =
            unsafe { sys::syscall6(libc::SYS_sched_getattr, [tid as u64, at, size, 0, 0, 0]) };
        (got == 0).then_some(attr)
    }

    fn is(&self, policy: i32) -> bool {
        self.policy == policy as u32
    }

    /// `false`: refused.
    fn set(&self, tid: i32) -> bool {
        // SAFETY: the kernel reads the structure, which says its own size.
        unsafe {
            sys::syscall3(libc::SYS_sched_setattr, tid as u64, self as *const _ as u64, 0) == 0
        }
    }
}

/// Short slices for the calling kernel thread, which sleeps most of the time and then has little to
/// do, for good.
pub(crate) fn shorten() {
    if let Some(mut attr) = SchedAttr::of(0).filter(|attr| attr.is(libc::SCHED_OTHER)) {
        attr.runtime = SHORT;
        attr.set(0);
    }
}

/// Between two times that a worker lets the kernel look, at least: after a short slice.
pub(crate) const APART: Duration = Duration::from_nanos(SHORT);

/// The kernel charges the caller for its time, and looks whether somebody else is to run.
pub(crate) fn look_again() {
    sys::cpu_time_of_this_thread();
}

/// The turns of one kernel thread.
pub(crate) struct Turns {
    /// The worker's slice, in ns; 0: there are none.
    usual: u64,
    /// A [`Role`], or [`FIXED`].
    role: AtomicU8,
}

impl Turns {
    /// The caller's, who is a worker so far.
    pub(crate) fn of_caller() -> Turns {
        let attr = SchedAttr::of(0).filter(|attr| attr.is(libc::SCHED_OTHER));
        let role = attr.map_or(FIXED, |_| Role::Worker as u8);
        Turns { usual: attr.map_or(0, |attr| attr.runtime), role: AtomicU8::new(role) }
    }

    /// By the thread itself, which is something else from now on.
    #[inline]
    pub(crate) fn change(&self, role: Role) {
        let before = self.role.load(Relaxed);
        if before != role as u8 && before != FIXED {
            self.change_for(0, role);
        }
    }

    /// The same for `tid`, whose turns these are, by another thread. Should it change them itself
    /// at this moment, they may be wrong until it does so the next time.
    #[cold]
    pub(crate) fn change_for(&self, tid: i32, role: Role) {
        let before = self.role.load(Acquire);
        let was = if before == Role::Spare as u8 { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
        let changed = before != FIXED
            && SchedAttr::of(tid).is_some_and(|attr| {
                let wanted = self.wanted(attr, role);
                attr.is(was) && (wanted == attr || wanted.set(tid))
            });
        self.role.store(if changed { role as u8 } else { FIXED }, Release);
    }

    fn wanted(&self, attr: SchedAttr, role: Role) -> SchedAttr {
        let policy = if role == Role::Spare { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
        let runtime = if role == Role::Away { self.usual.min(SHORT) } else { self.usual };
        SchedAttr { policy: policy as u32, runtime, ..attr }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// In a kernel thread of its own.
    fn apart(test: impl FnOnce() + Send) {
        std::thread::scope(|s| s.spawn(test).join().unwrap());
    }

    #[test]
    fn a_worker_is_as_before_in_the_end() {
        apart(|| {
            let (turns, before) = (Turns::of_caller(), SchedAttr::of(0).unwrap());
            if !before.is(libc::SCHED_OTHER) {
                return;
            }
            let all = [Role::Spare, Role::Worker, Role::Away, Role::Spare, Role::Away];
            for role in all {
                turns.change(role);
                let now = SchedAttr::of(0).unwrap();
                assert_eq!(now.is(libc::SCHED_BATCH), role == Role::Spare, "{role:?}");
                assert_eq!(now.runtime == before.runtime, role != Role::Away || now.runtime == 0);
                assert_eq!(now.nice, before.nice);
            }
            turns.change(Role::Worker);
            assert_eq!(SchedAttr::of(0), Some(before));
        });
    }

    #[test]
    fn what_somebody_else_has_chosen_stays() {
        apart(|| {
            let turns = Turns::of_caller();
            let idle = SchedAttr { policy: libc::SCHED_IDLE as u32, ..SchedAttr::of(0).unwrap() };
            assert!(idle.set(0));
            let idle = SchedAttr::of(0);
            for turns in [turns, Turns::of_caller()] {
                for role in [Role::Away, Role::Spare, Role::Worker] {
                    turns.change(role);
                    assert_eq!(SchedAttr::of(0), idle);
                }
            }
        });
    }
}
