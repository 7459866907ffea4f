//! Blocking calls.

use crate::park::shim::os_nap;
use crate::thread::control::Uthread;
use crate::thread::{only_yield, raw};
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use quaver_sched::Why;

/// Runs `f`, which will block in the kernel, without occupying a worker.
///
/// The worker is given to a spare kernel thread before `f` starts; `f` runs on the calling user
/// thread's stack, outside the workers and unpreempted; afterwards the thread queues for a worker
/// again. Costs a few microseconds, so it is for calls that block longer.
///
/// A blocking call outside `block_in_place` works as well: when other threads wait, the clock
/// notices, interrupts the call and does the same for it (see the architecture page); without a
/// quantum, or with one of more than 100 ms, a fifth of a second later. `block_in_place` does so at
/// once, and without interrupting the call. On a busy CPU the thread may then come back a tick of
/// the kernel later than from such a call, for which the scheduler is asked to prefer it: what `f`
/// starts would inherit that.
///
/// If no spare kernel thread is ready, the thread waits until one has been started, and others run
/// meanwhile. If there are [`Builder::max_blocking`](crate::Builder::max_blocking) already, all of
/// them in use, or the system refuses to start another, `f` runs on the worker. On an ordinary
/// kernel thread this just calls `f`.
///
/// Calls nest: the worker comes back at the end of the outermost. If the thread waits inside for
/// something that needs none, a lock or a timer, it gives its worker away again afterwards.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let text = quaver::block_in_place(|| std::fs::read_to_string("/proc/self/comm"))?;
/// assert!(!text.is_empty());
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub fn block_in_place<T>(f: impl FnOnce() -> T) -> T {
    let Some(t) = raw::current() else { return f() };
    t.blocking.set(t.blocking.get() + 1);
    give_worker_away(t);
    let returning = Return;
    let result = f();
    drop(returning);
    result
}

/// Gives the worker of the calling thread `t` to a spare kernel thread, for which it waits while
/// one is being made; others run meanwhile. `false`: there is none to be had now, and the thread
/// keeps its worker.
pub(crate) fn give_worker_away(t: &'static Uthread) -> bool {
    loop {
        t.preempt_disable();
        // SAFETY: preemption is disabled until the carrier has been used.
        let c = unsafe { Carrier::here() };
        // SAFETY: a user thread with preemption disabled.
        let given = unsafe { scheduler::hand_over(c) };
        let expected = c.rt().spares.expected();
        t.preempt_enable();
        if given || !expected {
            return given;
        }
        let_others_run(t);
    }
}

/// A moment for something that nobody announces.
pub(crate) fn let_others_run(t: &'static Uthread) {
    if !only_yield(t) {
        os_nap();
    }
}

/// The calling thread `t` has waited and may have come back on a worker: if it is in a call that
/// blocks, it gives that away.
#[inline]
pub(crate) fn leave_again(t: &'static Uthread) {
    if t.blocking.get() != 0 {
        give_worker_away(t);
    }
}

/// The end of a call that blocks, for which [`Uthread::blocking`] was increased. That of the
/// outermost queues for a worker and returns on it, if `t`, the calling thread, has given its own
/// away.
pub(crate) fn take_worker_back(t: &'static Uthread) {
    let depth = t.blocking.get().saturating_sub(1);
    t.blocking.set(depth);
    if depth != 0 {
        return;
    }
    t.preempt_disable();
    // SAFETY: preemption is disabled, and `leave` is the last use.
    if unsafe { Carrier::here() }.slot().is_none() {
        // SAFETY: the calling thread, preemption disabled.
        unsafe { scheduler::leave(t, After::Requeue(t, Why::Woken)) };
    }
    t.preempt_enable();
}

/// Gets a worker back, also when the closure panics.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        if let Some(t) = raw::current() {
            take_worker_back(t);
        }
    }
}
