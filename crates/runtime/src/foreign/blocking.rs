//! Calls that block in the kernel, with a begin and an end, as [`crate::block_in_place`].

use crate::block::{give_worker_away, let_others_run, take_worker_back};
use crate::thread::raw::current;

/// Gives the calling thread's worker to a spare kernel thread. If none is to be had it waits for
/// one, and others run meanwhile, so what follows may block without stopping anybody. Nothing on
/// other threads.
///
/// Calls nest; each needs its [`end`].
///
/// Costs the wake-up of a kernel thread: for calls that do block.
pub fn begin() {
    let Some(t) = current() else { return };
    t.blocking.set(t.blocking.get() + 1);
    while !give_worker_away(t) {
        let_others_run(t);
    }
}

/// Queues for a worker and returns on it, if the outermost [`begin`] has given one away.
pub fn end() {
    if let Some(t) = current() {
        take_worker_back(t);
    }
}
