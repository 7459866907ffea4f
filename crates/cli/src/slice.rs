//! How long the kernel lets a spinning thread run before it heeds others.

use std::time::Duration;

/// The longest time slice that the kernel accepts.
const LONGEST: Duration = Duration::from_millis(100);

/// Asks for this time slice for the calling kernel thread, as Linux does from 6.12 on: 100 us to
/// 100 ms. A shorter one is served sooner when the thread wakes up, and interrupted sooner for
/// others.
///
/// Older kernels ignore the wish, and a refusal leaves the default, so there is no error.
pub fn set(slice: Duration) {
    let attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: slice.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes, all of which are there; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// Asks for the longest time slice for the calling kernel thread, which is meant to spin.
///
/// That makes it the *most* considerate neighbour: since Linux 6.12 a thread that wakes up runs at
/// once when its slice is shorter than that of the thread it finds running, while among equals it
/// may have to wait for milliseconds. So a spinning client can share its CPU with a timer thread
/// that sleeps most of the time.
pub fn prefer_wakers() {
    set(LONGEST);
}
