//! Blocking calls.

use crate::thread::raw;
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use quaver_sched::Why;

/// Runs `f`, which will block in the kernel, without occupying a worker.
///
/// The worker is given to a spare kernel thread before `f` starts; `f` runs on the calling user thread's stack, outside the
/// workers and unpreempted; afterwards the thread queues for a worker again. Costs a few microseconds, so it is for
/// calls that block longer.
///
/// A blocking call outside `block_in_place` works as well: when other threads wait, the clock notices, interrupts the call and
/// does the same for it (see the architecture page). `block_in_place` does so at once, and without interrupting the call.
///
/// If no spare kernel thread is ready (each takes a moment to start, and there are at most
/// [`Builder::max_blocking`](crate::Builder::max_blocking)), `f` runs on the worker. On an ordinary kernel thread this just calls
/// `f`.
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
    t.preempt_disable();
    // SAFETY: preemption is disabled until the carrier has been used.
    let c = unsafe { Carrier::here() };
    // SAFETY: a user thread with preemption disabled. Without a spare the thread keeps its slot.
    unsafe { scheduler::hand_over(c) };
    t.preempt_enable();
    let returning = Return;
    let result = f();
    drop(returning);
    result
}

/// Gets a worker back, also when the closure panics.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        let Some(t) = raw::current() else { return };
        t.preempt_disable();
        // SAFETY: preemption is disabled, and `leave` is the last use.
        if unsafe { Carrier::here() }.slot().is_none() {
            // SAFETY: the calling thread, preemption disabled.
            unsafe { scheduler::leave(t, After::Requeue(t, Why::Woken)) };
        }
        t.preempt_enable();
    }
}
