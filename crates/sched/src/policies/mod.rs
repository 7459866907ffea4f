//! The built-in policies, one file each. [`Spec`](crate::Spec) chooses among them by name.
//!
//! | name | queues | quantum | the running thread stops when its quantum is used and |
//! |---|---|---|---|
//! | [`fifo`](Fifo) | one, shared | none | never |
//! | [`rr`](RoundRobin) | one, shared | one | something waits |
//! | [`ws`](WorkStealing) | one a worker, one shared | one | something waits here or in the shared queue |
//! | [`two-queue`](TwoQueue) | new and preempted a worker, one shared | two | the same; longer if all of it was preempted |
//! | [`cfs`](Cfs) | one a worker by virtual runtime, one shared | share of `latency` | it is ahead of one that waits |
//! | [`eevdf`](Eevdf) | eligible and early ones a worker, one shared | one slice | it would not be chosen again |
//! | [`shinjuku-shenango`](ShinjukuShenango) | LC and BE, central | one each | LC: as before; BE: LC work has waited too long |
//! | [`priority`](Priority) | eight, central | one | at once for a higher level, else something of its level waits |
//! | [`las`](LeastAttained) | one, central, by attained service | one | one that waits has had no more service |
//! | [`adaptive`](Adaptive) | as `two-queue` | chosen every millisecond | as `two-queue` |
//!
//! `aspen` is `two-queue` with the order of stealing in Aspen's code. `shinjuku` is another name of
//! `rr`: one central queue with a quantum (Skyloft section 5.2). What sets Shinjuku apart is who
//! serves the queue, a dispatcher on a core of its own, and that is the host's: a simulator may
//! have one for every policy that is [`central`](crate::Policy::central).
//!
//! All take times in the host's unit. A quantum of `None` means that a running thread is never
//! stopped.

mod adaptive;
mod cfs;
mod eevdf;
mod fifo;
mod history;
mod las;
mod looks;
mod priority;
mod resumed;
mod rr;
mod shenango;
mod turns;
mod two_queue;
mod ws;

pub use adaptive::{Adaptive, AdaptiveTimes};
pub use cfs::Cfs;
pub use eevdf::Eevdf;
pub use fifo::Fifo;
pub use las::LeastAttained;
pub use priority::Priority;
pub use rr::RoundRobin;
pub use shenango::{ShenangoTimes, ShinjukuShenango};
pub use turns::SHARED_EVERY;
pub use two_queue::{TwoQueue, TwoQueueTimes};
pub use ws::WorkStealing;

use crate::{Running, Time};

/// When `running` must stop if it may run for `quantum`: at its end if something waits now; else,
/// if a timer will make something wait, at its end but not before the timer; else never.
fn stop_at(
    running: &Running,
    quantum: Time,
    waiting: bool,
    next_timer: Option<Time>,
) -> Option<Time> {
    let end = running.since.saturating_add(quantum);
    if waiting { Some(end) } else { next_timer.map(|timer| end.max(timer)) }
}
